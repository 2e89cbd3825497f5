"""The asynchronous client."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Generator, Sequence
from types import TracebackType
from typing import IO, Any, TypeAlias, TypeVar

import httpx

from . import _flows, _http
from .errors import PorticoError, refusal
from .models import Approval, Event, File, ProgramResult, RunResult

T = TypeVar("T")
ListOfApprovals: TypeAlias = list[Approval]
ListOfFiles: TypeAlias = list[File]


class AsyncPortico:
    """A client of a Portico server, for asyncio.

    url is PORTICO_URL, or http://localhost:5800, where it is not given; api_key is
    PORTICO_API_KEY. timeout bounds one request, in seconds; programs have their own.
    """

    def __init__(self, url: str | None = None, api_key: str | None = None, *, timeout: float = 60) -> None:
        self._http = httpx.AsyncClient(base_url=_http.address(url), headers=_http.headers(api_key), timeout=timeout)
        self.runs = AsyncRuns(self)
        self.programs = AsyncPrograms(self)
        self.approvals = AsyncApprovals(self)
        self.files = AsyncFiles(self)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncPortico:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        await self.close()

    async def _send(self, request: _flows.Request) -> _flows.Answer:
        attempt = 0
        while True:
            try:
                answer = _http.read(request, await self._http.request(request.method, request.path, **_http.options(request)))
            except httpx.HTTPError as e:
                if (seconds := _http.wait(request, attempt, None)) is None:
                    raise _http.lost(e) from e
            else:
                if (seconds := _http.wait(request, attempt, answer)) is None:
                    return answer
            await asyncio.sleep(seconds)
            attempt += 1

    @staticmethod
    async def _call(tool: _flows.AnyTool | None, name: str, arguments: dict[str, Any]) -> _flows.Outcome:
        if tool is None:
            return _flows.unknown(name)
        try:
            value = tool(**arguments)
            return _flows.checked(await value if inspect.isawaitable(value) else value)
        except Exception as e:
            return _flows.failed(e)

    async def _do(self, flow: Generator[_flows.Request | _flows.Invoke, Any, T]) -> T:
        reply: Any = None
        while True:
            try:
                step = flow.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, _flows.Invoke):
                reply = await asyncio.gather(*(self._call(*call) for call in step.calls))
            else:
                reply = await self._send(step)


class AsyncRun:
    """A run of an agent."""

    def __init__(self, client: AsyncPortico, result_id: str, version: int) -> None:
        self._client = client
        self.result_id = result_id
        self.version = version

    async def events(self, after: int = 0) -> AsyncIterator[Event]:
        """Follow the run to its end, from the event after a number.

        The stream is opened again where it breaks off; no event is lost, and none comes twice.
        """
        at = _flows.Following(self.result_id, self.version, after)
        while not at.ended:
            try:
                async for event in self._stream(at):
                    yield event
                problem = PorticoError("The stream of the run broke off.")
            except httpx.HTTPError as e:
                problem = _http.lost(e)
            except PorticoError as e:
                problem = e
            if not at.ended:
                await asyncio.sleep(at.broken(problem))

    async def _stream(self, at: _flows.Following) -> AsyncIterator[Event]:
        path = f"/v1/action/{at.result_id}/events"
        async with self._client._http.stream("GET", path, params=at.params(), timeout=httpx.Timeout(30, read=60)) as response:
            if response.status_code == 204:  # the run has ended, and there is nothing more
                at.ended = True
                return
            if response.status_code != 200:
                await response.aread()
                answer = _http.read(_flows.Request("GET", path), response)
                raise refusal(answer.status, answer.body, answer.retry_after)
            lines = _flows.Lines()
            async for line in response.aiter_lines():
                whole = lines.take(line)
                event = at.take(*whole) if whole else None
                if event is not None:
                    yield event
                if at.ended:
                    return

    async def result(self) -> RunResult:
        """Return the run as it is at the moment."""
        return await self._client._do(_flows.result(self.result_id, self.version))

    async def wait(self) -> RunResult:
        """Wait for the end of the run."""
        async for _ in self.events():
            pass
        return await self.result()

    async def abort(self) -> bool:
        """End the run. False when it had ended before."""
        return await self._client._do(_flows.abort(self.result_id, self.version))


class AsyncRuns:
    """Runs of agents."""

    def __init__(self, client: AsyncPortico) -> None:
        self._client = client

    async def start(
        self,
        query: str,
        *,
        toolsets: Sequence[str] = (),
        model: str | None = None,
        history: Sequence[str] = (),
        canvas_id: str | None = None,
        result_id: str | None = None,
        approval: str | None = None,
        ptc: str | None = None,
    ) -> AsyncRun:
        """Let an agent answer. What the arguments mean: docs/agents.md#a-run."""
        options = _flows.given(
            toolsets=list(toolsets), model=model, history=list(history), canvasId=canvas_id, resultId=result_id, approval=approval, ptc=ptc
        )
        return AsyncRun(self._client, *await self._client._do(_flows.start(query, options)))

    async def get(self, result_id: str) -> AsyncRun:
        """Find a run, in its newest version."""
        return AsyncRun(self._client, result_id, await self._client._do(_flows.newest(result_id)))


class AsyncPrograms:
    """Programs in the sandbox."""

    def __init__(self, client: AsyncPortico) -> None:
        self._client = client

    async def run(
        self,
        code: str,
        *,
        language: str = "python",
        toolsets: Sequence[str] = (),
        tools: Sequence[_flows.AnyTool] = (),
        timeout: float | None = None,
        canvas_id: str | None = None,
        approval: str | None = None,
    ) -> ProgramResult:
        """Run a program to its end. timeout is in seconds.

        tools are functions of this process (see tool), which the program may call beside
        those of the toolsets; such a program is Python or bash, and has no canvas.
        """
        if not tools:
            options = _flows.given(canvasId=canvas_id, approval=approval)
            return await self._client._do(_flows.program(code, language, toolsets, timeout, options))
        if canvas_id is not None or approval is not None:
            raise ValueError("a program with tools of this process has no canvas_id and no approval")
        return await self._client._do(_flows.program_with_tools(code, language, toolsets, timeout, tools))


class AsyncApprovals:
    """Calls that wait for a person."""

    def __init__(self, client: AsyncPortico) -> None:
        self._client = client

    async def list(self, state: str = "waiting") -> ListOfApprovals:
        """List them; state is waiting, or all for those that are decided, too."""
        return await self._client._do(_flows.approvals(state))

    async def decide(
        self,
        call_id: str,
        decision: str,
        *,
        reason: str | None = None,
        arguments: dict[str, Any] | None = None,
        pattern: dict[str, Any] | None = None,
    ) -> Approval:
        """Decide one: allow, allow_run, allow_always or refuse (docs/approvals.md#deciding)."""
        options = _flows.given(reason=reason, arguments=arguments, pattern=pattern)
        return await self._client._do(_flows.decide(call_id, decision, options))


class AsyncFiles:
    """Files of canvases."""

    def __init__(self, client: AsyncPortico) -> None:
        self._client = client

    async def canvas(self, title: str = "") -> str:
        """Make a canvas and return its id."""
        return await self._client._do(_flows.canvas(title))

    async def upload(self, content: str | os.PathLike[str] | bytes | IO[bytes], canvas_id: str, name: str = "") -> File:
        """Store a file, which is a path or the content itself."""
        return await self._client._do(_flows.upload(content, canvas_id, name))

    async def list(self, canvas_id: str) -> ListOfFiles:
        """List the files of a canvas."""
        return await self._client._do(_flows.files(canvas_id))

    async def download(self, file_id: str) -> bytes:
        """Read a file."""
        return await self._client._do(_flows.download(file_id))

    async def delete(self, file_id: str) -> None:
        """Delete a file."""
        await self._client._do(_flows.delete(file_id))
