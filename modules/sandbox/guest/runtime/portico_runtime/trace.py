"""Errors as the program's author knows the program."""

import sys
import traceback

PROGRAM = "/mnt/data/main.py"
# How the names of the cells of a persistent interpreter begin.
CELL = "<cell "
RUNTIME = "/run/portico-python/"


def show(kind, value, trace):
    """Print a traceback as the program's author knows the program."""
    shown = traceback.TracebackException(kind, value, trace, compact=True)
    _hide(shown)
    print("".join(shown.format()), end="", file=sys.stderr)


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
