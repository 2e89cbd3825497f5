"""A small program that runs in the fork-server itself, before it makes copies.
What Python learns by it, such as the forms of instructions that fit, is shared
by all copies; otherwise each would learn it again, in memory of its own."""

import json
import socket
import struct
import threading

from portico_runtime import calls, channel, program

# Python adapts a function after eight calls of it.
TIMES = 10
_CODE = "answer = await rehearsed(x=1)\n"
_STUB = {"name": "rehearsed", "identifier": "rehearsed", "parameters": [{"name": "x", "required": False}], "open": True}
_LENGTHS = struct.Struct(">II")


def rehearse():
    """Run the program several times, in a prepared interpreter. Nothing of it is left: no thread, no tool,
    no descriptor."""
    for _ in range(TIMES):
        ours, theirs = socket.socketpair()
        host = threading.Thread(target=_host, args=(theirs,))
        host.start()
        channel.current = channel.Channel(ours.fileno())
        names = {}
        defined = calls.install(json.loads(json.dumps([_STUB])), names, {})
        program.seed()
        program.evaluate(_CODE, program.PROGRAM, defined, names)
        calls.rounds.settle()
        ours.shutdown(socket.SHUT_RDWR)
        host.join()
        channel.current.join()
        ours.close()
        channel.current = None
        calls.forget(names[_STUB["identifier"]])


def _host(conn):
    """Answer the calls of the program as the host does."""
    with conn:
        while True:
            lengths = conn.recv(_LENGTHS.size, socket.MSG_WAITALL)
            if len(lengths) < _LENGTHS.size:
                return
            head, body = (conn.recv(n, socket.MSG_WAITALL) for n in _LENGTHS.unpack(lengths))
            answer = json.dumps({"id": json.loads(head)["id"], "status": 200, "headers": {}}).encode()
            results = json.dumps({"results": [{"result": 1} for _ in json.loads(body)["calls"]]}).encode()
            conn.sendall(_LENGTHS.pack(len(answer), len(results)) + answer + results)
