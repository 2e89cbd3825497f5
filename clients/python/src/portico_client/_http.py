"""What both clients share of HTTP."""

from __future__ import annotations

import os
from typing import Any

import httpx

from ._flows import Answer, Request
from .errors import PorticoError

RETRIES = 3


def address(url: str | None) -> str:
    """Return where the server is."""
    return (url or os.environ.get("PORTICO_URL") or "http://localhost:5800").rstrip("/")


def headers(api_key: str | None) -> dict[str, str]:
    """Return the headers of every request."""
    key = api_key or os.environ.get("PORTICO_API_KEY")
    if not key:
        raise ValueError("api_key is missing; PORTICO_API_KEY may hold it")
    return {"X-API-Key": key, "User-Agent": "portico-client-python"}


def options(request: Request) -> dict[str, Any]:
    """Return the arguments of httpx for a request."""
    return {
        "json": request.json,
        "params": dict(request.params),
        "files": request.files,
        "data": request.data,
        **({} if request.timeout is None else {"timeout": request.timeout}),
    }


def retry_after(response: httpx.Response) -> float | None:
    """Return for how many seconds the server asks to wait."""
    try:
        return float(response.headers["Retry-After"])
    except (KeyError, ValueError):
        return None


def read(request: Request, response: httpx.Response) -> Answer:
    """Read an answer."""
    wait = retry_after(response)
    if request.binary and response.status_code == 200:
        return Answer(200, response.content, wait)
    try:
        body = response.json()
    except ValueError:
        body = None
    return Answer(response.status_code, body, wait)


def lost(e: httpx.HTTPError) -> PorticoError:
    """Return the error of a request without an answer."""
    return PorticoError(f"The server gave no answer: {type(e).__name__} {e}".strip())


def wait(request: Request, attempt: int, answer: Answer | None) -> float | None:
    """Return how long to wait before a request is sent again; None where it is not.

    What was refused for its number had not begun, so that it is sent again whatever it
    is. Where no answer came, only what changes nothing twice is.
    """
    if attempt >= RETRIES:
        return None
    usual = 0.5 * 2**attempt
    if answer is None:
        return usual if request.again else None
    if answer.status == 429 and request.files is None:
        return min(answer.retry_after if answer.retry_after is not None else usual, 60)
    if request.again and answer.status in (502, 503, 504):
        return min(answer.retry_after if answer.retry_after is not None else usual, 60)
    return None
