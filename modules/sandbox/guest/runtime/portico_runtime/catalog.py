"""What a program can ask the host about its tools."""

import builtins
import json

from portico_runtime import channel

SEARCH = "/v1/program/search"
HELP = "/v1/program/help"


def _ask(path, question):
    try:
        status, _, body = channel.request(path, {"Content-Type": "application/json"}, json.dumps(question).encode())
        answer = json.loads(body)
    except (OSError, ValueError) as error:
        return "The tools cannot be looked up: %s" % error
    if status == 200:
        return answer["text"]
    return " ".join(text for text in (answer.get("errMsg"), answer.get("errDetail")) if text)


def search_tools(query=""):
    """The tools that fit what you want to do, best first, a line each that says
    how to call it; all tools without a query."""
    return _ask(SEARCH, {"query": str(query)})


def help(name=None):
    """Everything about one tool, by its name, toolset.name or its function.
    Anything else is explained as Python does."""
    tool = getattr(name, "__portico_tool__", None)
    if tool is None and not isinstance(name, str):
        return builtins.help() if name is None else builtins.help(name)
    return _ask(HELP, {"name": tool or name})
