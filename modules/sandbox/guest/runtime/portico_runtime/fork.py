"""Isolation of one child of the fork-server: new user, mount, process, network,
IPC and host-name namespaces, file systems of its own, no capabilities, and the
system-call filters."""

import ctypes
import fcntl
import os
import signal
import socket
import struct

CONTROL = 3
PARENT, PIDS = 0x00008000, 0x20000000
NEW = 0x00020000 | 0x10000000 | PIDS | 0x40000000 | 0x08000000 | 0x04000000  # mount, user, processes, net, ipc, uts
READ_ONLY, NO_SUID, NO_DEV, NO_EXEC, REMOUNT, BIND, RECURSIVE = 1, 2, 4, 8, 32, 4096, 16384
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 4, 22, 24, 38, 47

MOST = 1 << 30  # more descriptors than a process can have
CLONE = {"x86_64": 56, "aarch64": 220}

_libc = ctypes.CDLL(None, use_errno=True)
# For the one call in whose middle there are two interpreters: it keeps the
# interpreter's lock.
_both = ctypes.PyDLL(None, use_errno=True)
_both.syscall.restype = ctypes.c_long
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
_libc.madvise.argtypes = (ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)
_libc.prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)


class _Program(ctypes.Structure):
    """struct sock_fprog"""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (what, os.strerror(number)))


HUGE_PAGE, MADV_COLLAPSE = 2 << 20, 25


def collapse():
    """Put memory into huge pages, as far as the kernel can: a fork copies the
    table of a process' pages, which is then hundreds of times smaller."""
    with open("/proc/self/maps") as maps:
        lines = [line.split() for line in maps]
    for span, rights, _, _, _, *name in lines:
        if not rights.startswith("rw") or name not in ([], ["[heap]"]):
            continue
        begin, end = (int(number, 16) for number in span.split("-"))
        begin, end = -(-begin // HUGE_PAGE) * HUGE_PAGE, end // HUGE_PAGE * HUGE_PAGE
        for at in range(begin, end, HUGE_PAGE):
            _libc.madvise(at, HUGE_PAGE, MADV_COLLAPSE)  # a kernel that cannot leaves it as it is


def clone(flags):
    """A fork with flags: os.fork and unshare would take a process more."""
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    child = _both.syscall(CLONE[os.uname().machine], flags, 0, 0, 0, 0)
    if child == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
        _check(0 if child > 0 else -1, "clone")
    return child


def enter(place, kinds):
    """Join namespaces of a process; that of processes counts for children."""
    _check(_libc.setns(place, kinds), "enter")


def become_program(place, descriptors, enters, filters):
    """Be the program of the sandbox that has its process 1 at place. What
    enters is closed then: from there on nobody may look at process 1."""
    try:
        out, error = descriptors[1:]
        os.dup2(error, 2)  # first, for what is said below
        enter(place, NEW & ~PIDS)
        os.close(enters)
        control = fcntl.fcntl(descriptors[0], fcntl.F_DUPFD, 64)
        os.dup2(out, 1)
        os.dup2(control, CONTROL)
        os.closerange(CONTROL + 1, MOST)
        os.setpgid(0, 1)  # or a signal to the own group would reach others
        os.chdir("/mnt/data")
        bound()
        drop()
        restrict(filters)
    except BaseException as failure:
        _fail(failure)


def become_init(request, identity, descriptors):
    """Be process 1 of new namespaces, which makes them a sandbox. When it is
    killed, it takes everything else along."""
    try:
        control, error, keeper = (fcntl.fcntl(fd, fcntl.F_DUPFD, 64) for fd in descriptors)
        os.dup2(error, 2)
        os.dup2(control, CONTROL)
        os.dup2(keeper, CONTROL + 1)
        os.closerange(CONTROL + 2, MOST)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # orphans are not waited for
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.setpgid(0, 0)
        _map(identity)
        _mounts(request)
        mount("proc", "/proc", "proc", NO_SUID | NO_DEV | NO_EXEC)
        os.write(CONTROL, b"P")  # the socket tells the host our number there
        bound()
        drop()
        os.write(CONTROL + 1, b"I")
        os.read(CONTROL + 1, 1)  # now there is a program
        _check(_libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "dumpable")
        os.closerange(0, MOST)
        while True:
            signal.pause()
    except BaseException as failure:
        _fail(failure)


def _fail(failure):
    os.write(2, ("%s: %s\n" % (type(failure).__name__, failure)).encode())
    os._exit(1)


def _map(identity):
    """Be the same user inside as outside."""
    maps = ("%d %d 1" % (number, number) for number in identity)
    for name, text in zip(("setgroups", "uid_map", "gid_map"), ("deny", *maps)):
        fd = os.open("/proc/self/" + name, os.O_WRONLY)
        os.write(fd, text.encode())
        os.close(fd)


def mount(source, target, kind, flags, options=None):
    _check(
        _libc.mount(source.encode(), target.encode(), kind and kind.encode(), flags, options and options.encode()),
        "mount " + target,
    )


def limited(disk, inodes):
    """The three file systems that a program can write to."""
    options = "size=%d,nr_inodes=%d,mode=" % (disk, inodes)
    mount("tmpfs", "/tmp", "tmpfs", NO_SUID | NO_DEV, options + "1777")
    mount("tmpfs", "/mnt/data", "tmpfs", NO_SUID | NO_DEV, options + "755")
    mount("tmpfs", "/dev/shm", "tmpfs", NO_SUID | NO_DEV, options + "1777")


def _mounts(request):
    limited(request["disk"], request["inodes"])
    # Only this child's folders; then nobody's.
    slot = "/run/portico-slots/%d/" % request["slot"]
    for folder, target in (("run", "/run/portico"), ("tools", "/refly_tools")):
        mount(slot + folder, target, None, BIND)
        mount("none", target, None, REMOUNT | BIND | READ_ONLY | NO_SUID | NO_DEV)
    mount("tmpfs", "/run/portico-slots", "tmpfs", READ_ONLY | NO_SUID | NO_DEV, "size=4096,nr_inodes=2,mode=000")
    # The loopback of the new network namespace, as programs expect it.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, 0x8914, struct.pack("16sH14x", b"lo", 0x41))  # SIOCSIFFLAGS: up, running


with open("/proc/sys/kernel/cap_last_cap") as _last:
    _CAPABILITIES = int(_last.read()) + 1


def bound():
    """Empty the set of capabilities that can ever be gained."""
    for capability in range(_CAPABILITIES):
        _check(_libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0), "bounding set")


def drop():
    """Give up every capability, for good."""
    _check(_libc.prctl(PR_CAP_AMBIENT, 4, 0, 0, 0), "ambient set")  # clear all
    _check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    header = struct.pack("=Ii", 0x20080522, 0)  # version 3, this process
    _check(_libc.capset(ctypes.create_string_buffer(header), ctypes.create_string_buffer(24)), "capabilities")


def own_itself():
    """Give a process that changed its user back what is about it in /proc."""
    _check(_libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "dumpable")


def restrict(filters):
    for code in filters:
        program = _Program(len(code) // 8, code)
        _check(_libc.prctl(PR_SET_SECCOMP, 2, ctypes.addressof(program), 0, 0), "filter")
