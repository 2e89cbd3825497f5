"""What is changed in a program before it runs, in its syntax tree, so that no
line moves: return works outside of functions, and calls of tools that are not
awaited stand for their results."""

import ast

# Functions that take calls and await them later.
_GATHER = {
    "gather", "wait", "wait_for", "as_completed", "create_task", "ensure_future", "shield", "run", "run_until_complete",
    "run_coroutine_threadsafe", "start_soon",
}  # fmt: skip
_COLLECT = {"append", "add", "extend", "insert", "put", "put_nowait", "update", "setdefault"}
_TRANSPARENT = (
    ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp, ast.Starred,
    ast.Lambda, ast.keyword, ast.IfExp, ast.comprehension,
)  # fmt: skip
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

RESULT = "__portico_result__"


class Return(BaseException):
    """A return outside of functions."""


def rewrite(tree, tools):
    """Change the tree in place. tools are the names of the functions."""
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    tools = used.intersection(tools)
    if tools:
        tools -= bound(tree)
    if tools:
        parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
        _Results(parents, _awaited(tree), tools).visit(tree)
    if any(isinstance(n, ast.Return) for n in ast.walk(tree)):
        _Returns().visit(tree)
    ast.fix_missing_locations(tree)


def bound(tree):
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


def _called(node):
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):
            return node.func.attr
        if isinstance(node.func, ast.Name):
            return node.func.id
    return ""


def _awaited(tree):
    """Names that stand for something to await, somewhere in the program."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Await):
            inside = [node.value]
        elif isinstance(node, ast.AsyncFor):
            inside = [node.iter]
        elif _called(node) in _GATHER:
            inside = [*node.args, *(k.value for k in node.keywords)]
        else:
            continue
        for part in inside:
            names.update(n.id for n in ast.walk(part) if isinstance(n, ast.Name))
    return names


class _Results(ast.NodeTransformer):
    def __init__(self, parents, awaited, tools):
        self._parents = parents
        self._awaited = awaited
        self._tools = tools

    def visit_Call(self, node):
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        later = name not in self._tools or self._is_awaited(node)
        self.generic_visit(node)
        if later:
            return node
        wrapped = ast.Await(node) if self._may_await(node) else ast.Call(ast.Name(RESULT, ast.Load()), [node], [])
        return ast.copy_location(wrapped, node)

    def _is_awaited(self, node):
        """Whether the program awaits what the call returns, now or later."""
        child, parent = node, self._parents[node]
        while isinstance(parent, _TRANSPARENT):
            if isinstance(parent, ast.comprehension):
                return False  # it is iterated over
            if isinstance(parent, ast.IfExp) and child is parent.test:
                return False
            child, parent = parent, self._parents[parent]
        if isinstance(parent, (ast.Await, ast.AsyncFor)):
            return True
        if isinstance(parent, ast.Call):
            name = _called(parent)
            if name in _GATHER:
                return True
            if name in self._tools or child is parent.func:
                return False
            if name in _COLLECT and isinstance(parent.func, ast.Attribute):
                return self._names(parent.func.value)
            return self._inside_await(parent)
        if isinstance(parent, ast.Assign):
            return any(self._names(target) for target in parent.targets)
        if isinstance(parent, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            return self._names(parent.target)
        if isinstance(parent, (ast.Return, ast.Yield)):
            function = self._function(parent)
            return isinstance(function, ast.FunctionDef) and function.name in self._awaited
        return False

    def _names(self, target):
        return any(isinstance(n, ast.Name) and n.id in self._awaited for n in ast.walk(target))

    def _inside_await(self, node):
        """An argument of a function whose result is awaited: the function
        awaits it, if it is not one that wants a value."""
        while isinstance(node, (ast.Call, *_TRANSPARENT)):
            if _called(node) in ("print", "len", "str", "sum", "dumps", "sorted", "repr"):
                return False
            node = self._parents[node]
        return isinstance(node, ast.Await)

    def _function(self, node):
        while node is not None and not isinstance(node, _FUNCTIONS):
            node = self._parents.get(node)
        return node

    def _may_await(self, node):
        """Whether an await may stand here: directly in a coroutine."""
        parent = self._parents.get(node)
        while parent is not None and not isinstance(parent, _FUNCTIONS):
            if isinstance(parent, (ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp, ast.ClassDef)):
                return False
            parent = self._parents.get(parent)
        return isinstance(parent, ast.AsyncFunctionDef)


class _Returns(ast.NodeTransformer):
    def visit_FunctionDef(self, node):
        return node

    visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = visit_FunctionDef

    def visit_Return(self, node):
        raised = ast.Raise(ast.Name("__portico_return__", ast.Load()), None)
        if node.value is None:
            return ast.copy_location(raised, node)
        return [ast.copy_location(ast.Expr(node.value), node), ast.copy_location(raised, node)]
