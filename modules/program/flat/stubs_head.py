

class ToolExecutionError(Exception):
    """A tool failed, or was refused. code is the stable name of the failure,
    status the HTTP status that it came with, url where a person authorizes what
    the tool needs; it is empty if that is not the reason."""

    def __init__(self, message, code="", status=0, url=""):
        super().__init__(message)
        self.message, self.code, self.status, self.url = message, code, status, url


def _portico_post(path, body):
    import json
    import os
    import urllib.error
    import urllib.request

    headers = {"Content-Type": "application/json", "X-API-Key": os.environ.get("PORTICO_API_KEY", "")}
    if os.environ.get("PORTICO_CALL_ID"):
        headers["x-ptc-call-id"] = os.environ["PORTICO_CALL_ID"]
    try:
        data = json.dumps(body, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise TypeError("an argument cannot be sent as JSON: %s" % error) from None
    request = urllib.request.Request(PORTICO_URL + path, data, headers, method="POST")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=600) as answer:
            return json.load(answer)["result"]
    except urllib.error.HTTPError as error:
        text = error.read().decode("utf-8", "replace")
        try:
            said = json.loads(text)
            words = " ".join(word for word in (said.get("errMsg"), said.get("errDetail")) if word)
            code, url = said.get("errCode", ""), said.get("url", "")
        except (AttributeError, ValueError):
            words, code, url = text[:500], "", ""
        raise ToolExecutionError(words or "status %d" % error.code, code, error.code, url) from None
    except OSError as error:
        raise ToolExecutionError("Portico cannot be reached at %s: %s" % (PORTICO_URL, error)) from None


def _portico_tool(name, given, nullable):
    arguments = {key: value for key, value in given.items() if value is not None or key in nullable}
    return _portico_post("/tool_call", {"tool": name, "input": arguments})
