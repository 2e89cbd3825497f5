"""What a program awaits: the calls whose results it awaits, now or later, as
far as its syntax tree proves it."""

import ast

# Functions of asyncio that await what they are given. Other libraries have
# functions called run and wait, too.
GATHER = {
    "gather", "wait", "wait_for", "as_completed", "create_task", "ensure_future", "shield", "run", "run_until_complete",
    "run_coroutine_threadsafe", "start_soon",
}  # fmt: skip
_COMMON_NAMES = {"run", "wait"}
# Methods that put something into what they belong to, or take it out, and
# functions whose results hold what they are given.
COLLECT = {"append", "add", "extend", "insert", "put", "put_nowait", "update", "setdefault", "appendleft"}
_TAKE = {"values", "items", "keys", "pop", "popleft", "get", "copy"}
_HOLD = {"list", "tuple", "set", "dict", "map", "zip", "reversed", "enumerate", "filter", "chain", "starmap", "partial"}
_COLLECTIONS = (
    ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp, ast.Starred, ast.Lambda,
)  # fmt: skip
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def called(node):
    """The last name of what a call calls."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):
            return node.func.attr
        if isinstance(node.func, ast.Name):
            return node.func.id
    return ""


def held(node):
    """The names through which the value of an expression came."""
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.Attribute):
        return {node.attr}
    if isinstance(node, ast.Call):
        names = held(node.func)
        if called(node) in _HOLD:
            names = names.union(*(held(a) for a in node.args))
        if called(node) in _TAKE and isinstance(node.func, ast.Attribute):
            names = names | held(node.func.value)
        return names
    if isinstance(node, ast.Lambda):
        return held(node.body)
    if isinstance(node, ast.IfExp):
        return held(node.body) | held(node.orelse)
    if isinstance(node, ast.DictComp):
        return held(node.key) | held(node.value)
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        return held(node.elt)
    if isinstance(node, (ast.Starred, ast.Subscript, ast.NamedExpr)):
        return held(node.value)
    parts = getattr(node, "elts", None) or getattr(node, "values", None) or ()
    if isinstance(node, ast.Dict):
        parts = [*node.keys, *node.values]
    return set().union(*(held(part) for part in parts if part is not None))


class Flow:
    """What is known about one tree, before it is changed."""

    def __init__(self, tree):
        nodes = list(ast.walk(tree))
        self._parents = {child: parent for parent in nodes for child in ast.iter_child_nodes(parent)}
        self._functions = {}
        self._asyncio = {"asyncio"}
        for node in nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._functions.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.Import):
                self._asyncio.update(a.asname for a in node.names if a.name == "asyncio" and a.asname)
            elif isinstance(node, ast.ImportFrom) and node.module == "asyncio":
                self._asyncio.update(a.asname or a.name for a in node.names)
        self._awaited = set().union(*(self._first(node) for node in nodes))
        while True:
            more = set().union(*(self._next(node) for node in nodes))
            if more <= self._awaited:
                return
            self._awaited |= more

    def _first(self, node):
        """The names that this node awaits."""
        if isinstance(node, ast.Await):
            return held(node.value)
        if isinstance(node, ast.AsyncFor) or (isinstance(node, ast.comprehension) and node.is_async):
            return held(node.iter)
        if self.gathers(node):
            return set().union(*(held(a) for a in (*node.args, *(k.value for k in node.keywords))))
        return set()

    def _next(self, node):
        """The names whose values come to be awaited through this node."""
        if isinstance(node, ast.Assign):
            return held(node.value) if any(self._is_name(t) for t in node.targets) else set()
        if isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            return held(node.value) if self._is_name(node.target) else set()
        if isinstance(node, (ast.For, ast.comprehension)):
            return held(node.iter) if self._is_name(node.target) else set()
        if isinstance(node, (ast.Return, ast.Yield)):
            return held(node.value) if self._is_returned(node) else set()
        if isinstance(node, ast.Call):
            arguments = (*node.args, *node.keywords)
            if called(node) in COLLECT and isinstance(node.func, ast.Attribute) and self._is_name(node.func.value):
                return set().union(*(held(getattr(a, "value", a) if isinstance(a, ast.keyword) else a) for a in arguments))
            return set().union(*(held(a.value if isinstance(a, ast.keyword) else a) for a in arguments if self._takes(node, a)))
        return set()

    def _is_name(self, target):
        """Whether something is assigned here that is awaited."""
        return not held(target).isdisjoint(self._awaited)

    def _is_returned(self, node):
        """Whether what a plain function returns here is awaited."""
        function = self._parents[node]
        while function is not None and not isinstance(function, _FUNCTIONS):
            function = self._parents.get(function)
        return isinstance(function, ast.FunctionDef) and function.name in self._awaited

    def _takes(self, call, argument):
        """Whether a function of the program awaits this argument of its."""
        if called(call) in GATHER:
            return False
        return any(p in self._awaited for f in self._functions.get(called(call), ()) for p in _parameters(f, call, argument))

    def gathers(self, node):
        """Whether this is a call of a function that awaits its arguments."""
        name = called(node)
        if name not in GATHER:
            return False
        base = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        return name not in _COMMON_NAMES or (isinstance(base, ast.Name) and base.id in self._asyncio)

    def of_asyncio(self, call):
        """Whether a function of asyncio's own is called."""
        return isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and call.func.value.id in self._asyncio

    def is_later(self, node):
        """Whether the program awaits what this call returns."""
        collected, child, parent = False, node, self._parents[node]
        while True:
            if isinstance(parent, _COLLECTIONS):
                collected = True
            elif isinstance(parent, ast.Call) and called(parent) in _HOLD and child is not parent.func:
                collected = True
            elif not isinstance(parent, (ast.keyword, ast.BoolOp, ast.IfExp)) or child is getattr(parent, "test", None):
                break
            child, parent = parent, self._parents[parent]
        if isinstance(parent, ast.Await):
            return not collected
        if isinstance(parent, (ast.AsyncFor, ast.comprehension)):
            return child is parent.iter and (isinstance(parent, ast.AsyncFor) or bool(parent.is_async))
        if isinstance(parent, ast.Call):
            if child is parent.func:
                return False
            if self.gathers(parent):
                return True
            if called(parent) in COLLECT and isinstance(parent.func, ast.Attribute):
                return self._is_name(parent.func.value)
            return self._takes(parent, child)
        if isinstance(parent, ast.Assign):
            return any(self._is_name(target) for target in parent.targets)
        if isinstance(parent, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            return self._is_name(parent.target) or (isinstance(parent, ast.NamedExpr) and self.is_later(parent))
        return isinstance(parent, (ast.Return, ast.Yield)) and self._is_returned(parent)

    def is_key(self, node):
        """Whether the call becomes a member of a set or a key."""
        parent = self._parents[node]
        if isinstance(parent, (ast.Dict, ast.DictComp)):
            return node in parent.keys if isinstance(parent, ast.Dict) else node is parent.key
        return isinstance(parent, (ast.Set, ast.SetComp)) or called(parent) in ("add", "setdefault")

    def may_await(self, node):
        """Whether an await may stand here: directly in a coroutine."""
        parent = self._parents.get(node)
        while parent is not None and not isinstance(parent, _FUNCTIONS):
            if isinstance(parent, (ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp, ast.ClassDef)):
                return False
            parent = self._parents.get(parent)
        return isinstance(parent, ast.AsyncFunctionDef)


def _parameters(function, call, argument):
    """The names under which a function finds an argument of a call."""
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    if names[:1] in (["self"], ["cls"]) and isinstance(call.func, ast.Attribute):
        names = names[1:]
    rest = function.args.vararg.arg if function.args.vararg else None
    if isinstance(argument, ast.keyword):
        return [argument.arg]
    if argument not in call.args:
        return []
    place = call.args.index(argument)
    found = names[place:] if isinstance(argument, ast.Starred) else names[place : place + 1]
    return found or [rest]
