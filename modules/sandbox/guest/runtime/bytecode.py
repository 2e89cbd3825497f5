"""Compiles the runtime, so that an interpreter need not at each start: prints
the bytecode of each of its modules, by the path where Python looks for it.

It runs before there is any program, in a sandbox that sees nothing but the
runtime and Python.
"""

import base64
import importlib.util
import json
import marshal
import os

FOLDER = "/run/portico-python"
# The first word after Python's own number: by the hash of the source, which is
# not compared. The host changes the folder's name when it changes the source.
UNCHECKED = (1).to_bytes(4, "little")

compiled = {}
for folder, _, names in os.walk(FOLDER):
    for name in names:
        path = os.path.join(folder, name)
        if folder == FOLDER + "/languages" or not name.endswith(".py"):
            continue
        with open(path, "rb") as file:
            source = file.read()
        code = compile(source, path, "exec", dont_inherit=True)
        head = importlib.util.MAGIC_NUMBER + UNCHECKED + importlib.util.source_hash(source)
        where = os.path.relpath(importlib.util.cache_from_source(path), FOLDER)
        compiled[where] = base64.b64encode(head + marshal.dumps(code)).decode()
print(json.dumps(compiled))
