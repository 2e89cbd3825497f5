"""Writes programs from what a model reads of tools: one line of each. Reads
{"text": what search_tools answered, "said": {function: error of an earlier
call}} and prints {"functions": program, "classes": program, "intended": [...]}.
"""

import ast
import json
import re
import sys

OPTIONAL = "__optional"
MARK = re.compile(r'"((?:[^"\\]|\\.)*)"(\?(?=:))?|(\w+)\?(?=:)')


def marked(match):
    if match[3]:
        return match[3] + OPTIONAL
    return '"%s%s"' % (match[1], OPTIONAL if match[2] else "")


def parse(line):
    """A line as a function's definition, whose annotations are types."""
    signature, _, comment = line.partition("  # ")
    text = MARK.sub(marked, signature)
    text = re.sub(r"\*\*(?=\{|Any\))", "**others: ", text)
    return ast.parse("def " + text + ": pass").body[0], comment


def split(name):
    return (name[: -len(OPTIONAL)], True) if name.endswith(OPTIONAL) else (name, False)


def value(kind, full):
    """A value of a type; of an object all members, or only those it needs."""
    if isinstance(kind, ast.Constant):
        return kind.value
    if isinstance(kind, ast.UnaryOp):
        return ast.literal_eval(kind)
    if isinstance(kind, ast.BinOp):
        left = value(kind.left, full)
        return value(kind.right, full) if left is None else left
    if isinstance(kind, ast.Name):
        return {"str": "x", "int": 1, "float": 1.5, "bool": True, "dict": {}, "list": [], "Any": "anything"}[kind.id]
    if isinstance(kind, ast.Subscript):
        if kind.value.id == "list":
            return [value(kind.slice, full)]
        return {"key": value(kind.slice.elts[1], full)}
    if isinstance(kind, ast.Dict):
        return members(zip(kind.keys, kind.values), full)
    raise ValueError(ast.dump(kind))


def members(pairs, full):
    out = {}
    for key, kind in pairs:
        if key is None:
            continue  # **Any: others, which are not told
        name, optional = split(key.id if isinstance(key, ast.Name) else key.value)
        if full or not optional:
            out[name] = value(kind, full)
    return out


def arguments(definition, full):
    """Plain arguments, and those that are given with **."""
    plain = {}
    for parameter in definition.args.args:
        name, optional = split(parameter.arg)
        if full or not optional:
            plain[name] = value(parameter.annotation, full)
    rest = definition.args.kwarg
    more = members(zip(rest.annotation.keys, rest.annotation.values), full) if rest and isinstance(rest.annotation, ast.Dict) else {}
    return plain, more


def repaired(given, said):
    """What a model makes of a refusal: the values that it says are wrong, in
    the form that it asks for."""
    for path, rule in re.findall(r"([\w.$\[\]/-]+): (must [^;]+)", said):
        *steps, last = [int(s) if s.isdigit() else s for s in re.findall(r"[^.\[\]/]+", path)]
        at = given
        for step in steps:
            at = at[step]
        if isinstance(last, str) and last not in at:
            last = re.sub(r"\W", "_", last)  # as the SDK calls it
        if isinstance(last, int) or last in at:
            at[last] = fit(at[last], rule)
    return given


def fit(value, rule):
    number = re.search(r"-?\d+", rule)
    literal = re.search(r'one of ("(?:[^"\\]|\\.)*"|-?\d+)', rule)
    if literal:
        return json.loads(literal[1])
    if "uri" in rule:
        return "https://example.com/x"
    if "uuid" in rule or "[0-9a-fA-F]{8}" in rule:
        return "123e4567-e89b-42d3-a456-426614174000"
    if r"\d{4}-\d{2}-\d{2}" in rule:
        return "2026-01-02"
    if r"[a-z0-9-]{0,61}[a-z0-9])?\.)+" in rule:
        return "example.com"
    if "character" in rule:
        return "x" * int(number[0])
    if isinstance(value, (int, float)) and number:
        return int(number[0]) + (1 if "more" in rule or "greater" in rule else 0)
    if "integer" in rule:
        return 1
    return value


def call(function, plain, more):
    text = ["%s=%r" % item for item in plain.items()]
    if more:
        text.append("**%r" % (more,))
    return "%s(%s)" % (function, ", ".join(text))


def main():
    given = json.load(sys.stdin)
    imports, methods, tools = {}, {}, []
    for line in given["text"].split("\n"):
        found = re.fullmatch(r"# (\S+) as a class: (from \S+ import (\w+)) \(.*", line)
        if found:
            imports[found[1]] = (found[2], found[3])
        elif line and "# [portico]" not in line:  # functions of the server's own, which no stand-in answers
            tools.append(parse(line))
    programs = {"functions": ["import json"], "classes": ["import json"] + [text for text, _ in imports.values()]}
    intended = []
    for definition, comment in tools:
        toolset = re.match(r"\[(\S+)\]", comment)[1]
        other = re.match(r"\[\S+\] \((\w+\.\w+)\)", comment)
        method = other[1] if other else "%s.%s" % (imports[toolset][1], definition.name)
        for full in (False, True):
            plain, more = arguments(definition, full)
            said = given["said"].get("%s %s" % (definition.name, full))
            if given["said"] and said is None:
                continue
            if said:
                both = repaired({**plain, **more}, said)
                plain, more = {k: both[k] for k in plain}, {k: both[k] for k in more}
            key = json.dumps("%s %s" % (definition.name, full))
            intended.append({"key": json.loads(key), "toolset": toolset, "arguments": {**plain, **more}})
            programs["functions"] += [
                "try:", "    " + call(definition.name, plain, more), "except Exception as error:",
                "    print(json.dumps([%s, str(error)]))" % key,
            ]
            programs["classes"] += [
                "answer = " + call(method, plain, more), "if answer['status'] != 'success':",
                "    print(json.dumps([%s, answer['error']]))" % key,
            ]
    print(json.dumps({"intended": intended, **{name: "\n".join(text) for name, text in programs.items()}}))


if __name__ == "__main__":
    main()
