"""Names that programs use without importing them. A program that binds one of
them has its own."""

import importlib
import sys
import types

from portico_runtime import fonts

_MODULES = {
    "np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot", "pa": "pyarrow",
    **{name: name for name in (
        "asyncio", "collections", "csv", "datetime", "functools", "io", "itertools", "json", "math", "matplotlib", "numpy",
        "os", "pandas", "pyarrow", "random", "re", "scipy", "sklearn", "statistics", "sys", "time", "typing",
    )},
}  # fmt: skip
_TYPING = ("Any", "Callable", "Dict", "List", "Optional", "Tuple", "Union")

_names = {}


def warm():
    """Find what is imported already; the rest costs nothing until it is used."""
    import typing

    for name, module in _MODULES.items():
        _names[name] = sys.modules.get(module) or _Module(name, module)
    _names.update((name, getattr(typing, name)) for name in _TYPING)


def names():
    return _names


def modules():
    return _MODULES.values()


_inside = types.ModuleType.__getattribute__


class _Module(types.ModuleType):
    """A module that is imported when something of it is first wanted."""

    def __init__(self, name, module):
        super().__init__(module)
        _inside(self, "__dict__")["_portico"] = name, module

    def __getattribute__(self, name):
        return _inside(self, name) if name == "__class__" else getattr(_load(self), name)

    def __setattr__(self, name, value):
        setattr(_load(self), name, value)

    def __dir__(self):
        return dir(_load(self))

    def __repr__(self):
        return repr(_load(self))


def _load(wanted):
    name, module = _inside(wanted, "__dict__")["_portico"]
    if module.startswith("matplotlib"):
        fonts.list_fonts()
    found = importlib.import_module(module)
    program = vars(sys.modules["__main__"])
    if program.get(name) is wanted:
        program[name] = found
    return found
