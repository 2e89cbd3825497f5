"""Isolation of one child of the fork-server, from the fork to the wait for its
job: new user, mount, process, network, IPC and host-name namespaces, file
systems of its own, no capabilities, and the system-call filters."""

import base64
import ctypes
import fcntl
import gc
import json
import os
import signal
import socket
import struct
import sys

CONTROL = 3
STATUS = 4
NEW = 0x00020000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000  # mount, user, pid, net, ipc, uts
READ_ONLY, NO_SUID, NO_DEV, NO_EXEC, REMOUNT, BIND, RECURSIVE = 1, 2, 4, 8, 32, 4096, 16384
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 4, 22, 24, 38, 47

CLONE = {"x86_64": 56, "aarch64": 220}

_libc = ctypes.CDLL(None, use_errno=True)
# For the one call in whose middle there are two interpreters: it keeps the
# interpreter's lock.
_both = ctypes.PyDLL(None, use_errno=True)
_both.syscall.restype = ctypes.c_long
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
_libc.prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)


class _Program(ctypes.Structure):
    """struct sock_fprog"""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (what, os.strerror(number)))


def serve():
    """Answer requests; return only in a child that is ready for its job."""
    requests = socket.socket(fileno=CONTROL)
    size = struct.unpack(">I", requests.recv(4, socket.MSG_WAITALL))[0]
    filters = [base64.b64decode(f) for f in json.loads(requests.recv(size, socket.MSG_WAITALL))]
    # What is there now is shared by all children, and never looked at again.
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are not waited for
    requests.sendall(b"R")
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, 4096, 4)
        if not message:
            os._exit(0)  # the server is gone, or needs no children
        uid, gid = os.getuid(), os.getgid()
        if _clone() == 0:
            requests.detach()
            if _become_sandbox(json.loads(message), (uid, gid), descriptors, filters):
                return
        for fd in descriptors:
            os.close(fd)
        requests.sendall(b"F")


def _clone():
    """A fork whose child is process 1 of new namespaces. os.fork and unshare
    would take a process, and a copy of the memory's tables, more."""
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    child = _both.syscall(CLONE[os.uname().machine], NEW | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
        _check(0 if child > 0 else -1, "clone")
    return child


def _become_sandbox(request, identity, descriptors, filters):
    """Isolate this process; True in the one that becomes the program."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control, out, error, status = (fcntl.fcntl(fd, fcntl.F_DUPFD, 64) for fd in descriptors)
        os.dup2(out, 1)
        os.dup2(error, 2)
        os.dup2(control, CONTROL)
        os.dup2(status, STATUS, inheritable=False)
        os.closerange(STATUS + 1, 1024)
        _map(identity)
        _mounts(request)
        return _be_init(filters)
    except BaseException as failure:
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


def _be_init(filters):
    """Process 1 of the new namespace: it tells how the program ended, and
    takes everything else along."""
    os.setsid()
    mount("proc", "/proc", "proc", NO_SUID | NO_DEV | NO_EXEC)
    os.write(CONTROL, b"P")  # the socket tells the host our number there
    bound()
    drop()
    program = os.fork()
    if program == 0:
        os.close(STATUS)
        restrict(filters)
        os.chdir("/mnt/data")
        return True
    _check(_libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "dumpable")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for fd in (0, 1, 2, CONTROL):
        os.close(fd)
    while True:
        pid, status = os.wait()
        if pid == program:
            os.write(STATUS, struct.pack("=i", status))
            os._exit(0)


def bound():
    """Empty the set of capabilities that can ever be gained."""
    with open("/proc/sys/kernel/cap_last_cap") as last:
        for capability in range(int(last.read()) + 1):
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
