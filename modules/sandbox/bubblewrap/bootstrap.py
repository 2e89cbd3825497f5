"""The interpreter of one execution, from its start to the user's code.

Runs inside the sandbox. It imports what programs usually need, reports ready
on descriptor 3, waits there for one job, closes the descriptor, limits itself
and becomes the user's program.
"""

import sys

CONTROL = 3
PROGRAM = "/mnt/data/main.py"


def main():
    # Imported while nobody waits. The names are dropped again: the program
    # imports what it uses, and finds it loaded.
    import base64, collections, concurrent.futures, csv, datetime  # noqa: E401,F401
    import functools, hashlib, http.client, io, itertools, json  # noqa: E401,F401
    import linecache, math, os, queue, random, re, resource  # noqa: E401
    import socket, struct, threading, time, traceback, types, typing, uuid  # noqa: E401,F401

    def receive(n):
        data = bytearray()
        while len(data) < n:
            piece = os.read(CONTROL, min(n - len(data), 1 << 20))
            if not piece:
                os._exit(0)  # the server does not need this interpreter
            data += piece
        return bytes(data)

    os.write(CONTROL, b"R")
    job = json.loads(receive(struct.unpack(">I", receive(4))[0]))
    os.write(CONTROL, b"S")
    os.close(CONTROL)

    # SIGPIPE and the rest stay as Python sets them. A hard limit cannot be
    # raised again without privileges, and there are none.
    for name, value in job["limits"].items():
        which = getattr(resource, name)
        _, hard = resource.getrlimit(which)
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(which, (value, value))
    # The default of 8 MiB for each thread would use up the address space.
    threading.stack_size(job["thread_stack"])

    # Short of memory, the kernel shall choose this program and not the server.
    with open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")
    os.environ.clear()
    os.environ.update(job["env"])
    os.chdir("/mnt/data")
    random.seed()
    # Lines of several threads must not mix, and each must be seen at once.
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    sys.stderr.reconfigure(line_buffering=True)

    # /run/portico-python holds refly_tools. The working directory comes last,
    # so that a file there cannot take the place of a module of the library.
    sys.path.insert(0, "/run/portico-python")
    sys.path.append("/mnt/data")
    sys.argv = [PROGRAM]
    sys.dont_write_bytecode = True

    source = job["code"]
    del job
    linecache.cache[PROGRAM] = (len(source), None, source.splitlines(True), PROGRAM)

    # The hooks built into the interpreter look for the source on disk, where
    # it is not.
    def show(kind, value, trace):
        traceback.print_exception(kind, value, trace)

    def show_thread(args):
        if args.exc_type is SystemExit:
            return
        name = args.thread.name if args.thread is not None else "?"
        print(f"Exception in thread {name}:", file=sys.stderr)
        traceback.print_exception(args.exc_type, args.exc_value, args.exc_traceback)

    sys.excepthook = show
    threading.excepthook = show_thread

    program = types.ModuleType("__main__")
    program.__file__ = PROGRAM
    program.__builtins__ = __builtins__
    sys.modules["__main__"] = program
    try:
        code = compile(source, PROGRAM, "exec", dont_inherit=True)
        exec(code, program.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        # The frame above the user's is this function.
        trace = error.__traceback__.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        sys.exit(130 if isinstance(error, KeyboardInterrupt) else 1)


main()
