"""A program that does not end by itself: it takes cells, which are pieces of
code, from the host, runs one after the other with the same names, and tells
what came of each."""

import ast
import base64
import json
import linecache
import os
import signal
import sys
import tempfile

from portico_runtime import calls, channel, errors, known, pending, program, rewrite, spaces, trace

CELLS = "/v1/program/cell"
WORK = "/mnt/data"
SHOW = "__portico_show__"
# How much of each output, and of all files, one cell may bring back, in bytes.
MAX_TEXT = 1 << 20
MAX_FILES = 16 << 20


class TimeUp(BaseException):
    """The cell used up its time. Nothing that programs catch."""


def serve(names):
    """Take cells until the host has none any more."""
    names.clear()
    names.update({"__name__": "__main__", "__builtins__": __builtins__})
    names.update(known.names())
    names.update(
        {
            "ToolExecutionError": errors.ToolExecutionError,
            "ApprovalDenied": errors.ApprovalDenied,
            "ApprovalTimeout": errors.ApprovalTimeout,
            "search_tools": program.catalog.search_tools,
            "help": program.catalog.help,
            SHOW: _shower(names),
        }
    )
    signal.signal(signal.SIGALRM, _time_up)
    defined, done, number = spaces.Defined(names, known.names()), None, 0
    while True:
        status, _, body = channel.request(CELLS, {"Content-Type": "application/json"}, json.dumps(done).encode())
        if status != 200:
            return
        cell = json.loads(body)
        number += 1
        if cell["stubs"] is not None:
            defined.forget()
            defined = calls.install(cell["stubs"], names, known.names())
        missing = _take(cell["files"] or [])
        done = _cell(cell, "%s%d>" % (trace.CELL, number), defined, names)
        done["missing"] = missing


def _take(files):
    """Write files of the canvas, and return the paths where that is not
    possible: earlier code may have made a folder there."""
    missing = []
    for file in files:
        try:
            with open(os.path.join(WORK, file["path"]), "wb") as out:
                out.write(base64.b64decode(file["content"]))
        except OSError:
            missing.append(file["path"])
    return missing


def _time_up(*_):
    raise TimeUp


def _shower(names):
    def show(value):
        if pending.is_call(value):
            value = value.result()
        if value is not None:
            names["_"] = value
            print(repr(value))

    return show


def _show_last(tree):
    """Print what the last line of a cell is worth, as interpreters do."""
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = tree.body[-1]
        last.value = ast.copy_location(ast.Call(ast.Name(SHOW, ast.Load()), [last.value], []), last.value)
        ast.fix_missing_locations(tree)


def _cell(cell, filename, defined, names):
    before = _files()
    source = cell["code"]
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        kept = _turn(out.fileno(), err.fileno())
        try:
            done = _evaluate(source, cell["timeout"], filename, defined, names)
        finally:
            _turn(*kept)
            os.close(kept[0])
            os.close(kept[1])
        for name, file in (("stdout", out), ("stderr", err)):
            done[name] = _text(file)
    done["files"], done["dropped"] = _changed(before)
    return done


def _text(file):
    """What a cell wrote: all of it, or its head and its tail."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size <= MAX_TEXT:
        return file.read().decode("utf-8", "replace")
    head = file.read(MAX_TEXT - MAX_TEXT // 4).decode("utf-8", "ignore")
    file.seek(size - MAX_TEXT // 4)
    tail = file.read()
    tail = tail[tail.find(b"\n", 0, -1) + 1 :].decode("utf-8", "ignore")
    left_out = size - len(head.encode()) - len(tail.encode())
    return "%s\n[output limit reached: %d more bytes were dropped here]\n%s" % (head.rstrip("\n"), left_out, tail)


def _evaluate(source, timeout, filename, defined, names):
    done = {"status": "completed", "exit": 0}
    try:
        signal.setitimer(signal.ITIMER_REAL, timeout)
        try:
            program.evaluate(source, filename, defined, names, _show_last)
            calls.rounds.settle()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except rewrite.Return:
        pass
    except TimeUp:
        done = {"status": "timed_out", "exit": 124}
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        done = {"status": "exited", "exit": code & 0xFF}
    except BaseException as error:
        trace.show(type(error), error, error.__traceback__)
        done = {"status": "failed", "exit": 1}
    figures = sys.modules.get("portico_figures")
    if figures is not None:
        try:
            figures.save_all()
        except Exception as error:
            trace.show(type(error), error, error.__traceback__)
    return done


def _turn(out, err):
    """Turn both outputs to other descriptors and return copies of the old."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    os.dup2(out, 1)
    os.dup2(err, 2)
    return kept


def _files():
    found = {}
    for folder, _, names in os.walk(WORK):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                try:
                    about = os.stat(path)
                except OSError:
                    continue  # a thread took it away
                found[os.path.relpath(path, WORK)] = about.st_mtime_ns, about.st_size, about.st_ino
    return found


def _changed(before):
    """The files that are new or changed, and how many were too large, or are not
    readable."""
    left, files, dropped = MAX_FILES, [], 0
    for path, about in sorted(_files().items()):
        if before.get(path) == about:
            continue
        if about[1] > left:
            dropped += 1
            continue
        try:
            with open(os.path.join(WORK, path), "rb") as file:
                content = file.read(about[1])
        except OSError:
            dropped += 1
            continue
        left -= len(content)
        files.append({"path": path, "content": base64.b64encode(content).decode()})
    return files, dropped
