// Tries the built client in node against a server: PORTICO_URL and PORTICO_API_KEY say
// which. The model of its agents follows the script of TestTheTypeScriptClient.
import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import { test } from "node:test";

import { Portico, PorticoError } from "../dist/index.js";

const { PORTICO_URL: url, PORTICO_API_KEY: apiKey } = process.env;
const portico = new Portico({ url, apiKey });

const double = { name: "double", description: "Doubles.", parameters: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] }, run: ({ n }) => 2 * n };
const broken = { name: "broken", run: () => { throw new Error("no x"); } };

const all = async (events) => { const list = []; for await (const e of events) list.push(e); return list; };

test("runs", async () => {
  const run = await portico.startRun("How warm is Oslo?", { toolsets: ["demo"] });
  const events = await all(run.events());
  assert.equal(events.at(-1).event, "end");
  assert.deepEqual(events.map((e) => e.id), [...new Set(events.map((e) => e.id))].sort((a, b) => a - b));
  assert.match(events.filter((e) => e.event === "stream").map((e) => e.content).join(""), /It is warm in Oslo\./);
  const result = await run.wait();
  assert.equal(result.status, "finish");
  assert.equal(await run.abort(), false);
  const again = await portico.run(run.resultId);
  assert.equal(again.version, run.version);
  assert.deepEqual((await all(again.events({ after: events.at(-2).id }))).map((e) => e.id), [events.at(-1).id]);
  assert.deepEqual(await all(again.events({ after: events.at(-1).id })), [], "there is nothing more");
});

test("long runs", async () => {
  const run = await portico.startRun("List them often.", { toolsets: ["demo"] });
  const { messages, steps, messagesCursor } = await run.wait();
  assert.equal(messages.at(-1).content, "There are some.");
  assert.equal(new Set(messages.map((m) => m.messageId)).size, 1020 + 4);
  assert.equal(steps.flatMap((s) => s.toolCalls).length, 1020 + 1);
  assert.deepEqual(steps.map((s) => s.content).filter(Boolean), ["I look.There are some."]);
  assert.equal(messagesCursor, undefined);
});

test("runs over a bad road", async () => {
  const run = await portico.startRun("How warm is Oslo?", { toolsets: ["demo"], resultId: "ar-road" });
  const whole = await all(run.events());
  let cuts = 0;
  const road = await serve((asked, answer) => {
    const far = request(url + asked.url, { method: asked.method, headers: { ...asked.headers, host: new URL(url).host } }, (got) => {
      answer.writeHead(got.statusCode, got.headers);
      let left = asked.url.includes("/events") ? 2000 : Infinity;
      got.on("data", (piece) => {
        if (left <= 0) return;
        const cut = (left -= piece.length) <= 0;
        answer.write(cut ? piece.subarray(0, piece.length + left) : piece, () => { if (cut) { cuts++; far.destroy(); answer.destroy(); } });
      });
      got.on("end", () => answer.end());
      got.on("error", () => undefined);
    });
    far.on("error", () => undefined);
    asked.pipe(far);
  });
  const far = await new Portico({ url: road.url, apiKey }).run("ar-road");
  assert.deepEqual(await all(far.events()), whole);
  assert.ok(cuts > 1, `${cuts} cuts`);
  road.close();
});

test("programs", async () => {
  const done = await portico.executeProgram("print(get_weather(city='Oslo')['city'])", { toolsets: ["demo"] });
  assert.deepEqual([done.ok, done.status, done.stdout], [true, "completed", "Oslo\n"]);
  const failed = await portico.executeProgram("1/0");
  assert.deepEqual([failed.ok, failed.status], [false, "failed"]);
  assert.equal((await portico.executeProgram("while True: pass", { timeoutMs: 1000 })).status, "timed_out");
  assert.equal((await portico.executeProgram("echo 42", { language: "bash" })).stdout, "42\n");
});

test("programs with tools of this process", async () => {
  let here = 0;
  let open;
  const met = new Promise((resolve) => { open = resolve; });
  const meet = { name: "meet", run: async ({ n }) => { if (++here === 5) open(); await met; return n; } };
  const odd = { name: "odd", run: () => 1n };
  const code = `
first = double(n=1)
print(double(n=first), get_weather(city="Oslo")["city"])
print(sum(await asyncio.gather(*(meet(n=i) for i in range(5)))))
for f in (broken, odd):
    try:
        f()
    except Exception as e:
        print(e)
`;
  const done = await portico.executeProgram(code, { tools: [double, broken, meet, odd], toolsets: ["demo"] });
  assert.ok(done.ok, JSON.stringify(done));
  const lines = done.stdout.split("\n");
  assert.deepEqual(lines.slice(0, 2), ["4 Oslo", "10"]);
  assert.match(lines[2], /Error: no x/);
  assert.match(lines[3], /BigInt/);
  assert.equal((await portico.executeProgram("double(n=1)\nwhile True: pass", { tools: [double], timeoutMs: 1000 })).status, "timed_out");
  const failed = await portico.executeProgram("double(n=1)\n1/0", { tools: [double] });
  assert.match(failed.stderr + failed.error, /ZeroDivisionError/);
  await assert.rejects(portico.executeProgram("1", { tools: [double, double] }), /one name/);
  await assert.rejects(portico.executeProgram("1", { tools: [double], canvasId: "c-1" }), /no canvasId/);
});

test("what JSON cannot say is refused", async () => {
  const code = "for f in (nan, endless, function, map):\n    try:\n        print('got', f())\n    except Exception as e:\n        print(e)\nprint(fine())";
  const tools = Object.entries({ nan: NaN, endless: [{ x: -Infinity }], function: () => 1, map: new Map(), fine: { a: [1, null, undefined] } }).map(([name, value]) => ({ name, run: () => value }));
  const { stdout } = await portico.executeProgram(code, { tools });
  const lines = stdout.split("\n");
  for (const [i, value] of ["NaN", "-Infinity", "() => 1", "[object Map]"].entries()) assert.ok(lines[i].includes(`JSON cannot say ${value}`), stdout);
  assert.equal(lines[4], "{'a': [1, None, None]}");
  await assert.rejects(portico.executeProgram("1", { timeoutMs: NaN }), { name: "TypeError", message: "JSON cannot say NaN" });
  await assert.rejects(portico.decide("ptc:1", { decision: "allow", arguments: { days: Infinity } }), { name: "TypeError", message: "JSON cannot say Infinity" });
});

test("how programs with tools end", async () => {
  const rounds = await portico.executeProgram("for i in range(21):\n    print(double(n=i))", { tools: [double] });
  assert.deepEqual([rounds.ok, rounds.status, rounds.error], [false, "failed", "Exceeded maximum round trips (20)"]);
  assert.equal(rounds.stdout.split("\n").length, 21);
  const over = { status: "error", stdout: "so far", stderr: "", error: "why" };
  const answers = [[200, { ...over, error_code: "out_of_memory" }], [400, { ...over, error_code: "cancelled" }], [200, { ...over, error_code: "timeout" }], [503, { ...over, error_code: "runtime_unavailable" }]];
  const stub = await serve((_, answer) => {
    const [status, body] = answers.shift();
    answer.writeHead(status).end(JSON.stringify(body));
  });
  const far = new Portico({ url: stub.url, apiKey });
  for (const status of ["out_of_memory", "cancelled", "timed_out"]) {
    const { ok, ...got } = await far.executeProgram("1", { tools: [double] });
    assert.deepEqual([ok, got.status, got.stdout, got.error], [false, status, "so far", "why"]);
  }
  await assert.rejects(far.executeProgram("1", { tools: [double] }), { status: 503, message: "why" });
  stub.close();
});

test("programs last longer than fetch waits", async () => {
  const usual = Symbol.for("undici.globalDispatcher.1");
  const before = globalThis[usual];
  globalThis[usual] = new before.constructor({ headersTimeout: 1000, bodyTimeout: 1000 }); // five minutes, in short
  try {
    const code = "wait(ms=4000)\nprint('done')";
    assert.equal((await portico.executeProgram(code, { toolsets: ["demo"] })).stdout, "done\n");
    assert.equal((await portico.executeProgram(`double(n=1)\n${code}`, { toolsets: ["demo"], tools: [double] })).stdout, "done\n");
  } finally {
    globalThis[usual] = before;
  }
});

test("approvals", async () => {
  const run = await portico.startRun("Ask me first.", { toolsets: ["demo"], approval: "always" });
  let waiting = [];
  while ((waiting = await portico.approvals()).length === 0) await new Promise((r) => setTimeout(r, 50));
  assert.equal(waiting[0].tool, "get_weather");
  const decided = await portico.decide(waiting[0].callId, { decision: "refuse", reason: "not today" });
  assert.equal(decided.state, "refused");
  await run.wait();
  await assert.rejects(portico.decide(waiting[0].callId, { decision: "allow" }), { status: 409, code: "APPROVAL_SETTLED" });
  assert.equal((await portico.approvals("all")).length, 1);
});

test("refusals", async () => {
  await assert.rejects(portico.startRun("x", { model: "huge" }), (e) => {
    assert.ok(e instanceof PorticoError);
    assert.equal(e.status, 400);
    assert.match(e.message, /There is no model "huge"\. There are:/);
    return e.code !== "" && e.traceId !== "";
  });
  await assert.rejects(new Portico({ url, apiKey: "rf_wrong" }).run("x"), { status: 401 });
  await assert.rejects(new Portico({ url: "http://127.0.0.1:1", apiKey }).startRun("x"), { status: 0, message: /gave no answer/ });
});

test("busy servers are asked again, and nothing is begun twice", async () => {
  const answers = [];
  let asked = 0;
  const stub = await serve((_, answer) => {
    const [status, body] = answers[asked++];
    answer.writeHead(status, { "Retry-After": "0" }).end(JSON.stringify(body));
  });
  const far = new Portico({ url: stub.url, apiKey });
  const begun = [200, { success: true, data: { resultId: "ar-1", version: 0 } }];
  answers.push([429, {}], [429, {}], begun);
  assert.equal((await far.startRun("x")).resultId, "ar-1");
  answers.splice(0, 9, [429, {}], [429, {}], [429, {}], [429, {}], begun);
  asked = 0;
  await assert.rejects(far.startRun("x"), { status: 429, retryAfter: 0 });
  answers.splice(0, 9, [503, {}], begun);
  asked = 0;
  await assert.rejects(far.startRun("x"), { status: 503 });
  assert.equal(asked, 1);
  answers.splice(0, 9, [200, "text"]);
  asked = 0;
  await assert.rejects(far.startRun("x"), /not one of a Portico server/);
  stub.close();
});

test("a signal ends what waits", async () => {
  const stop = new AbortController();
  const program = portico.executeProgram("import time\ntime.sleep(60)", { signal: stop.signal });
  const run = await portico.startRun("How warm is Oslo?", { toolsets: ["demo"] });
  const following = all(run.events({ signal: AbortSignal.abort() }));
  stop.abort();
  await assert.rejects(program, { name: "AbortError" });
  await assert.rejects(following, { name: "AbortError" });
  await run.wait();
});

function serve(answer) {
  return new Promise((resolve) => {
    const server = createServer(answer).listen(0, "127.0.0.1", () => {
      resolve({ url: `http://127.0.0.1:${server.address().port}`, close: () => { server.closeAllConnections(); server.close(); } });
    });
  });
}
