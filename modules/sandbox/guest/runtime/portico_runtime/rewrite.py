"""What is changed in a program before it runs, in its syntax tree, so that no
line moves: return works outside of functions, and calls of tools that are
awaited are made so that they can be. All other calls of tools are plain calls
of functions, whose results are plain values."""

import ast
import sys

from portico_runtime import flow

# Built-in functions of programs, for the changed places.
LATER = "__portico_later__"  # calls.later
READY = "__portico_ready__"  # calls.ready
EACH = "__portico_each__"  # calls.each
KEY = "__portico_key__"  # calls.key
RETURN = "__portico_return__"  # Return

# Of what these await, the first argument alone.
_ONE = flow.GATHER - {"gather", "wait", "as_completed", "start_soon"}


# Python itself takes expressions that are nested almost 1000 deep, such as long
# sums; looking at them takes several calls for each level.
DEPTH = 10_000


class Return(BaseException):
    """A return outside of functions."""


def rewrite(tree, tools, spaces=None):
    """Change the tree in place. tools are the names of the functions, and spaces
    those names by the names of their spaces and members."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEPTH))
    try:
        _rewrite(tree, tools, spaces or {})
    finally:
        sys.setrecursionlimit(limit)


def _rewrite(tree, tools, spaces):
    if tools:
        bound = _bound(tree)
        own = set(tools) - bound
        spaces = {space: members for space, members in spaces.items() if space not in bound}
        if spaces:
            _Members(spaces, own).visit(tree)
        _Results(flow.Flow(tree), own).visit(tree)
    if any(isinstance(n, ast.Return) for n in ast.walk(tree)):
        _Returns().visit(tree)
    ast.fix_missing_locations(tree)


def _bound(tree):
    """Names that the program defines itself."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
    return names


def _through(function, node):
    return ast.copy_location(ast.Call(ast.Name(function, ast.Load()), [node], []), node)


class _Members(ast.NodeTransformer):
    """Writes space.member as the name of its function, of which more is known."""

    def __init__(self, spaces, own):
        self._spaces, self._own = spaces, own

    def visit_Attribute(self, node):
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load):
            tool = self._spaces.get(node.value.id, {}).get(node.attr)
            if tool in self._own:
                return ast.copy_location(ast.Name(tool, ast.Load()), node)
        return node


class _Results(ast.NodeTransformer):
    """own are the names that nothing but a tool has."""

    def __init__(self, found, own):
        self._flow, self._own = found, own

    def visit_Call(self, node):
        later, key = self._flow.is_later(node), self._flow.is_key(node)
        plain = not later and isinstance(node.func, ast.Name) and node.func.id in self._own
        # In a coroutine, others go on while this one waits.
        wait = plain and self._flow.may_await(node)
        ours = self._flow.of_asyncio(node) or flow.called(node) in flow.GATHER
        gathers = self._flow.gathers(node)
        self.generic_visit(node)
        if gathers:
            self._make_ready(node)
        if later and flow.called(node) in ("map", "starmap") and node.args:
            node.args[0] = _through(LATER, node.args[0])
        if wait or (later and not ours):
            node.func = _through(LATER, node.func)
        if wait:
            return ast.copy_location(ast.Await(node), node)
        return _through(KEY, node) if later and key else node

    def _make_ready(self, node):
        name = flow.called(node)
        if name == "gather":
            for i, a in enumerate(node.args):
                if isinstance(a, ast.Starred):
                    a.value = _through(EACH, a.value)
                else:
                    node.args[i] = _through(READY, a)
        elif name in _ONE and node.args and not isinstance(node.args[0], ast.Starred):
            node.args[0] = _through(READY, node.args[0])

    def visit_Await(self, node):
        certain = isinstance(node.value, ast.Call) and self._flow.of_asyncio(node.value)
        self.generic_visit(node)
        if not certain:
            node.value = _through(READY, node.value)
        return node


class _Returns(ast.NodeTransformer):
    def visit_FunctionDef(self, node):
        return node

    visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = visit_FunctionDef

    def visit_Return(self, node):
        raised = ast.Raise(ast.Name(RETURN, ast.Load()), None)
        if node.value is None:
            return ast.copy_location(raised, node)
        return [ast.copy_location(ast.Expr(node.value), node), ast.copy_location(raised, node)]
