"""Tools as functions. A call may be awaited or not, in a coroutine, in a
thread or in neither. Calls that are made together leave together."""

import asyncio
import functools
import inspect
import json
import keyword
import selectors
import threading
import time
import uuid
import weakref
from concurrent.futures import ThreadPoolExecutor

from portico_runtime import channel, errors, line, spaces, suggest
from portico_runtime.errors import ToolExecutionError
from portico_runtime.pending import Call, done, is_call
from portico_runtime.variable import portico_variable

CALLS = "/v1/program/calls"
EXECUTE = "/v1/tool/execute"
# The function whose result becomes a variable of the program.
LOADS = ("portico", "load_file")
# How long calls of several threads wait for each other, and how long calls of
# an event loop that never rests wait, in seconds.
TOGETHER = 0.002
RESTLESS = 0.05
# The parameter that names the file a result becomes; toolset tools have it.
FILE_TITLE = "file_name_title"
# How many calls of a function for several values are on their way at once.
AT_ONCE = 4

# The awaited form of each tool, by the function that programs have.
_forms = {}


def file_title(tool, arguments):
    """A title for the file that a result may become: the tool and its first
    argument."""
    first = next((str(value) for value in arguments.values() if isinstance(value, (str, int, float))), "")
    return (tool + " " + " ".join(first.split())[:60]).strip()


def define(stub):
    """Make the function for one tool. A call of it gives the result; where the
    program awaits that, later() takes its place."""
    title = FILE_TITLE if stub.get("toolset") else None
    parameters = [
        inspect.Parameter(
            p["name"],
            inspect.Parameter.KEYWORD_ONLY if p["name"] == title else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if p["required"] else p.get("default"),
            annotation=spaces.Type(p["type"]) if p.get("type") else inspect.Parameter.empty,
        )
        for p in sorted(stub["parameters"] or [], key=lambda p: (not p["required"], p["name"] == title))
        if p["name"].isidentifier() and not keyword.iskeyword(p["name"])
    ]
    # An argument whose name is no identifier can still be given with **.
    rest = ""
    if stub["open"] or len(parameters) < len(stub["parameters"] or []):
        rest = "kwargs"
        while rest in {p.name for p in parameters}:
            rest = "_" + rest
        parameters.append(inspect.Parameter(rest, inspect.Parameter.VAR_KEYWORD))
    returns = spaces.Type(stub["returns"]) if stub.get("returns") else inspect.Signature.empty
    signature = inspect.Signature(parameters, return_annotation=returns)
    name, identifier, toolset = stub["name"], stub["identifier"], stub.get("toolset", "")
    nullable = {p["name"] for p in stub["parameters"] or [] if p["required"] and p.get("nullable")}

    def begin(*args, **kwargs):
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError("%s() %s" % (identifier, _advice(error, kwargs, stub))) from None
        given.update(given.pop(rest, {}))
        given = {key: value for key, value in given.items() if value is not None or key in nullable}
        if title in signature.parameters:
            given.setdefault(FILE_TITLE, file_title(name, given))
        return rounds.call(name, toolset, given, identifier)

    def tool(*args, **kwargs):
        return rounds.finish(begin(*args, **kwargs))

    for form in (tool, begin):
        form.__name__ = form.__qualname__ = identifier
        form.__doc__ = stub.get("doc") or None
        form.__signature__ = signature
        form.__portico_tool__ = identifier if toolset else None
        form._is_coroutine = asyncio.coroutines._is_coroutine
    _forms[tool] = begin
    return tool


def install(stubs, names, known):
    """Define the functions of all stubs, under their names, where the program
    has nothing of its own: known is what it was given before. What is returned
    says what was defined."""
    defined = spaces.Defined(names, known)
    members = {}
    for stub in stubs or []:
        identifier, each = stub["identifier"], stub.get("each")
        function = each_of(stub) if each else define(stub)
        if defined.put(identifier, function) and not each:
            defined.tools.append(identifier)
        if stub.get("space"):
            members.setdefault(stub["space"], {})[stub["member"]] = identifier, function
    for space, tools in members.items():
        made = spaces.Space(space, {member: function for member, (_, function) in tools.items()}, names.get(space))
        if defined.put(space, made):
            defined.spaces[space] = {member: identifier for member, (identifier, _) in tools.items()}
    return defined


def each_of(stub):
    """A function that calls a tool for every value of a list, a few at a time,
    and returns the results in the order of the values."""
    one = define({**stub, "each": False})
    (parameter,) = (p["name"] for p in stub["parameters"])

    def several(values):
        if isinstance(values, (str, bytes)):
            raise TypeError("%s() takes a list of values, not one" % stub["identifier"])
        values = list(values)
        with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
            return list(pool.map(lambda value: one(**{parameter: value}), values))

    several.__name__ = several.__qualname__ = stub["identifier"]
    several.__doc__ = stub.get("doc") or None
    return several


def _advice(error, given, stub):
    """What is wrong with arguments. A name that is wrong is more often the
    reason than another one that is missing."""
    names, message = [p["name"] for p in stub["parameters"] or []], str(error)
    wrong = next((name for name in given if name not in names and not stub["open"]), "")
    if wrong:
        message = "got an unexpected keyword argument %r" % wrong
    return message + suggest.among(wrong, names, "It takes")


def encode(value, what):
    """Write arguments as JSON; numbers of numpy and pandas as plain ones."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError("%s(): an argument cannot be sent as JSON: %s" % (what, error)) from None


def _plain(value):
    if is_call(value):
        return value.result()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    kind = type(value).__module__.partition(".")[0]
    if kind in ("numpy", "pandas"):
        if hasattr(value, "tolist"):
            return value.tolist()
        if hasattr(value, "to_dict"):
            return value.to_dict("records") if value.ndim == 2 else value.to_dict()
    if isinstance(value, (set, frozenset)):
        return list(value)
    if isinstance(value, (bytes, bytearray)):
        return value.decode()
    if kind in ("decimal", "pathlib", "uuid", "enum"):
        return str(value)
    raise TypeError("%s is not JSON" % type(value).__name__)


def is_tool(value):
    """Whether a value is a function that define made."""
    return inspect.isfunction(value) and value in _forms


def forget(tool):
    """Drop a function that define made, and the calls of it."""
    _forms.pop(tool)
    rounds.forget()


def later(function):
    """The form of a tool whose calls are awaited; anything else as it is."""
    if isinstance(function, functools.partial):
        return functools.partial(later(function.func), *function.args, **function.keywords)
    return _forms.get(function, function) if inspect.isfunction(function) else function


def key(made):
    """A call as the member of a set, or as a key."""
    if is_call(made):
        made.keyed = True
    return made


def ready(value):
    """Something to await: a plain value is its own result. What else cannot be
    awaited stays what it is, and Python says so."""
    return done(value) if type(value) in _PLAIN else value


def each(values):
    """The same for several."""
    return [ready(value) for value in values]


_PLAIN = (dict, list, str, int, float, bool, type(None))


class Rounds:
    """Calls on their way out."""

    def __init__(self):
        self._lock = threading.Lock()
        self._pending = []
        self._since = 0.0
        self._all = []
        self._loops = weakref.WeakSet()

    def call(self, name, toolset, arguments, identifier):
        if toolset:
            body = encode({"toolsetKey": toolset, "toolName": name, "arguments": arguments}, identifier)
            made = Call(body, identifier, self)
            made.variable = (toolset, name) == LOADS
            made.line = line.current()
            _execute(made)
        else:
            made = Call(encode({"name": name, "input": arguments}, identifier), identifier, self)
            with self._lock:
                if not self._pending:
                    self._since = time.monotonic()
                self._pending.append(made)
        with self._lock:
            self._all = [c for c in self._all if not (c.seen and c.future.done())] + [made]
        return made

    def finish(self, made):
        """Wait for a call. Those of several threads leave together."""
        if threading.current_thread() is not threading.main_thread() and not looping():
            time.sleep(TOGETHER)
        return made.result()

    def flush(self):
        """Send what waits, as one round."""
        with self._lock:
            batch, self._pending = self._pending, []
        if batch:
            _send(batch)

    def rest(self):
        """Send what waits as soon as the running event loop has nothing else
        to do: other tasks may be about to call as well."""
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            loop.call_later(TOGETHER, self.flush)

    def resting(self, timeout):
        """Called when an event loop looks for events."""
        if self._pending and (timeout is None or timeout > 0 or time.monotonic() - self._since > RESTLESS):
            self.flush()

    def settle(self):
        """Wait, at the end of the program, for calls that nobody waited for."""
        self.flush()
        for made in self._all:
            if not made.seen:
                try:
                    made.result()
                except Exception as error:
                    import sys

                    print("%s() was not awaited and failed: %s" % (made.identifier, error), file=sys.stderr)

    def forget(self):
        self._all = []

    def loop(self):
        made = asyncio.SelectorEventLoop(_Selector())
        self._loops.add(made)
        return made


rounds = Rounds()


class _Selector(selectors.DefaultSelector):
    def select(self, timeout=None):
        rounds.resting(timeout)
        return super().select(timeout)


class LoopPolicy(asyncio.DefaultEventLoopPolicy):
    """Event loops that send calls when they rest."""

    def new_event_loop(self):
        return rounds.loop()


def looping():
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _submit(path, headers, body, done):
    """Send a request; done gets its answer, or an exception."""
    if channel.current is not None and channel.current.usable():
        try:
            future = channel.current.submit(path, headers, body)
        except ConnectionError as error:
            return done(None, error)
        future.add_done_callback(lambda f: done(*_outcome(f)))
        return None
    try:
        return done(channel.over_socket(path, headers, body), None)
    except OSError as error:
        return done(None, error)


def _outcome(future):
    error = future.exception()
    return (None, error) if error else (future.result(), None)


def _send(batch):
    body = b'{"calls":[' + b",".join(made.body for made in batch) + b"]}"

    def done(answer, error):
        results, why = _results(answer, error, len(batch))
        for made, item in zip(batch, results):
            if why is not None:
                made.future.set_exception(why(made.identifier))
            elif item.get("error") is not None:
                made.future.set_exception(ToolExecutionError(item["error"], tool=made.identifier))
            else:
                made.future.set_result(item.get("result"))

    _submit(CALLS, {"Content-Type": "application/json"}, body, done)


def _results(answer, error, count):
    """The results of a round, or what makes an exception for each call."""
    nothing = [None] * count
    if error is not None:
        return nothing, lambda tool: errors.unreachable(error, tool)
    status, headers, body = answer
    envelope = _decode(body)
    if status != 200:
        return nothing, lambda tool: errors.refused(status, headers, envelope, tool)
    results = envelope.get("results")
    if not isinstance(results, list) or len(results) != count:
        return nothing, lambda tool: ToolExecutionError("the answer does not fit the calls", "E0000", status, tool=tool)
    return results, None


def _execute(made):
    def done(answer, error):
        if error is not None:
            made.future.set_exception(errors.unreachable(error, made.identifier))
            return
        status, headers, body = answer
        envelope = _decode(body)
        data = envelope.get("data")
        if status != 200 or not isinstance(data, dict):
            made.future.set_exception(errors.refused(status, headers, envelope, made.identifier))
        elif data.get("status") == "error":
            made.future.set_exception(errors.failed(status, headers, data, made.identifier))
        else:
            _settle(made, data.get("data"))

    # The key makes the call happen once, however often it is sent.
    headers = {"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())}
    if made.line:
        headers[line.HEADER] = str(made.line)
    _submit(EXECUTE, headers, made.body, done)


def _settle(made, result):
    if not made.variable:
        made.future.set_result(result)
        return
    try:
        value = portico_variable(result)
    except Exception as error:
        made.future.set_exception(error)
    else:
        made.future.set_result(value)


def _decode(body):
    try:
        envelope = json.loads(body)
    except ValueError:
        envelope = None
    return envelope if isinstance(envelope, dict) else {}
