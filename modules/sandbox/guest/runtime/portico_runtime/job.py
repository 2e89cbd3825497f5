"""One job: received from the host, limited, and turned into a program."""

import functools
import gc
import importlib
import json
import os
import resource
import socket
import struct
import sys

from portico_runtime import fonts

CONTROL = 3
WORK = "/mnt/data"


def prepare(modules):
    """Import what programs usually need, while nobody waits."""
    os.environ["MPLBACKEND"] = "module://portico_figures"
    os.environ["MPLCONFIGDIR"] = "/tmp/.matplotlib"
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    os.environ["OMP_NUM_THREADS"] = "1"
    if any(name.startswith("matplotlib") for name in modules):
        fonts.list_fonts()
        modules = [*modules, "portico_figures"]
    # Nearly all that is made now stays: to look for what does not takes longer
    # than it would save, now and in each program.
    gc.disable()
    for name in COMMON:
        importlib.import_module(name)
    for name in modules:
        importlib.import_module(name)
    sys.modules["portico_runtime.program"].prepare()
    gc.freeze()
    gc.enable()


# With all that they import.
COMMON = ("csv", "datetime", "hashlib", "portico_runtime.program", "portico_runtime.repl")


def receive():
    """Wait for the job and return what becomes its program."""
    from portico_runtime import program

    program.warm()
    os.write(CONTROL, b"R")
    job = json.loads(_receive(struct.unpack(">I", _receive(4))[0]))
    _start(job["loopback"])
    if not job["channel"]:
        os.close(CONTROL)
    else:
        os.set_inheritable(CONTROL, False)
    _limit(job)
    os.environ.clear()
    os.environ.update(_environment())
    os.environ.update(job["env"])
    os.chdir(WORK)
    if job["language"] == "python":
        return program.load(job)
    return functools.partial(os.execv, *_command(job))


def _start(port):
    """Say that the job was taken, and give the host, if there is a port, a
    socket that listens on it; nobody else has it."""
    if not port:
        os.write(CONTROL, b"S")
        return
    with socket.create_server(("127.0.0.1", port), backlog=64) as listener:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", listener.fileno()))]
        with socket.socket(fileno=os.dup(CONTROL)) as control:
            control.sendmsg([b"S"], rights)


def _receive(n):
    data = bytearray()
    while len(data) < n:
        piece = os.read(CONTROL, min(n - len(data), 1 << 20))
        if not piece:
            os._exit(0)  # the server does not need this interpreter
        data += piece
    return bytes(data)


def _limit(job):
    """Lower the limits for good: raising them again needs privileges."""
    limits = dict(job["limits"])
    if job["addresses"]:
        _limit_addresses(job, limits)
    else:
        _limit_data(job, limits)
    for name, value in limits.items():
        which = getattr(resource, name)
        _, hard = resource.getrlimit(which)
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(which, (value, value))
    # Short of memory, the kernel shall choose this program and not the server.
    with open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")


def _limit_data(job, limits):
    # What counts is memory that can be written: a runtime reserves far more
    # addresses than it uses. What is in use already is not the program's.
    if job["language"] == "python":
        with open("/proc/self/statm") as statm:
            used = int(statm.read().split()[5]) * resource.getpagesize()
        limits["RLIMIT_DATA"] = used + job["memory"]
    elif job["language"] == "bash":
        limits["RLIMIT_DATA"] = job["memory"]
    else:
        limits["RLIMIT_DATA"] = 2 * job["memory"]  # node reserves a part of it as writable


# What a process reserves and does not use: stacks, and the two arenas of the C
# library.
RESERVED = 256 << 20


def _limit_addresses(job, limits):
    """For a kernel that counts as data only what grows from the end of the
    program. It counts all memory by itself."""
    limits["RLIMIT_DATA"] = 2 * job["memory"]
    if job["language"] == "python":
        with open("/proc/self/statm") as statm:
            used = int(statm.read().split()[0]) * resource.getpagesize()
        limits["RLIMIT_AS"] = used + job["memory"] + RESERVED
    elif job["language"] == "bash":
        limits["RLIMIT_AS"] = job["memory"] + RESERVED


def _environment():
    return {
        "MPLBACKEND": "module://portico_figures",
        "MPLCONFIGDIR": "/tmp/.matplotlib",
        # One thread: a program has few processors, and threads count as
        # processes.
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        # Each arena of the C library reserves 64 MiB.
        "MALLOC_ARENA_MAX": "2",
    }


def _command(job):
    """The interpreter of another language and its arguments."""
    folder = "/tmp/.portico"
    os.mkdir(folder)

    def write(name, text):
        path = "%s/%s" % (folder, name)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        return path

    if job["channel"]:
        os.close(CONTROL)  # these languages speak over the socket
    languages = "/run/portico-python/languages"
    if job["language"] == "bash":
        program = write("main.sh", job["code"])
        if job["stubs"]:
            write("tools.sh", _bash_stubs(job["stubs"]))
            program = languages + "/start.sh"
        arguments = ["/usr/bin/bash", program]
    else:
        write("main.ts" if job["language"] == "typescript" else "main.js", job["code"])
        write("tools.json", json.dumps(job["stubs"]))
        heap = max(job["memory"] * 3 // 4 >> 20, 64)
        arguments = ["/usr/bin/node", "--max-old-space-size=%d" % heap, "--no-warnings", languages + "/main.js"]
    return arguments[0], arguments + (job["args"] or [])


def _bash_stubs(stubs):
    # The names were made identifiers by the host; the JSON text is quoted as
    # bash reads it.
    lines = [". /run/portico-python/languages/tools.sh"]
    for stub in stubs:
        if stub.get("each"):
            continue
        nullable = [p["name"] for p in stub["parameters"] or [] if p["required"] and p.get("nullable")]
        what = json.dumps({"name": stub["name"], "toolset": stub.get("toolset", ""), "nullable": nullable})
        quoted = "'" + what.replace("'", "'\\''") + "'"
        lines.append('%s() { _portico_call %s "${1-{\\}}"; }' % (stub["identifier"], quoted))
        lines.append("export -f %s" % stub["identifier"])
    return "\n".join(lines) + "\n"
