"""Tries the client against a server: PORTICO_URL and PORTICO_API_KEY say which.

The model of its agents follows the script of TestThePythonClient.
"""

from __future__ import annotations

import asyncio
import http.server
import io
import json
import os
import pathlib
import socket
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from typing import Any, Literal, TypedDict

import portico_client
from portico_client import AsyncPortico, Event, Portico, PorticoError, tool


class Point(TypedDict):
    x: int
    y: float


@tool
def double(n: int) -> int:
    """Doubles a number."""
    return 2 * n


@tool
def broken(text: str = "x") -> str:
    raise ValueError(f"no {text}")


@tool(name="odd", description="Returns what is not JSON.")
def not_json() -> object:
    return object()


class Tools(unittest.TestCase):
    def test_definitions(self) -> None:
        @tool
        def f(
            a: str,
            b: list[int],
            c: dict[str, float],
            d: Literal["x", "y"],
            e: Point,
            g: int | None = None,
            h: Any = 1,
        ) -> None:
            """Says
            much."""

        self.assertEqual(
            f.definition(),
            {
                "name": "f",
                "description": "Says\nmuch.",
                "parameters": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["a", "b", "c", "d", "e"],
                    "properties": {
                        "a": {"type": "string"},
                        "b": {"type": "array", "items": {"type": "integer"}},
                        "c": {"type": "object", "additionalProperties": {"type": "number"}},
                        "d": {"enum": ["x", "y"]},
                        "e": {
                            "type": "object",
                            "properties": {"x": {"type": "integer"}, "y": {"type": "number"}},
                            "required": ["x", "y"],
                        },
                        "g": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                        "h": {},
                    },
                },
            },
        )
        self.assertEqual(double(4), 8)
        with self.assertRaisesRegex(TypeError, "cannot be given by name"):

            @tool
            def g(*args: int) -> None: ...


class Sync(unittest.TestCase):
    def setUp(self) -> None:
        self.portico = Portico()
        self.addCleanup(self.portico.close)

    def test_runs(self) -> None:
        run = self.portico.runs.start("How warm is Oslo?", toolsets=["demo"])
        events = list(run.events())
        self.assertEqual([e.id for e in events if e.id], sorted({e.id for e in events if e.id}), "in their order, each once")
        self.assertEqual(events[-1].type, "end")
        result = run.wait()
        self.assertTrue(result.ended)
        self.assertEqual((result.status, result.answer), ("finish", "It is warm in Oslo."))
        self.assertIn(result.answer, "".join(e.text for e in events))
        self.assertFalse(run.abort(), "it had ended")
        again = self.portico.runs.get(run.result_id)
        self.assertEqual(again.version, run.version)
        self.assertEqual([e.id for e in again.events(after=events[-2].id)], [events[-1].id])
        self.assertEqual(list(again.events(after=events[-1].id)), [], "there is nothing more")
        failed = self.portico.runs.start("Does it break?").wait()
        self.assertEqual(failed.status, "error")
        self.assertIn("no such model", failed.errors[0])

    def test_long_runs(self) -> None:
        result = self.portico.runs.start("List them often.", toolsets=["demo"]).wait()
        self.assertEqual(result.answer, "There are some.", "it is on the last page")
        self.assertEqual(len({m["messageId"] for m in result.raw["messages"]}), 1020 + 4)
        calls = {s["name"]: len(s["toolCalls"]) for s in result.raw["steps"]}
        self.assertEqual(sum(calls.values()), 1020 + 1, calls)
        self.assertEqual([s["content"] for s in result.raw["steps"] if s["content"]], ["I look.There are some."])
        self.assertNotIn("messagesCursor", result.raw)

    def test_runs_over_a_bad_road(self) -> None:
        whole = list(self.portico.runs.start("How warm is Oslo?", toolsets=["demo"], result_id="ar-road").events())
        with Road(cut_after=2500) as road, Portico(road.url) as far:
            events = list(far.runs.get("ar-road").events())
        self.assertEqual([e.raw for e in events], [e.raw for e in whole])
        self.assertGreater(road.cuts, 1)

    def test_programs(self) -> None:
        done = self.portico.programs.run("print(get_weather(city='Oslo')['city'])", toolsets=["demo"])
        self.assertEqual((done.ok, done.status, done.stdout), (True, "completed", "Oslo\n"))
        failed = self.portico.programs.run("1/0")
        self.assertEqual((failed.ok, failed.status), (False, "failed"))
        self.assertIn("ZeroDivisionError", failed.stderr)
        slow = self.portico.programs.run("while True: pass", timeout=1)
        self.assertEqual(slow.status, "timed_out")
        self.assertEqual(self.portico.programs.run("echo $((6*7))", language="bash").stdout, "42\n")

    def test_programs_with_tools_of_this_process(self) -> None:
        code = """
first = double(n=1)                                        # a pause
second = double(n=first)                                   # another one
print(second, get_weather(city="Oslo")["city"])
print(*await asyncio.gather(*(double(n=i) for i in range(5))))
for f in (broken, odd):
    try:
        f()
    except Exception as e:
        print(e)
"""
        done = self.portico.programs.run(code, tools=[double, broken, not_json], toolsets=["demo"])
        self.assertTrue(done.ok, done)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[:2], ["4 Oslo", "0 2 4 6 8"])
        self.assertIn("ValueError: no x", lines[2])
        self.assertIn("the result is not JSON", lines[3])
        failed = self.portico.programs.run("double(n=1)\n1/0", tools=[double])
        self.assertFalse(failed.ok)
        self.assertIn("ZeroDivisionError", failed.stderr + failed.error)
        slow = self.portico.programs.run("double(n=1)\nwhile True: pass", tools=[double], timeout=1)
        self.assertEqual(slow.status, "timed_out")
        with self.assertRaisesRegex(ValueError, "one name"):
            self.portico.programs.run("1", tools=[double, double])
        with self.assertRaisesRegex(ValueError, "no canvas_id"):
            self.portico.programs.run("1", tools=[double], canvas_id="c-1")

    def test_how_programs_with_tools_end(self) -> None:
        rounds = self.portico.programs.run("for i in range(21):\n    print(double(n=i))", tools=[double])
        self.assertEqual((rounds.ok, rounds.status, rounds.error), (False, "failed", "Exceeded maximum round trips (20)"))
        self.assertEqual(len(rounds.stdout.splitlines()), 20)
        over = {"status": "error", "stdout": "so far", "stderr": "", "error": "why"}
        answers = [
            (200, {**over, "error_code": "out_of_memory"}),
            (400, {**over, "error_code": "cancelled"}),
            (200, {**over, "error_code": "timeout"}),
            (503, {**over, "error_code": "runtime_unavailable"}),
        ]
        with Stub(*answers) as stub, Portico(stub.url) as portico:
            for status in ("out_of_memory", "cancelled", "timed_out"):
                done = portico.programs.run("1", tools=[double])
                self.assertEqual((done.ok, done.status, done.stdout, done.error), (False, status, "so far", "why"))
            with self.assertRaises(PorticoError) as lost:
                portico.programs.run("1", tools=[double])
            self.assertEqual((lost.exception.status, lost.exception.message), (503, "why"))

    def _careful(self, code: str, results: list[Any]) -> None:
        results.append(self.portico.programs.run(code, toolsets=["demo"], approval="always"))

    def test_approvals(self) -> None:
        for decision, want in {"allow": "Oslo\n", "refuse": "refused: not today\n"}.items():
            code = "try:\n  print(get_weather(city='Oslo')['city'])\nexcept ApprovalDenied as e:\n  print('refused:', e.reason)"
            results: list[Any] = []
            work = threading.Thread(target=self._careful, args=(code, results))
            work.start()
            waiting = until(self.portico.approvals.list)
            self.assertEqual((waiting[0].tool, waiting[0].arguments["city"]), ("get_weather", "Oslo"))
            decided = self.portico.approvals.decide(waiting[0].call_id, decision, reason="not today")
            self.assertEqual(decided.state, {"allow": "allowed", "refuse": "refused"}[decision])
            work.join()
            self.assertEqual(results[0].stdout, want)
            with self.assertRaises(PorticoError) as late:
                self.portico.approvals.decide(waiting[0].call_id, "allow")
            self.assertEqual((late.exception.status, late.exception.code), (409, "APPROVAL_SETTLED"))
        self.assertEqual(self.portico.approvals.list(), [])
        self.assertEqual({a.state for a in self.portico.approvals.list("all")}, {"allowed", "refused"})

    def test_files(self) -> None:
        canvas = self.portico.files.canvas("Test")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a.txt"
            path.write_text("x\n1\n")
            first = self.portico.files.upload(path, canvas)
        self.assertEqual((first.name, first.size), ("a.txt", 4))
        self.portico.files.upload(b"bytes", canvas, "b.txt")
        self.portico.files.upload(io.BytesIO(b"stream"), canvas, "c.txt")
        with self.assertRaisesRegex(ValueError, "needs a name"):
            self.portico.files.upload(b"x", canvas)
        files = {f.name: f for f in self.portico.files.list(canvas)}
        self.assertEqual(sorted(files), ["a.txt", "b.txt", "c.txt"])
        self.assertEqual(self.portico.files.download(files["c.txt"].file_id), b"stream")
        read = self.portico.programs.run("print(open('b.txt').read())", canvas_id=canvas)
        self.assertEqual(read.stdout, "bytes\n", read)
        self.portico.files.delete(files["b.txt"].file_id)
        self.assertEqual(len(self.portico.files.list(canvas)), 2)
        with self.assertRaises(PorticoError) as missing:
            self.portico.files.download(files["b.txt"].file_id)
        self.assertEqual(missing.exception.status, 404)

    def test_lists_of_many_pages(self) -> None:
        canvas = self.portico.files.canvas("Many")
        for n in range(105):
            self.portico.files.upload(b"x", canvas, f"{n}.txt")
        self.assertEqual(len({f.name for f in self.portico.files.list(canvas)}), 105)

    def test_refusals(self) -> None:
        with self.assertRaises(PorticoError) as refused:
            self.portico.runs.start("x", model="huge")
        e = refused.exception
        self.assertEqual((e.status, e.message), (400, 'There is no model "huge".'))
        self.assertIn("There are:", e.detail)
        self.assertTrue(e.code and e.trace_id)
        self.assertEqual(str(e), f"{e.message} {e.detail}")
        with Portico(api_key="rf_wrong") as stranger, self.assertRaises(PorticoError) as unknown:
            stranger.runs.get("x")
        self.assertEqual(unknown.exception.status, 401)
        with Portico("http://127.0.0.1:1") as nowhere, self.assertRaises(PorticoError) as lost:
            nowhere.runs.start("x")
        self.assertEqual(lost.exception.status, 0)
        self.assertIn("gave no answer", str(lost.exception))
        key = os.environ.pop("PORTICO_API_KEY")
        try:
            with self.assertRaisesRegex(ValueError, "PORTICO_API_KEY"):
                Portico()
        finally:
            os.environ["PORTICO_API_KEY"] = key

    def test_busy_servers_are_asked_again(self) -> None:
        busy = (429, {"errMsg": "Too many.", "errCode": "E0009"})
        begun = (200, {"success": True, "data": {"resultId": "ar-1", "version": 0}})
        with Stub(busy, busy, begun) as stub, Portico(stub.url) as portico:
            self.assertEqual(portico.runs.start("x").result_id, "ar-1")
        self.assertEqual(stub.asked, 3)
        with Stub(busy, busy, busy, busy, begun) as stub, Portico(stub.url) as portico:
            with self.assertRaises(PorticoError) as refused:
                portico.runs.start("x")
            self.assertEqual((refused.exception.status, refused.exception.retry_after), (429, 0.0))
        self.assertEqual(stub.asked, 4)
        # Whether it began is not known: it is not begun twice.
        with Stub((503, {}), begun) as stub, Portico(stub.url) as portico, self.assertRaises(PorticoError):
            portico.runs.start("x")
        self.assertEqual(stub.asked, 1)
        with Stub((200, "text"), begun) as stub, Portico(stub.url) as portico:
            with self.assertRaisesRegex(PorticoError, "not one of a Portico server"):
                portico.runs.start("x")


class Async(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.portico = AsyncPortico()
        self.addAsyncCleanup(self.portico.close)

    async def test_runs(self) -> None:
        run = await self.portico.runs.start("How warm is Oslo?", toolsets=["demo"])
        events: list[Event] = [e async for e in run.events()]
        self.assertEqual(events[-1].type, "end")
        self.assertEqual((await run.wait()).answer, "It is warm in Oslo.")
        self.assertFalse(await run.abort())
        again = await self.portico.runs.get(run.result_id)
        self.assertEqual(again.version, run.version)
        self.assertEqual([e async for e in again.events(after=events[-1].id)], [], "there is nothing more")

    async def test_runs_over_a_bad_road(self) -> None:
        run = await self.portico.runs.start("How warm is Oslo?", toolsets=["demo"], result_id="ar-far")
        whole = [e.raw async for e in run.events()]
        with Road(cut_after=2500) as road:
            async with AsyncPortico(road.url) as far:
                events = [e.raw async for e in (await far.runs.get("ar-far")).events()]
        self.assertEqual(events, whole)
        self.assertGreater(road.cuts, 1)

    async def test_calls_at_once(self) -> None:
        met = asyncio.Barrier(5) if hasattr(asyncio, "Barrier") else None

        @tool
        async def meet(n: int) -> int:
            if met is not None:
                await asyncio.wait_for(met.wait(), 20)  # all five are here at once
            return n

        code = "print(sum(await asyncio.gather(*(meet(n=i) for i in range(5)))), double(n=2))"
        done = await self.portico.programs.run(code, tools=[meet, double, broken])
        self.assertEqual(done.stdout, "10 4\n", done)
        failed = await self.portico.programs.run("broken()", tools=[broken])
        self.assertIn("ValueError: no x", failed.stderr + failed.error)

    async def test_the_rest(self) -> None:
        done = await self.portico.programs.run("print(1)")
        self.assertTrue(done.ok)
        canvas = await self.portico.files.canvas()
        kept = await self.portico.files.upload(b"x", canvas, "x.txt")
        self.assertEqual(await self.portico.files.download(kept.file_id), b"x")
        self.assertEqual(await self.portico.files.list(canvas), [kept])
        await self.portico.files.delete(kept.file_id)
        self.assertEqual(await self.portico.approvals.list(), [])
        with self.assertRaises(PorticoError):
            await self.portico.approvals.decide("none", "allow")
        with self.assertRaises(PorticoError):
            await self.portico.runs.start("x", model="huge")
        async with AsyncPortico("http://127.0.0.1:1") as nowhere:
            with self.assertRaises(PorticoError):
                await nowhere.runs.start("x")


def until(look: Callable[[], list[Any]]) -> list[Any]:
    """Return what is found, when it is there."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if found := look():
            return found
    raise AssertionError("nothing came")


class Road:
    """A way to the server on which streams are cut after so many bytes."""

    def __init__(self, cut_after: int) -> None:
        self.cut_after, self.cuts = cut_after, 0

    def __enter__(self) -> Road:
        self._listen = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listen.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listen.close()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._listen.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        host, _, port = os.environ["PORTICO_URL"].removeprefix("http://").partition(":")
        with near, socket.create_connection((host, int(port))) as far:
            asked = near.recv(65536)
            far.sendall(asked.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
            left = self.cut_after if b"/events" in asked.partition(b"\r\n")[0] else 1 << 30
            while left > 0 and (data := far.recv(min(left, 65536))):
                near.sendall(data)
                left -= len(data)
            self.cuts += left <= 0


class Stub:
    """A server that gives answers of a list, one after the other."""

    def __init__(self, *answers: tuple[int, object]) -> None:
        self.answers, self.asked = answers, 0

    def __enter__(self) -> Stub:
        stub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                status, body = stub.answers[stub.asked]
                stub.asked += 1
                self.rfile.read(int(self.headers["Content-Length"]))
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.send_header("Retry-After", "0")
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class Package(unittest.TestCase):
    def test_it_is_typed(self) -> None:
        self.assertIn("py.typed", [p.name for p in pathlib.Path(portico_client.__file__).parent.iterdir()])


if __name__ == "__main__":
    unittest.main()
