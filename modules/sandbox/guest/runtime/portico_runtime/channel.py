"""The channel to the host: requests over the descriptor that this process
inherited. Who sends them is known by the descriptor, not by what they say."""

import json
import os
import socket
import struct
import threading
from concurrent.futures import Future

SOCKET = "/run/portico/tool.sock"
_LENGTHS = struct.Struct(">II")


class Closed(ConnectionError):
    """The host does not answer any more."""


class Lost(Closed):
    """The host had the request, and its answer does not come."""


class Channel:
    """Requests and answers in any order, from all threads of one process."""

    def __init__(self, fd):
        self._fd = fd
        self._pid = os.getpid()
        self._lock = threading.Lock()
        # Apart from the other: who writes may wait for the host, which waits
        # until its answers are read.
        self._writing = threading.Lock()
        self._waiting = {}
        self._next = 0
        self._closed = False
        self._reader = None

    def usable(self):
        """Whether this is the process that inherited the descriptor; one that
        it forked would take answers away from it."""
        return not self._closed and os.getpid() == self._pid

    def submit(self, path, headers, body):
        """Send a request; the future gets (status, headers, body)."""
        future = Future()
        with self._lock:
            if self._closed:
                raise Closed("the connection to the tools is closed")
            if self._reader is None:
                self._reader = threading.Thread(target=self._read, name="portico-tools", daemon=True)
                self._reader.start()
            self._next += 1
            number = self._next
            self._waiting[number] = future
        head = json.dumps({"id": number, "path": path, "headers": headers}).encode()
        try:
            with self._writing:
                self._write(_LENGTHS.pack(len(head), len(body)) + head + body)
        except OSError as error:
            with self._lock:
                self._waiting.pop(number, None)
            raise Closed(str(error)) from None
        return future

    def join(self):
        """Wait until nobody reads any more, which the host decides."""
        if self._reader is not None:
            self._reader.join()

    def _write(self, data):
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def _read(self):
        try:
            while True:
                head, body = (self._exactly(n) for n in _LENGTHS.unpack(self._exactly(_LENGTHS.size)))
                answer = json.loads(head)
                with self._lock:
                    future = self._waiting.pop(answer["id"], None)
                if future is not None and future.set_running_or_notify_cancel():
                    future.set_result((answer["status"], answer["headers"], body))
        except (OSError, EOFError, ValueError) as error:
            with self._lock:
                self._closed = True
                left, self._waiting = self._waiting, {}
            for future in left.values():
                if future.set_running_or_notify_cancel():
                    future.set_exception(Lost(str(error)))

    def _exactly(self, n):
        data = bytearray()
        while len(data) < n:
            piece = os.read(self._fd, min(n - len(data), 1 << 20))
            if not piece:
                raise EOFError("the host closed the connection to the tools")
            data += piece
        return bytes(data)


# The channel of this program; none without tools.
current = None


def request(path, headers, body):
    """Send a request and wait for (status, headers, body), from whichever
    process of the program."""
    if current is not None and current.usable():
        return current.submit(path, headers, body).result()
    return over_socket(path, headers, body)


def over_socket(path, headers, body):
    """The same over the socket, one connection for each request."""
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.sock.connect(SOCKET)
        connection.request("POST", path, body, {"Content-Type": "application/json", **headers})
        try:
            response = connection.getresponse()
            return response.status, dict(response.headers), response.read()
        except (OSError, HTTPException) as error:
            raise Lost(str(error)) from None
    finally:
        connection.close()
