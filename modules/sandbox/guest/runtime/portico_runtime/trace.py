"""Errors as the program's author knows the program."""

import builtins
import inspect
import linecache
import re
import sys
import traceback
import types

from portico_runtime import calls, known, package, suggest
from portico_runtime.line import CELL, PROGRAM

RUNTIME = "/run/portico-python/"


def show(kind, value, trace):
    """Print a traceback as the program's author knows the program."""
    shown = traceback.TracebackException(kind, value, trace, compact=True)
    _hide(shown)
    try:
        more = advice(value, trace)
    except Exception:  # the program's objects may do anything when they are looked at
        more = ""
    text = "".join(shown.format())
    print(text.rstrip("\n") + more, file=sys.stderr)


def _hide(shown):
    if shown is None:
        return
    frames = list(shown.stack)
    own = [n for n, frame in enumerate(frames) if frame.filename.startswith(CELL)]
    own = own or [n for n, frame in enumerate(frames) if frame.filename == PROGRAM]
    # A program that does not compile has no frame: all of them are ours.
    first = own[0] if own else len(frames) if issubclass(shown.exc_type, SyntaxError) else 0
    frames = [frame for frame in frames[first:] if not frame.filename.startswith(RUNTIME)]
    shown.stack = traceback.StackSummary.from_list(frames)
    for other in (shown.__cause__, shown.__context__, *(getattr(shown, "exceptions", None) or ())):
        _hide(other)


def show_thread(args):
    if args.exc_type is SystemExit:
        return
    name = args.thread.name if args.thread is not None else "?"
    print("Exception in thread %s:" % name, file=sys.stderr)
    show(args.exc_type, args.exc_value, args.exc_traceback)


def advice(error, trace):
    """What may have been meant where Python does not know a name, to be written
    behind its message."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    frame = trace.tb_frame if trace is not None else None
    if type(error) is NameError and error.name and frame is not None:
        return _name(error.name, frame, linecache.getline(frame.f_code.co_filename, trace.tb_lineno))
    if type(error) is AttributeError and error.name:
        if isinstance(error.obj, types.ModuleType):
            return _taken(error.obj.__name__, error.name, frame)
        names = [n for n in dir(error.obj) if n.startswith("_") == error.name.startswith("_")]
        return suggest.near(error.name, names)
    if isinstance(error, ImportError):
        return _import(error)
    if type(error) is TypeError and frame is not None:
        return _argument(str(error), frame)
    return ""


def _taken(module, name, frame):
    """A tool of a server whose name the program imported."""
    defined = vars(sys.modules["__main__"]) if frame is None else frame.f_globals
    tools = {n: n for n in defined if n.startswith(module.partition(".")[0] + "__") and calls.is_tool(defined[n])}
    found = suggest.closest("%s__%s" % (module, name), tools)
    if found:
        return ". The import took the name of the tools; call %s(...)" % found
    return suggest.near(name, [n for n in dir(sys.modules.get(module)) if n.startswith("_") == name.startswith("_")])


def _name(name, frame, line):
    names = [n for n in (*frame.f_locals, *frame.f_globals, *dir(builtins)) if not n.startswith("_")]
    # Written as toolset.tool, where the tool is a function.
    dotted = re.search(r"\b%s\.(\w+)\(" % name, line)
    tool = dotted and suggest.closest(dotted[1], [n for n in names if calls.is_tool(frame.f_globals.get(n))])
    for toolset in package.toolsets():
        if suggest.closest(name, [toolset["module"], toolset["class"]]):
            return ". Import it first: from refly_tools.%s import %s" % (toolset["module"], toolset["class"] or "...")
    return ". Did you mean: %r?" % tool if tool else suggest.near(name, names)


def _import(error):
    wanted = re.match(r"cannot import name '(\w+)'", str(error))
    if wanted is None:
        if error.name and not error.name.startswith(package.NAME) and "Did you mean" not in str(error):
            return suggest.near(error.name, [n for n in (*sys.stdlib_module_names, *known.modules()) if not n.startswith("_")])
        return ""
    if error.name == package.NAME:
        return package.advice(wanted[1])
    module = sys.modules.get(error.name)
    names = [n for n in dir(module) if not n.startswith("_")]
    if error.name.startswith(package.NAME):
        own = [n for n in names if getattr(getattr(module, n), "__module__", "") == error.name]
        return suggest.among(wanted[1], own, "There are")
    return suggest.near(wanted[1], names)


def _argument(message, frame):
    """The parameters of a function that was given one that it does not have."""
    wanted = re.match(r"([\w.]+)\(\) got an unexpected keyword argument '(\w+)'$", message)
    if wanted is None:
        return ""
    first, *rest = wanted[1].split(".")
    found = frame.f_locals.get(first, frame.f_globals.get(first))
    for name in rest:
        found = getattr(found, name, None)
    if not callable(found):
        return ""
    return suggest.among(wanted[2], list(inspect.signature(found).parameters), "It takes")
