"""Tools as functions. A call may be awaited or not, in a coroutine, in a
thread or in neither. Calls that are made together leave together."""

import asyncio
import collections.abc
import inspect
import json
import keyword
import selectors
import threading
import time
import uuid
import weakref
from concurrent.futures import Future

from portico_runtime import channel

CALLS = "/v1/program/calls"
EXECUTE = "/v1/tool/execute"
# How long calls of several threads wait for each other, and how long calls of
# an event loop that never rests wait, in seconds.
TOGETHER = 0.002
RESTLESS = 0.05


class ToolExecutionError(Exception):
    """A tool failed; the message is the tool's."""

    __module__ = "__main__"  # where programs find it, and tracebacks say it is


def define(stub):
    """Make the function for one tool."""
    parameters = [
        inspect.Parameter(
            p["name"],
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if p["required"] else None,
        )
        for p in sorted(stub["parameters"] or [], key=lambda p: not p["required"])
        if p["name"].isidentifier() and not keyword.iskeyword(p["name"])
    ]
    # An argument whose name is no identifier can still be given with **.
    rest = ""
    if stub["open"] or len(parameters) < len(stub["parameters"] or []):
        rest = "kwargs"
        while rest in {p.name for p in parameters}:
            rest = "_" + rest
        parameters.append(inspect.Parameter(rest, inspect.Parameter.VAR_KEYWORD))
    signature = inspect.Signature(parameters)
    name, identifier, toolset = stub["name"], stub["identifier"], stub.get("toolset", "")

    def tool(*args, **kwargs):
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError("%s() %s" % (identifier, error)) from None
        given.update(given.pop(rest, {}))
        given = {key: value for key, value in given.items() if value is not None}
        return rounds.call(name, toolset, given, identifier)

    tool.__name__ = tool.__qualname__ = identifier
    tool.__doc__ = stub.get("doc") or None
    tool.__signature__ = signature
    tool._is_coroutine = asyncio.coroutines._is_coroutine
    return tool


def encode(value, what):
    """Write arguments as JSON; numbers of numpy and pandas as plain ones."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError("%s(): an argument cannot be sent as JSON: %s" % (what, error)) from None


def _plain(value):
    if isinstance(value, Call):
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


class Call(collections.abc.Coroutine):
    """A call that was made. Awaiting it gives the result; so does using it as
    if it were the result."""

    def __init__(self, body, identifier):
        self.body = body
        self.identifier = identifier
        self.future = Future()
        self.seen = False
        self._steps = None

    def result(self):
        """Wait for the result without an event loop."""
        self.seen = True
        if not self.future.done():
            rounds.flush()
        return self.future.result()

    def __await__(self):
        self.seen = True
        if self.future.done():
            return self.future.result()
        rounds.rest()
        return (yield from asyncio.wrap_future(self.future).__await__())

    def _run(self):
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps

    def send(self, value):
        return self._run().send(value)

    def throw(self, *error):
        return self._run().throw(*error)

    def close(self):
        if self._steps is not None:
            self._steps.close()

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.result(), name)

    def __getitem__(self, key):
        return self.result()[key]

    def __iter__(self):
        return iter(self.result())

    def __len__(self):
        return len(self.result())

    def __contains__(self, item):
        return item in self.result()

    def __str__(self):
        return str(self.result())

    def __format__(self, form):
        return format(self.result(), form)

    def __float__(self):
        return float(self.result())

    def __int__(self):
        return int(self.result())

    def __bool__(self):
        return bool(self.result())

    def __add__(self, other):
        return self.result() + other

    def __radd__(self, other):
        return other + self.result()

    def __sub__(self, other):
        return self.result() - other

    def __mul__(self, other):
        return self.result() * other

    def __truediv__(self, other):
        return self.result() / other

    def __lt__(self, other):
        return self.result() < other

    def __gt__(self, other):
        return self.result() > other


def result(call):
    """What a call that is not awaited stands for."""
    return call.result() if isinstance(call, Call) else call


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
            made = Call(body, identifier)
            _execute(made)
        else:
            made = Call(encode({"name": name, "input": arguments}, identifier), identifier)
            with self._lock:
                if not self._pending:
                    self._since = time.monotonic()
                self._pending.append(made)
        with self._lock:
            self._all = [c for c in self._all if not (c.seen and c.future.done())] + [made]
        if threading.current_thread() is not threading.main_thread() and not looping():
            time.sleep(TOGETHER)
            return made.result()
        return made

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
        try:
            results = _results(answer, error, len(batch))
        except Exception as failure:
            for made in batch:
                made.future.set_exception(failure)
            return
        for made, item in zip(batch, results):
            _resolve(made, item)

    _submit(CALLS, {"Content-Type": "application/json"}, body, done)


def _results(answer, error, count):
    if error is not None:
        raise ToolExecutionError("the tools cannot be reached: %s" % error)
    status, _, body = answer
    envelope = _decode(body)
    if status != 200:
        raise ToolExecutionError(_message(envelope, status))
    results = envelope.get("results")
    if not isinstance(results, list) or len(results) != count:
        raise ToolExecutionError("the answer does not fit the calls")
    return results


def _resolve(made, item):
    if item.get("error") is not None:
        made.future.set_exception(ToolExecutionError(item["error"]))
    else:
        made.future.set_result(item.get("result"))


def _execute(made):
    def done(answer, error):
        if error is not None:
            made.future.set_exception(ToolExecutionError("the tools cannot be reached: %s" % error))
            return
        status, _, body = answer
        envelope = _decode(body)
        data = envelope.get("data")
        if status != 200 or not isinstance(data, dict):
            made.future.set_exception(ToolExecutionError(_message(envelope, status)))
        elif data.get("status") == "error":
            made.future.set_exception(ToolExecutionError(data.get("error") or "the tool failed"))
        else:
            made.future.set_result(data.get("data"))

    # The key makes the call happen once, however often it is sent.
    headers = {"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())}
    _submit(EXECUTE, headers, made.body, done)


def _decode(body):
    try:
        envelope = json.loads(body)
    except ValueError:
        envelope = None
    return envelope if isinstance(envelope, dict) else {}


def _message(envelope, status):
    text = " ".join(t for t in (envelope.get("errMsg"), envelope.get("errDetail")) if isinstance(t, str) and t)
    return text or "the tools answered with status %d" % status
