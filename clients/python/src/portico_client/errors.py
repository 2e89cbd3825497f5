"""What can go wrong."""

from __future__ import annotations

from typing import Any


class PorticoError(Exception):
    """The server refused a request, or gave no answer.

    status is that of HTTP, 0 where no answer came; code is the server's code of the
    error, detail says what to do, trace_id finds the request in the server's log, and
    retry_after is how many seconds to wait, where the server says it.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        code: str = "",
        detail: str = "",
        trace_id: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{message} {detail}".strip())
        self.message = message
        self.status = status
        self.code = code
        self.detail = detail
        self.trace_id = trace_id
        self.retry_after = retry_after


def refusal(status: int, body: Any, retry_after: float | None) -> PorticoError:
    """Return the error of an answer that is no success."""
    if not isinstance(body, dict):
        return PorticoError(f"The server answered with status {status}.", status=status, retry_after=retry_after)
    return PorticoError(
        str(body.get("errMsg") or body.get("error") or f"The server answered with status {status}."),
        status=status,
        code=str(body.get("errCode") or ""),
        detail=str(body.get("errDetail") or ""),
        trace_id=str(body.get("traceId") or body.get("request_id") or ""),
        retry_after=retry_after,
    )
