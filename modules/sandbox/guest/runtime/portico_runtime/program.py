"""A Python program, from its source to its exit."""

import ast
import asyncio
import atexit
import builtins
import functools
import linecache
import os
import random
import sys
import threading
import types

from portico_runtime import calls, catalog, channel, errors, fonts, known, package, pending, rewrite, trace
from portico_runtime.trace import PROGRAM


def prepare():
    """What all programs have, and copies of the fork-server share."""
    # Lines of several threads must not mix, and each must be seen at once.
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    sys.stderr.reconfigure(line_buffering=True)
    threading.excepthook = trace.show_thread
    asyncio.set_event_loop_policy(calls.LoopPolicy())
    asyncio.run = _run
    known.warm()
    sys.meta_path.insert(0, package.Finder)
    pending.known_to_libraries()
    for name, function in (
        (rewrite.LATER, calls.later), (rewrite.READY, calls.ready), (rewrite.EACH, calls.each), (rewrite.KEY, calls.key),
        (rewrite.RETURN, rewrite.Return),
    ):  # fmt: skip
        setattr(builtins, name, function)
    _compile()


def seed():
    """Have random numbers of one's own: those of a copy are its model's."""
    random.seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


def warm():
    """What can be done before there is a job, so that no program waits for it."""
    seed()
    # The working directory comes last, so that a file there cannot take the
    # place of a module of the library.
    sys.path.append("/mnt/data")
    sys.excepthook = trace.show
    _compile()


def _compile():
    tree = ast.parse("import json\nif json: return json.dumps([x for x in (1, 2)])\n")
    rewrite.rewrite(tree, ("warm",))
    compile(tree, PROGRAM, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def load(job):
    """Make this interpreter ready for the program of a job, and return what
    runs it."""
    # The default of 8 MiB for each thread would use up the memory.
    threading.stack_size(job["thread_stack"])
    sys.argv = [PROGRAM, *(job["args"] or [])]
    if any(word in job["code"] for word in ("matplotlib", "plt", "plot", "seaborn")):
        fonts.list_fonts()
    if job["channel"]:
        channel.current = channel.Channel(3)

    program = types.ModuleType("__main__")
    program.__file__ = PROGRAM
    program.__builtins__ = __builtins__
    sys.modules["__main__"] = program
    names = program.__dict__
    names.update(known.names())
    names["ToolExecutionError"] = errors.ToolExecutionError
    names["ApprovalDenied"], names["ApprovalTimeout"] = errors.ApprovalDenied, errors.ApprovalTimeout
    defined = calls.install(job["stubs"], names, known.names())
    if any(stub.get("toolset") for stub in job["stubs"] or []):
        names["search_tools"], names["help"] = catalog.search_tools, catalog.help

    source = job["code"]
    linecache.cache[PROGRAM] = (len(source), None, source.splitlines(True), PROGRAM)
    return functools.partial(_run_program, source, defined, names)


def _run_program(source, defined, names):
    status = _execute(source, defined, names)
    try:
        calls.rounds.settle()
        figures = sys.modules.get("portico_figures")
        if figures is not None:
            figures.save_all()
    except Exception as error:
        trace.show(type(error), error, error.__traceback__)
    _leave(status)


def _leave(status):
    """End the process as the interpreter would, but without taking apart what
    ends with it: that takes longer than most programs."""
    if status is None or isinstance(status, int):
        code = (status or 0) & 0xFF
    else:
        print(status, file=sys.stderr)
        code = 1
    try:
        threading._shutdown()  # waits for the threads that are no daemons
        atexit._run_exitfuncs()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (AttributeError, OSError, ValueError):
                pass  # the program closed it, or took it away
        os._exit(code)


def evaluate(source, filename, defined, names, change=None):
    """Run a source in names. change, if given, gets its syntax tree first."""
    tree = ast.parse(source, filename)
    if change is not None:
        change(tree)
    rewrite.rewrite(tree, *defined.here())
    code = compile(tree, filename, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    started = eval(code, names)
    if started is not None:
        asyncio.run(started)


def _execute(source, defined, names):
    try:
        evaluate(source, PROGRAM, defined, names)
    except rewrite.Return:
        return 0
    except SystemExit as end:
        return end.code
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


_asyncio_run = asyncio.run


def _run(main, **options):
    """asyncio.run that also works inside a coroutine, as a program that is
    one itself may not expect."""
    if not calls.looping():
        return _asyncio_run(main, **options)
    outcome = []

    def work():
        try:
            outcome.append((True, _asyncio_run(main, **options)))
        except BaseException as error:
            outcome.append((False, error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    worked, value = outcome[0]
    if worked:
        return value
    raise value
