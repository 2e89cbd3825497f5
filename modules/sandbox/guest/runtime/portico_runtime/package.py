"""The package refly_tools, as programs import it: whoever generated it, and
also if nobody did, it has ToolExecutionError, and a program's functions."""

import json
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader

from portico_runtime import calls, errors, spaces, suggest

NAME = "refly_tools"
FOLDER = "/refly_tools"


class Finder:
    """Finds the package and its modules, before Python does."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] != NAME:
            return None
        found = PathFinder.find_spec(name, path)
        if name != NAME:
            if found is None:
                raise ModuleNotFoundError("No module named %r%s" % (name, advice(name)), name=name)
            return found
        if found is None or found.loader is None:
            return _empty(found)
        if isinstance(found.loader, SourceFileLoader):
            found.loader = _Source(found.loader.name, found.loader.path)
        return found


def _empty(found):
    """A package whose files make none by themselves."""
    spec = ModuleSpec(NAME, _Nothing(), is_package=True)
    spec.submodule_search_locations = list(found.submodule_search_locations) if found else []
    return spec


class _Nothing:
    def create_module(self, spec):
        return None

    def exec_module(self, module):
        _complete(module)


class _Source(SourceFileLoader):
    def exec_module(self, module):
        super().exec_module(module)
        _complete(module)


def _complete(module):
    for kind in (errors.ToolExecutionError, errors.ApprovalDenied, errors.ApprovalTimeout):
        module.__dict__.setdefault(kind.__name__, kind)
    module.__dict__.setdefault("__getattr__", _function)


def _function(name):
    found = vars(sys.modules["__main__"]).get(name)
    if calls.is_tool(found) or spaces.of(found):
        return found
    raise AttributeError("module %r has no attribute %r" % (NAME, name))


def advice(name):
    """What may have been meant by a name that the package does not have."""
    modules = [toolset["module"] for toolset in toolsets()]
    if not modules:
        return ". There are no toolsets to import; tools are functions, which need no import."
    return suggest.among(name.rpartition(".")[2], sorted(modules), "There are")


def toolsets():
    """The module and the class of each toolset; the class may be unknown."""
    try:
        with open(FOLDER + "/manifest.json", encoding="utf-8") as file:
            return json.load(file)["toolsets"]
    except (OSError, ValueError, KeyError, TypeError):
        pass  # another generator's
    try:
        files = os.listdir(FOLDER)
    except OSError:
        return []
    return [{"module": f[:-3], "class": ""} for f in files if f.endswith(".py") and not f.startswith("_")]
