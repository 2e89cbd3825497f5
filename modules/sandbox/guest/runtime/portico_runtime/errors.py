"""The exception of a call that failed."""

from portico_runtime import channel


class ToolExecutionError(Exception):
    """A tool failed, or was refused. str() is one line.

    message     what the tool, or the service, said
    code        the stable name of the failure, such as TOOL_ERROR or E0003
    status      the HTTP status that the failure came with; 0 if there is none
    request_id  the request to ask about: the upstream's, or else the service's
    suggestion  what to do about it; may be empty
    tool        the name of the function that was called
    url         where a person authorizes the tool's server; empty if that is not the reason
    """

    __module__ = "__main__"  # where programs find it, and tracebacks say it is

    def __init__(self, message="", code="TOOL_ERROR", status=0, request_id="", suggestion="", tool="", url=""):
        super().__init__(message)
        self.message, self.code, self.status = str(message), code, status
        self.request_id, self.suggestion, self.tool = request_id, suggestion, tool
        self.url = url

    def __str__(self):
        said = [self.message] if self.suggestion in self.message else [self.message, self.suggestion]
        return " ".join(" ".join(said).split())


class ApprovalDenied(ToolExecutionError):
    """A person refused the call. Nothing was sent. reason says why."""

    __module__ = "__main__"

    def __init__(self, message="", code="APPROVAL_DENIED", status=0, request_id="", suggestion="", tool="", url="", reason=""):
        super().__init__(message, code, status, request_id, suggestion, tool, url)
        self.reason = reason or self.message


class ApprovalTimeout(ToolExecutionError):
    """Nobody allowed the call in time. Nothing was sent. reason says why."""

    __module__ = "__main__"

    def __init__(self, message="", code="APPROVAL_TIMEOUT", status=0, request_id="", suggestion="", tool="", url="", reason=""):
        super().__init__(message, code, status, request_id, suggestion, tool, url)
        self.reason = reason or self.message


AUTH_NEEDED = "AUTH_NEEDED"  # the code of what waits for a person's authorization
UNREACHABLE = "E0001"  # the service's code for what cannot be reached


def unreachable(error, tool):
    if isinstance(error, channel.Lost):
        message = "the answer to the call was lost: %s. The tool may still have run: check its effect before calling it again."
        return ToolExecutionError(message % error, UNREACHABLE, tool=tool)
    return ToolExecutionError("the tools cannot be reached: %s" % error, UNREACHABLE, tool=tool)


def refused(status, headers, envelope, tool):
    """The service refused the call: its envelope says why."""
    message = _text(envelope, "errMsg", "message") or "the tools answered with status %d" % status
    return ToolExecutionError(
        message,
        _text(envelope, "errCode") or "E0000",
        status,
        _text(envelope, "traceId") or _request(headers),
        _text(envelope, "errDetail"),
        tool,
    )


def failed(status, headers, answer, tool):
    """The tool failed: its data may hold what the upstream said of it."""
    data = answer.get("data")
    places = [data, data.get("error")] if isinstance(data, dict) else []
    said = {}
    for place in places:
        if isinstance(place, dict):
            said.update(place)
    upstream = said.get("status", said.get("statusCode"))
    if isinstance(upstream, int) and not isinstance(upstream, bool):
        status = upstream
    details = (
        _text(answer, "error") or "the tool failed",
        _text(answer, "errorCode") or "TOOL_ERROR",
        status,
        _text(said, "request_id", "requestId") or _text(answer, "traceId") or _request(headers),
        _text(answer, "suggestion") or _text(said, "suggested_fix", "suggestedFix", "suggestion"),
        tool,
        _text(said, "url") if answer.get("errorCode") == AUTH_NEEDED else "",
    )
    kind = APPROVALS.get(answer.get("errorCode"))
    return kind(*details, _text(said, "reason")) if kind else ToolExecutionError(*details)


APPROVALS = {"APPROVAL_DENIED": ApprovalDenied, "APPROVAL_TIMEOUT": ApprovalTimeout}


def _text(values, *names):
    for name in names:
        if isinstance(values.get(name), str) and values[name].strip():
            return values[name].strip()
    return ""


def _request(headers):
    return next((value for name, value in (headers or {}).items() if name.lower() == "x-request-id"), "")
