"""Functions of this process that programs on the server may call."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, ParamSpec, TypeVar, overload

P = ParamSpec("P")
R = TypeVar("R")

_SIMPLE: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


@dataclass(frozen=True)
class Tool(Generic[P, R]):
    """A function with what a program must know of it. Calling it calls the function."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    function: Callable[P, R]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function."""
        return self.function(*args, **kwargs)

    def definition(self) -> dict[str, Any]:
        """Return what the server is told."""
        return {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}


@overload
def tool(function: Callable[P, R]) -> Tool[P, R]: ...
@overload
def tool(*, name: str = "", description: str = "") -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(function: Callable[P, R] | None = None, *, name: str = "", description: str = "") -> Any:
    """Let programs call a function of this process.

    The parameters are described by their annotations, and the tool by the docstring,
    unless name or description say otherwise. The function is called with arguments by
    name. It may be a coroutine function where the client is asynchronous. What it
    returns must be JSON; what it raises is raised in the program, as text.
    """

    def wrap(f: Callable[P, R]) -> Tool[P, R]:
        return Tool(name or f.__name__, description or inspect.getdoc(f) or "", _parameters(f), f)

    return wrap if function is None else wrap(function)


def _parameters(function: Callable[..., Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(function)
    properties: dict[str, Any] = {}
    required = []
    for name, p in inspect.signature(function).parameters.items():
        if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise TypeError(f"{function.__name__}: {p} cannot be given by name")
        properties[name] = _schema(hints.get(name, Any))
        if p.default is p.empty:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _schema(hint: Any) -> dict[str, Any]:
    """Describe a type. One that JSON does not have is anything."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint in _SIMPLE:
        return {"type": _SIMPLE[hint]}
    if origin is Literal:
        return {"enum": list(args)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_schema(a) for a in args]}
    if origin in (list, tuple, set, frozenset) or hint in (list, tuple, set, frozenset):
        return {"type": "array", "items": _schema(args[0])} if args else {"type": "array"}
    if origin is dict or hint is dict:
        return {"type": "object", "additionalProperties": _schema(args[1])} if args else {"type": "object"}
    if typing.is_typeddict(hint):
        members = typing.get_type_hints(hint)
        return {
            "type": "object",
            "properties": {name: _schema(h) for name, h in members.items()},
            "required": sorted(hint.__required_keys__),
        }
    return {}
