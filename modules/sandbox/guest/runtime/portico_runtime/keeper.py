"""The two processes of the fork-server. The keeper is small: it makes process 1
of each sandbox, which is a copy of it, and waits for the programs. The model is
large, as it has imported what programs need; each program is a copy of it in
the namespaces that the keeper made. To copy a process is to copy the tables of
its memory: only the program pays for large ones, and once."""

import base64
import gc
import json
import os
import resource
import select
import signal
import socket
import struct
import sys

from portico_runtime import fork

_NUMBER = struct.Struct("=i")


def start():
    """Be the keeper; return the other end of its socket, and the filters, in a
    new process that becomes the model."""
    requests = socket.socket(fileno=fork.CONTROL)
    size = struct.unpack(">I", requests.recv(4, socket.MSG_WAITALL))[0]
    filters = [base64.b64decode(f) for f in json.loads(requests.recv(size, socket.MSG_WAITALL))]
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        requests.close()
        ours.close()
        return theirs, filters
    theirs.close()
    fork.drop()
    _expect(ours, b"R")
    gc.collect()
    gc.freeze()
    requests.sendall(b"R")
    _Keeper(requests, ours).run()


def _expect(conn, want):
    if conn.recv(1) != want:
        sys.exit("a process of the fork-server did not answer")


class _Keeper:
    def __init__(self, requests, model):
        self._requests, self._model = requests, model
        self._programs = {}  # by number: where to tell the end, and the number of process 1
        # One descriptor for each sandbox.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self._woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self):
        poll = select.poll()
        for source in (self._requests, self._model, self._woken):
            poll.register(source, select.POLLIN)
        while True:
            ready = [fd for fd, _ in poll.poll()]
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._reap()
            if self._model.fileno() in ready:
                os._exit(1)  # it says nothing unasked: it is gone
            if self._requests.fileno() in ready:
                self._answer()

    def _reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._programs:
                tell, init = self._programs.pop(pid)
                os.write(tell, _NUMBER.pack(status))
                os.close(tell)
                # It takes everything else along. The number is still its own:
                # process 1 ends after all others.
                os.kill(init, signal.SIGKILL)

    def _answer(self):
        message, descriptors, _, _ = socket.recv_fds(self._requests, 4096, 4)
        if not message:
            os._exit(0)  # the server is gone, or needs no children
        control, out, error, status = descriptors
        ours, theirs = socket.socketpair()
        identity = os.getuid(), os.getgid()
        init = fork.clone(fork.NEW | signal.SIGCHLD)
        if init == 0:
            ours.close()
            fork.become_init(json.loads(message), identity, (control, error, theirs.detach()))
        theirs.close()
        if ours.recv(1) == b"I":
            program = self._copy(init, (control, out, error))
            self._programs[program] = os.dup(status), init
            ours.sendall(b"G")
            ours.recv(1)  # ends when nobody can look at process 1 any more, or it is dead
        ours.close()
        for fd in descriptors:
            os.close(fd)
        self._requests.sendall(b"F")

    def _copy(self, init, descriptors):
        """Have the model put a copy of itself beside process 1."""
        place = os.pidfd_open(init)
        socket.send_fds(self._model, [b"C"], [place, *descriptors])
        os.close(place)
        number = self._model.recv(_NUMBER.size, socket.MSG_WAITALL)
        if len(number) < _NUMBER.size:
            os._exit(1)  # the model is gone
        return _NUMBER.unpack(number)[0]


def copy(keeper, filters):
    """Be the model; return in each copy."""
    # What is there now is shared by all copies, and never looked at again.
    gc.collect()
    gc.freeze()
    fork.collapse()
    # The last forbids what puts a copy into its sandbox.
    *shared, last = filters
    fork.restrict(shared)
    keeper.sendall(b"R")
    while True:
        message, descriptors, _, _ = socket.recv_fds(keeper, 1, 4)
        if not message:
            os._exit(0)
        place, *rest = descriptors
        fork.enter(place, fork.PIDS)  # which counts for children only
        entered, enters = os.pipe()
        # Its parent is the keeper, which waits for it.
        program = fork.clone(fork.PARENT | signal.SIGCHLD)
        if program == 0:
            os.close(keeper.detach())
            fork.become_program(place, rest, enters, [last])
            return
        os.close(enters)
        os.read(entered, 1)  # ends when the copy is inside, or dead
        for fd in (entered, *descriptors):
            os.close(fd)
        keeper.sendall(_NUMBER.pack(program))
