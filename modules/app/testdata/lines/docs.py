"""Writes programs from the documentation of toolsets, as generate.py does from
their lines. Reads {"text": {toolset: documentation} as JSON, "said": ...}."""

import ast
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import generate

FENCE = "`" * 3
BULLET = re.compile(r"^( *)- `([^`]+)`(?: \((?!required\))([^:]*?)\))?(?: \(required\))?(?::|$)")


def value(kind, children, full):
    """A value of an annotation; children are the members that bullets name."""
    if isinstance(kind, ast.Constant):
        return kind.value
    if isinstance(kind, ast.UnaryOp):
        return ast.literal_eval(kind)
    if isinstance(kind, ast.Name):
        return {"str": "x", "int": 1, "float": 1.5, "bool": True, "Any": "anything", "None": None}[kind.id]
    name, inner = kind.value.id, kind.slice
    if name == "Optional":
        return value(inner, children, full)
    if name in ("Union", "Literal"):
        return value(inner.elts[0] if isinstance(inner, ast.Tuple) else inner, children, full)
    if name == "List":
        return [value(inner, strip(children, "[]"), full)]
    if children:
        return members(children, full)
    return {"key": value(inner.elts[1], strip(children, "{}"), full)} if full else {}


def strip(children, mark):
    return [(path[len(mark) :].lstrip("."), *rest) for path, *rest in children if path.startswith(mark)]


def members(children, full):
    return {
        path: value(kind, below, full)
        for path, kind, optional, below in children
        if (full or not optional) and not path.startswith(("[]", "{}"))
    }


def bullets(lines):
    """The bullets of a section as a tree: (path, type, optional, children)."""
    root = []
    stack = [(-1, root)]
    for line in lines:
        choice = re.match(r"( *)- (either|or):$", line)
        if choice:
            while stack[-1][0] >= len(choice[1]):
                stack.pop()
            # The first is taken, and the others are not.
            stack.append((len(choice[1]), stack[-1][1] if choice[2] == "either" else []))
            continue
        found = BULLET.match(line)
        if not found:
            continue
        indent, path, note = len(found[1]), found[2], found[3] or "Any"
        while stack[-1][0] >= indent:
            stack.pop()
        note, optional = (note[: -len(", optional")], True) if note.endswith(", optional") else (note, False)
        try:
            kind = ast.parse(note, mode="eval").body
        except SyntaxError:
            kind = ast.parse("Any", mode="eval").body
        below = []
        stack[-1][1].append((path, kind, optional, below))
        stack.append((indent, below))
    return root


def calls(text):
    head = re.search(r"from (\S+) import (\w+)", text)
    for section in re.split(r"(?m)^## ", text)[1:]:
        code = section.split(FENCE + "python\n", 1)[1].split(FENCE, 1)
        definition = ast.parse(code[0]).body[0]
        tree = {path: below for path, _, _, below in bullets(code[1].split("\n"))}
        parameters = definition.args.args
        optional = len(parameters) - len(definition.args.defaults)
        for full in (False, True):
            yield head[0], head[2], definition.name, full, {
                p.arg: value(p.annotation, tree.get(p.arg, []), full) for i, p in enumerate(parameters) if full or i < optional
            }


def main():
    given = json.load(sys.stdin)
    program, intended = ["import json"], []
    for toolset, text in json.loads(given["text"]).items():
        for statement, name, method, full, arguments in calls(text):
            key = "%s.%s %s" % (toolset, method, full)
            said = given["said"].get(key)
            if given["said"] and said is None:
                continue
            if said:
                arguments = generate.repaired(arguments, said)
            intended.append({"key": key, "toolset": toolset, "arguments": arguments})
            program += [
                statement, "answer = " + generate.call(name + "." + method, arguments, {}), "if answer['status'] != 'success':",
                "    print(json.dumps([%r, answer['error']]))" % key,
            ]
    print(json.dumps({"intended": intended, "classes": "\n".join(program)}))


main()
