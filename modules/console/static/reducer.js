// What a run is, from its events in their order. An event that is known already is
// dropped and counted; one that comes too early is not taken.
const states = { executing: "running", completed: "ok", failed: "failed", waiting: "waiting" };
export const ofRun = { finish: "ok", error: "failed" };

export function newRun() {
  return {
    seen: 0, dropped: 0, status: "", errors: [], calls: new Map(), list: [], lines: new Map(), programs: new Map(), output: new Map(), said: new Map(),
    sums: { calls: 0, running: 0, waiting: 0, failed: 0, tokens: 0, given: 0, credits: 0n }, begun: 0, last: 0,
  };
}

// Credits are decimal texts: they are added as whole numbers of 10^-9.
const scale = 9;
export function exact(text) {
  const [whole, part = ""] = text.split(".");
  return BigInt(whole + part.padEnd(scale, "0").slice(0, scale));
}
export function decimal(n) {
  const digits = n.toString().padStart(scale + 1, "0");
  return digits.slice(0, -scale) + ("." + digits.slice(-scale)).replace(/\.?0+$/, "");
}

// apply takes one event; it answers "gap" where events are missing before it.
export function apply(run, id, event) {
  if (id <= run.seen) { run.dropped++; return "known"; }
  if (id > run.seen + 1) return "gap";
  run.seen = id;
  if (event.call) {
    call(run, event.call);
    if (event.event === "tool_call_waiting" && run.calls.has(event.call.callId)) run.calls.get(event.call.callId).asks = event.approval?.question ? event.approval.question.message || "It asks a question." : "";
  }
  else if (event.event === "log") {
    const of = event.toolCallMeta?.toolCallId ?? "";
    const text = event.log?.content ?? ""; // whole lines
    run.output.set(of, (run.output.get(of) ?? "") + text + (text.endsWith("\n") ? "" : "\n"));
  } else if (event.event === "stream") run.said.set(event.messageId ?? "", (run.said.get(event.messageId ?? "") ?? "") + (event.content ?? ""));
  else if (event.event === "error") run.errors.push(event.error?.errMsg ?? "");
  else if (event.event === "end") run.status = event.status;
  else if (event.event === "start" && !run.status) run.status = "running";
  return "taken";
}

function call(run, c) {
  if (c.toolset === "execute_code" || run.programs.has(c.callId)) {
    run.programs.set(c.callId, c);
    if (c.endedAt) run.sums.given += c.tokens ?? 0;
    return;
  }
  let known = run.calls.get(c.callId);
  if (!known) {
    known = { callId: c.callId, index: run.list.length, state: "", tool: "", line: 0, arguments: "", parentId: "" };
    run.calls.set(c.callId, known);
    run.list.push(known);
    run.sums.calls++;
    if (!run.begun || c.startedAt < run.begun) run.begun = c.startedAt || run.begun;
    if (c.line) {
      known.line = c.line;
      lineOf(run, c).all++;
    }
  }
  const state = states[c.status] ?? known.state ?? "running";
  count(run, known, -1);
  Object.assign(known, c, { state, line: known.line || c.line || 0, tool: c.toolset ? c.toolset + "." + c.tool : known.tool });
  count(run, known, 1);
  if (c.endedAt && !known.counted) {
    known.counted = true;
    if (known.parentId) run.sums.tokens += c.tokens ?? 0;
    if (c.credits) run.sums.credits += exact(c.credits);
  }
  run.last = Math.max(run.last, c.endedAt ?? c.startedAt ?? 0);
}

function lineOf(run, c) {
  const key = (c.parentId ?? "") + " " + c.line;
  let l = run.lines.get(key);
  if (!l) run.lines.set(key, l = { all: 0, open: 0, failed: 0 });
  return l;
}

function count(run, c, by) {
  if (!c.state) return;
  if (c.state in run.sums) run.sums[c.state] += by;
  if (!c.line) return;
  const l = lineOf(run, c);
  if (c.state === "running" || c.state === "waiting") l.open += by;
  if (c.state === "failed") l.failed += by;
}
