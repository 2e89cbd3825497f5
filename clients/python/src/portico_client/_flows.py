"""What the client does, without doing any of it.

A flow is a generator: it yields what has to be sent or called, and is sent what came
of it. The synchronous and the asynchronous client perform the same flows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, TypeVar

from . import models
from .errors import PorticoError, refusal
from .tools import Tool

T = TypeVar("T")
AnyTool = Tool[..., Any]


@dataclass
class Request:
    """A request to send. again says that it may be sent more than once."""

    method: str
    path: str
    json: Any = None
    params: Mapping[str, str] = field(default_factory=dict)
    files: Any = None
    data: Mapping[str, str] | None = None
    again: bool = False
    binary: bool = False
    timeout: float | None = None


@dataclass
class Answer:
    """What was answered."""

    status: int
    body: Any
    retry_after: float | None = None


@dataclass
class Invoke:
    """Calls of functions of this process, to be made at once where that is possible."""

    calls: list[tuple[AnyTool | None, str, dict[str, Any]]]


@dataclass
class Outcome:
    """What came of a call."""

    result: Any = None
    error: str = ""


Flow = Generator["Request | Invoke", Any, T]


def given(**members: Any) -> dict[str, Any]:
    """Leave out what is None."""
    return {name: value for name, value in members.items() if value is not None}


def ask(request: Request) -> Flow[Any]:
    """Send a request and take the data out of the answer."""
    answer: Answer = yield request
    if answer.status != 200:
        raise refusal(answer.status, answer.body, answer.retry_after)
    if request.binary:
        return answer.body
    if not isinstance(answer.body, dict) or "data" not in answer.body:
        raise PorticoError("The answer is not one of a Portico server.", status=answer.status)
    return answer.body["data"]


def start(query: str, options: Mapping[str, Any]) -> Flow[tuple[str, int]]:
    """Begin a run of an agent."""
    data = yield from ask(Request("POST", "/v1/skill/invoke", {"query": query, **options}))
    return data["resultId"], data["version"]


def newest(result_id: str) -> Flow[int]:
    """Return the newest version of a run."""
    data = yield from ask(Request("GET", "/v1/action/result", params={"resultId": result_id}, again=True))
    return int(data["version"])


def result(result_id: str, version: int) -> Flow[models.RunResult]:
    """Read a run with all of its messages, which come in several answers where there are many."""
    params = {"resultId": result_id, "version": str(version)}
    messages: list[Any] = []
    steps: dict[str, dict[str, Any]] = {}
    while True:
        data = yield from ask(Request("GET", "/v1/action/result", params=params, again=True))
        messages += data["messages"]
        for step in data["steps"]:
            whole = steps.setdefault(step["name"], {})
            for member, value in step.items():
                whole[member] = whole[member] + value if member in whole and member != "name" else value
        cursor = data.pop("messagesCursor", "")
        if not cursor:
            return models.run_result({**data, "messages": messages, "steps": list(steps.values())})
        params["messagesAfter"] = cursor


def abort(result_id: str, version: int) -> Flow[bool]:
    """End a run."""
    data = yield from ask(Request("POST", "/v1/action/abort", {"resultId": result_id, "version": version}, again=True))
    return bool(data["aborted"])


def program(
    code: str, language: str, toolsets: Sequence[str], timeout: float | None, options: Mapping[str, Any]
) -> Flow[models.ProgramResult]:
    """Run a program to its end."""
    body = {"language": language, "code": code, "toolsets": list(toolsets), **options}
    if timeout is not None:
        body["timeout"] = int(timeout * 1000)
    data = yield from ask(Request("POST", "/v1/sandbox/execute", body, timeout=_patience(timeout)))
    return models.ProgramResult(data["status"], data["stdout"], data["stderr"], data.get("errorCode") or "", data)


def _patience(timeout: float | None) -> float:
    """Return for how many seconds a program is waited for: its time, and that before its turn."""
    return (timeout or 300) + 120


def program_with_tools(
    code: str, language: str, toolsets: Sequence[str], timeout: float | None, tools: Sequence[AnyTool]
) -> Flow[models.ProgramResult]:
    """Run a program whose tools are functions of this process."""
    by_name = {t.name: t for t in tools}
    if len(by_name) < len(tools):
        raise ValueError("two tools have one name")
    body: dict[str, Any] = {"code": code, "lang": language, "tools": [t.definition() for t in tools]}
    if toolsets:
        body["toolsets"] = list(toolsets)
    if timeout is not None:
        body["timeout"] = int(timeout * 1000)
    while True:
        answer: Answer = yield Request("POST", "/v1/exec/programmatic", body, timeout=_patience(timeout))
        got = answer.body
        # What a program wrote is in every answer about one, whatever the status. One that the sandbox lost has no end.
        if not isinstance(got, dict) or "stdout" not in got or got.get("error_code") == "runtime_unavailable":
            raise refusal(answer.status, got, answer.retry_after)
        if got["status"] != "tool_call_required":
            return _ended(got)
        calls = [(by_name.get(c["name"]), c["name"], c.get("input") or {}) for c in got["tool_calls"]]
        outcomes: list[Outcome] = yield Invoke(calls)
        body = {
            "continuation_token": got["continuation_token"],
            "tool_results": [
                {"call_id": c["id"], "result": o.result, "is_error": bool(o.error), **({"error_message": o.error} if o.error else {})}
                for c, o in zip(got["tool_calls"], outcomes, strict=True)
            ],
        }


def _ended(got: Mapping[str, Any]) -> models.ProgramResult:
    why = got.get("error_code") or "failed"
    how = "completed" if got["status"] == "completed" else "timed_out" if why == "timeout" else why
    return models.ProgramResult(how, got.get("stdout") or "", got.get("stderr") or "", got.get("error") or "", got)


def unknown(name: str) -> Outcome:
    """Return the outcome of a call of a tool that there is not."""
    return Outcome(error=f"there is no tool {name}")


def checked(value: Any) -> Outcome:
    """Return the outcome of a call that returned something."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as e:
        return Outcome(error=f"the result is not JSON: {e}")
    return Outcome(result=value)


def failed(e: BaseException) -> Outcome:
    """Return the outcome of a call that raised something."""
    return Outcome(error=f"{type(e).__name__}: {e}")


def pages(path: str, params: Mapping[str, str]) -> Flow[list[Any]]:
    """Read all pages of a list."""
    items: list[Any] = []
    cursor = ""
    while True:
        more = {"cursor": cursor} if cursor else {"limit": "100"}
        data = yield from ask(Request("GET", path, params={**params, **more}, again=True))
        items += data["items"]
        cursor = data.get("nextCursor") or ""
        if not cursor:
            return items


def approvals(state: str) -> Flow[list[models.Approval]]:
    """List calls that wait, or did."""
    items = yield from pages("/v1/tool/approvals", {"state": state})
    return [models.approval(i) for i in items]


def decide(call_id: str, decision: str, options: Mapping[str, Any]) -> Flow[models.Approval]:
    """Decide a call that waits."""
    data = yield from ask(Request("POST", "/v1/tool/call/decide", {"callId": call_id, "decision": decision, **options}))
    return models.approval(data)


def upload(content: str | os.PathLike[str] | bytes | IO[bytes], canvas_id: str, name: str) -> Flow[models.File]:
    """Store a file in a canvas."""
    if isinstance(content, (str, os.PathLike)):
        with open(content, "rb") as f:
            return (yield from upload(f, canvas_id, name or os.path.basename(content)))
    if not name:
        raise ValueError("content that is no path needs a name")
    data = yield from ask(Request("POST", "/v1/drive/file/upload", files={"file": (name, content)}, data={"canvasId": canvas_id}))
    return models.file(data)


def files(canvas_id: str) -> Flow[list[models.File]]:
    """List the files of a canvas."""
    items = yield from pages("/v1/drive/file/list", {"canvasId": canvas_id})
    return [models.file(i) for i in items]


def download(file_id: str) -> Flow[bytes]:
    """Read a file."""
    content: bytes = yield from ask(Request("GET", f"/v1/drive/file/content/{file_id}", again=True, binary=True))
    return content


def delete(file_id: str) -> Flow[None]:
    """Delete a file."""
    yield from ask(Request("POST", "/v1/drive/file/delete", {"fileId": file_id}))


def canvas(title: str) -> Flow[str]:
    """Make a canvas."""
    data = yield from ask(Request("POST", "/v1/canvas/create", {"title": title}))
    return str(data["canvasId"])


@dataclass
class Following:
    """Where a stream of events was left, and how long to wait before it is opened again."""

    result_id: str
    version: int
    last: int = 0
    failures: int = 0
    ended: bool = False
    most: int = 8

    def params(self) -> dict[str, str]:
        """Return the parameters of the next request."""
        return {"version": str(self.version), "lastEventId": str(self.last)}

    def take(self, event_id: str, data: str) -> models.Event | None:
        """Read an event; None for one that was there before."""
        raw = json.loads(data)
        number = int(event_id or 0)
        if 0 < number <= self.last:
            return None
        self.last, self.failures = max(self.last, number), 0
        self.ended = raw.get("event") == "end"
        return models.Event(number, str(raw.get("event") or ""), raw)

    def broken(self, error: PorticoError) -> float:
        """Return how long to wait, or raise the error if it came too often or will come again."""
        self.failures += 1
        if self.failures > self.most or (400 <= error.status < 500 and error.status not in (408, 429)):
            raise error
        usual = min(0.25 * 2.0 ** (self.failures - 1), 10.0)
        return max(usual, error.retry_after or 0.0)


class Lines:
    """Reads server-sent events from lines. An event that is not whole does not count."""

    def __init__(self) -> None:
        self._id = ""
        self._data: list[str] = []

    def take(self, line: str) -> tuple[str, str] | None:
        """Read a line; return the id and the data of the event that ends with it, if one does."""
        line = line.rstrip("\r\n")
        if not line:
            event = (self._id, "\n".join(self._data)) if self._data else None
            self._id, self._data = "", []
            return event
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            self._id = value
        elif name == "data":
            self._data.append(value)
        return None
