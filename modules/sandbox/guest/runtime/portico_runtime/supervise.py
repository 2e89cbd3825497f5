"""The supervisor's work. It holds what no program may have, the rights of root
inside the sandbox; its child gives them up before it becomes the program."""

import array
import base64
import gc
import json
import os
import select
import shutil
import signal
import socket
import stat
import struct
import sys
import threading

from portico_runtime import fork

USER = 1000
WORK = "/mnt/data"
SOCKET = "/run/portico/init.sock"
MAX_DEPTH = 16

# A frame is a letter, the lengths of a name and of a body, and both.
_HEAD = struct.Struct(">cIQ")


def serve(saved):
    """Make the child and hold it; return only in the child."""
    greeting = json.loads(_read(0, struct.unpack(">I", _read(0, 4))[0]))
    filters = [base64.b64decode(f) for f in greeting["filters"]]
    fork.limited(greeting["disk"], greeting["inodes"])
    os.chown(WORK, USER, USER)
    _remove_devices("/dev")
    gc.collect()
    gc.freeze()
    ours, theirs = socket.socketpair()
    pipes = [os.pipe(), os.pipe()]
    child = os.fork()
    if child == 0:
        ours.close()
        for fd, (_, end) in zip((1, 2), pipes):
            os.dup2(end, fd)
        _bind(theirs, filters)
        return
    theirs.close()
    for _, end in pipes:
        os.close(end)
    os.chdir("/")
    _expect(ours, b"B")
    if saved:
        os.write(1, b"R")
    _read(0, 1)
    supervisor, program = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    supervisor.connect(SOCKET)
    program.connect(SOCKET)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [program.fileno()]))]
    ours.sendmsg([b"C"], rights)
    program.close()
    ours.close()
    os.close(0)
    relays = [threading.Thread(target=_relay, args=(end, fd)) for fd, (end, _) in zip((1, 2), pipes)]
    for relay in relays:
        relay.start()
    _Supervisor(supervisor, child, relays).run()


DEVICES = {"fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"}


def _remove_devices(folder):
    """What no program has a use for."""
    for name in os.listdir(folder):
        path = folder + "/" + name
        if name in DEVICES:
            continue
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.remove(path)


def _relay(source, target):
    """Carry an output from a pipe of the sandbox to one of the host, to which
    a write may take only a part of what a program writes."""
    while True:
        piece = os.read(source, 1 << 16)
        if not piece:
            os.close(target)
            return
        while piece:
            piece = piece[os.write(target, piece) :]


def _bind(conn, filters):
    """Give up everything, and wait for the descriptor that brings the job."""
    os.setsid()
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    fork.bound()
    os.setgroups([])
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    fork.own_itself()
    fork.drop()
    fork.restrict(filters)
    os.chdir(WORK)
    conn.sendall(b"B")
    _, descriptors, _, _ = socket.recv_fds(conn, 1, 1)
    if not descriptors:
        os._exit(0)
    conn.close()
    os.dup2(descriptors[0], fork.CONTROL)
    os.closerange(fork.CONTROL + 1, 1024)


class _Supervisor:
    def __init__(self, conn, child, relays):
        self._conn, self._child, self._relays = conn, child, relays
        self._ended = False

    def run(self):
        """Answer the host, and tell it when the child ended."""
        woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            ready, _, _ = select.select([self._conn, woken], [], [])
            if woken in ready:
                os.read(woken, 4096)
                self._reap()
            if self._conn in ready:
                self._answer()

    def _reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._child and not self._ended:
                self._end(status)
                return

    def _end(self, status):
        """Nothing outlives the program."""
        self._ended = True
        while True:
            try:
                os.kill(-1, signal.SIGKILL)
            except ProcessLookupError:
                pass
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                break
        for relay in self._relays:
            relay.join()
        self._send(b"X", str(status).encode())

    def _answer(self):
        kind, name, body = _HEAD.unpack(self._receive(_HEAD.size))
        name = self._receive(name)
        if kind in (b"W", b"R"):
            mode = 0o444 if kind == b"R" else 0o644
            self._send(kind, self._write(os.fsdecode(name), body, mode))
        elif kind == b"M":
            self._send(b"M", str(_memory()).encode())
        elif kind == b"L":
            self._send(b"L", _listen(int(name)))
        elif kind == b"S":
            if not self._ended:
                os.kill(self._child, signal.SIGKILL)
        elif kind == b"T":
            limit = json.loads(name)
            _Taking(self._send, limit["files"], limit["bytes"]).run()

    def _receive(self, n):
        data = bytearray(n)
        view, have = memoryview(data), 0
        while have < n:
            got = self._conn.recv_into(view[have:])
            if got == 0:
                os._exit(0)  # the server is gone
            have += got
        return bytes(data)

    def _send(self, kind, name, body=b""):
        self._conn.sendall(_HEAD.pack(kind, len(name), len(body)) + name)
        self._conn.sendall(body)

    def _write(self, path, size, mode):
        """Put one file into the program's folder, as its own. The answer is
        the number of an error, or nothing."""
        failed = b""
        os.setegid(USER)
        os.seteuid(USER)
        fd = -1
        try:
            os.makedirs(os.path.dirname(os.path.join(WORK, path)), exist_ok=True)
            fd = os.open(os.path.join(WORK, path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        except OSError as error:
            failed = str(error.errno).encode()
        while size > 0:
            piece = self._receive(min(size, 1 << 20))
            size -= len(piece)
            try:
                while piece and not failed:
                    piece = piece[os.write(fd, piece) :]
            except OSError as error:
                failed = str(error.errno).encode()
        if fd >= 0:
            os.close(fd)
        os.seteuid(0)
        os.setegid(0)
        return failed


TOOLS = "/run/portico/tool.sock"
CONNECTIONS = 64


def _listen(port):
    """Carry what comes to a port of the loopback to the tool socket. The answer
    is the number of an error, or nothing."""
    try:
        listener = socket.create_server(("127.0.0.1", port), backlog=CONNECTIONS)
    except OSError as error:
        return str(error.errno).encode()
    threading.Thread(target=_accept, args=(listener,), daemon=True).start()
    return b""


def _accept(listener):
    room = threading.BoundedSemaphore(CONNECTIONS)
    while True:
        room.acquire()
        client, _ = listener.accept()
        threading.Thread(target=_carry, args=(client, room), daemon=True).start()


def _carry(client, room):
    """One connection, both ways, until both sides have said all."""
    try:
        with client, socket.socket(socket.AF_UNIX) as tools:
            tools.connect(TOOLS)
            other = {client: tools, tools: client}
            reading = [client, tools]
            while reading:
                for side in select.select(reading, [], [])[0]:
                    piece = side.recv(1 << 16)
                    if piece:
                        other[side].sendall(piece)
                    else:
                        reading.remove(side)
                        other[side].shutdown(socket.SHUT_WR)
    except OSError:
        pass  # one of them is gone, and with it the connection
    finally:
        room.release()


class _Taking:
    """The regular files that the program left, in the order of their names.
    Nothing else runs any more, so that nobody changes what is read."""

    def __init__(self, send, files, size):
        self._send, self._files, self._room = send, files, size
        self._dropped = 0

    def run(self):
        fd = os.open(WORK, os.O_RDONLY | os.O_DIRECTORY)
        self._folder(fd, b"", 0)
        os.close(fd)
        self._send(b"E", str(self._dropped).encode())

    def _folder(self, folder, prefix, depth):
        # By handles, so that no path is ever longer than one name.
        for name in sorted(os.fsencode(n) for n in os.listdir(folder)):
            try:
                mode = os.lstat(name, dir_fd=folder)
                if stat.S_ISDIR(mode.st_mode) and depth < MAX_DEPTH and usable(name):
                    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
                    fd = os.open(name, flags, dir_fd=folder)
                    try:
                        self._folder(fd, prefix + name + b"/", depth + 1)
                    finally:
                        os.close(fd)
                elif stat.S_ISREG(mode.st_mode) and usable(name) and self._files > 0 and mode.st_size <= self._room:
                    self._file(folder, name, prefix)
                else:
                    self._dropped += 1
            except OSError:
                self._dropped += 1

    def _file(self, folder, name, prefix):
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
        with open(fd, "rb") as file:
            content = file.read(self._room + 1)
        self._files -= 1
        self._room -= len(content)
        self._send(b"F", prefix + name, content)


def usable(name):
    """Whether a name can be shown, stored and used elsewhere."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return False
    return not any(c < " " or c in "\x7f\\" for c in text)


def _memory():
    """What the programs and their files use of the sandbox's memory."""
    with open("/proc/meminfo") as lines:
        values = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return (values["MemTotal"] - values["MemFree"]) * 1024


def _read(fd, n):
    data = b""
    while len(data) < n:
        piece = os.read(fd, n - len(data))
        if not piece:
            sys.exit(0)  # the server is gone
        data += piece
    return data


def _expect(conn, want):
    if conn.recv(1) != want:
        sys.exit("the program's process did not come up")
