"""Writes a program that calls every tool from its line alone, as server.tool or as
a plain name. Reads what search_tools answered; the program prints, for each
line, its function and what was wrong, if anything was."""

import json
import re
import sys

import generate

program = ["import json"]
for line in sys.stdin.read().split("\n"):
    if not line or line.startswith("#"):
        continue
    function = re.match(r"[\w.]+", line)[0]
    definition, _ = generate.parse(function.replace(".", "__") + line[len(function):])
    plain, more = generate.arguments(definition, True)
    program += [
        "try:", "    " + generate.call(function, plain, more), "    print(json.dumps([%r, '']))" % function,
        "except Exception as error:", "    print(json.dumps([%r, str(error) or 'failed']))" % function,
    ]
print("\n".join(program))
