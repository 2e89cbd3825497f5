"""A call that was made and whose result is not asked for yet."""

import asyncio
import collections.abc
import functools
import json
import math
import operator
import sys
from concurrent.futures import Future


class Call(collections.abc.Coroutine):
    """Something to await that, used in any other way, is its result. Only the
    machinery of asyncio sees the object itself."""

    def __init__(self, body, identifier, rounds):
        self.body, self.identifier, self.rounds = body, identifier, rounds
        self.future = Future()
        self.seen = False  # somebody asked for the result
        self.variable = False  # the result is set as a variable
        self.line = 0  # of the program; 0 where it is not known
        self.keyed = False  # a member of a set: it is itself, not its result
        self._steps = None

    def result(self):
        """Wait for the result without an event loop."""
        self.seen = True
        if not self.future.done():
            self.rounds.flush()
        error = self.future.exception()
        if error is not None:
            raise error
        return self.future.result()

    def __await__(self):
        self.seen = True
        if self.future.done():
            return self.result()
        self.rounds.rest()
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

    @property
    def __class__(self):
        return Call if _by_machinery() else type(self.result())

    def __hash__(self):
        return object.__hash__(self) if self.keyed or _by_machinery() else hash(self.result())

    def __eq__(self, other):
        return self is other if self.keyed or _by_machinery() else self.result() == _value(other)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.result(), name)

    def __reduce_ex__(self, protocol):
        return _value, (self.result(),)

    def __reversed__(self):
        return reversed(self.result())


def _value(value):
    return value.result() if type(value) is Call else value


def is_call(value):
    """Whether this is a call. isinstance would ask for its result."""
    return type(value) is Call


def _by_machinery():
    """Whether asyncio asks, or json, which writes what it does not know as its
    result, and not the program."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") == "abc":
        frame = frame.f_back
    name = frame.f_globals.get("__name__", "") if frame is not None else ""
    return name.partition(".")[0] in ("asyncio", "concurrent", "inspect", "json", "portico_runtime")


def _forward(function, *others):
    def method(self, *arguments):
        return function(self.result(), *map(_value, arguments), *others)

    return method


def _reflect(function):
    return lambda self, other: function(_value(other), self.result())


def _protocols():
    """What a class must have itself, because Python does not ask the object."""
    for name in ("lt", "le", "ne", "gt", "ge", "getitem", "setitem", "delitem", "contains", "neg", "pos", "invert", "index"):
        setattr(Call, "__%s__" % name, _forward(getattr(operator, "__%s__" % name)))
    for name in ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "xor", "or"):
        function = getattr(operator, "__%s__" % name)
        setattr(Call, "__%s__" % name, _forward(function))
        setattr(Call, "__r%s__" % name, _reflect(function))
    Call.__divmod__, Call.__rdivmod__ = _forward(divmod), _reflect(divmod)
    for function in (abs, bool, bytes, complex, dir, float, format, int, iter, len, repr, round, str):
        setattr(Call, "__%s__" % function.__name__, _forward(function))
    for function in (math.ceil, math.floor, math.trunc):
        setattr(Call, "__%s__" % function.__name__, _forward(function))


_protocols()


def known_to_libraries():
    """Tell what looks at the type itself: asyncio, that a call can be awaited,
    and json, that it is to be written as its result."""
    asyncio.coroutines._iscoroutine_typecache.add(Call)
    plain = json.JSONEncoder.default

    @functools.wraps(plain)
    def default(self, value):
        return value.result() if is_call(value) else plain(self, value)

    json.JSONEncoder.default = default


async def done(value):
    """A value that is there already, to await."""
    return value
