"""What a program can look up about its tools: the file catalog.json, which the
host writes beside the SDK."""

import builtins
import json

PATH = "/refly_tools/catalog.json"


def _tools():
    try:
        with open(PATH, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return []


def search_tools(query=""):
    """The signatures of the tools whose names or descriptions have every word
    of the query, a line each; of all tools without one."""
    words = str(query).lower().split()
    found = []
    for tool in _tools():
        text = "%s %s %s" % (tool["toolset"], tool["name"], tool["description"])
        if all(word in text.lower() for word in words):
            found.append("%s: %s" % (tool["toolset"], tool["line"]))
    return "\n".join(found) or "No tool matches. search_tools() lists all."


def help(name=None):
    """Everything about one tool, by its name or toolset.name. Anything that is
    no text is explained as Python does."""
    if not isinstance(name, str):
        return builtins.help() if name is None else builtins.help(name)
    toolset, dot, tool_name = name.partition(".")
    if not dot:
        toolset, tool_name = "", name
    for tool in _tools():
        if toolset in ("", tool["toolset"]) and tool_name in (tool["name"], tool["identifier"]):
            schema = json.dumps(tool["schema"], indent=2, ensure_ascii=False)
            return "%s: %s\n\n%s\n\nParameters:\n%s" % (tool["toolset"], tool["signature"], tool["description"].strip(), schema)
    return "There is no tool %r. search_tools() lists all." % name
