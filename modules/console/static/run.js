// The page of a run: it draws what the events of the run say.
import { el, icon, put, took } from "./dom.js";
import { brief, newList } from "./list.js";
import { apply, decimal, newRun, ofRun } from "./reducer.js";
import { events, follow } from "./stream.js";

const $ = (id) => document.getElementById(id);
const root = $("run"), { base, version } = root.dataset, id = encodeURIComponent(root.dataset.run);
const run = newRun(), url = new URL(location.href), stream = `/v1/action/${id}/events?version=${version}&detail=summary`;
const view = { state: url.searchParams.get("state") ?? "", line: url.searchParams.get("line") ?? "", text: "", from: 0, to: 0, follow: true, window: 10000, ended: false, goal: url.searchParams.get("call") ?? "" };
let dirty = false, asked = false, mapAt = 0, programsAsked = false, programsFrom = root.dataset.from, late = 0;

const box = $("list");
const list = newList(box, $("rows"), $("cards"), { selected: (call) => keep("call", call), card });
box.hidden = false;
document.querySelector(".bar").hidden = false;
for (const pre of document.querySelectorAll("[data-output]")) pre.dataset.server = "1";

// The address says what is on the screen, without a step back for each change.
function keep(name, value) {
  if (value) url.searchParams.set(name, value); else url.searchParams.delete(name);
  history.replaceState(null, "", url);
}

follow(stream, run, {
  take(number, data) {
    const event = JSON.parse(data);
    const answer = apply(run, number, event);
    if (answer !== "taken") return answer;
    if (event.call && !programsAsked && missesProgram()) askPrograms();
    touch();
    return event.event === "end" ? "end" : answer;
  },
  say(text, out) {
    put($("connection"), text);
    if (out) $("connection").append(" ", el("a", { href: `${base}/login?next=${encodeURIComponent(location.pathname + location.search)}`, textContent: "Sign in again" }));
  },
  ended() { view.ended = true; touch(); if (run.status) document.querySelector("#abort")?.remove(); },
});

function passes(c) {
  if (view.state && c.state !== view.state) return false;
  if (view.line && (c.parentId ?? "") + " " + c.line !== view.line) return false;
  if (view.text && !(c.tool + " " + c.arguments + " " + (c.error ?? "")).toLowerCase().includes(view.text)) return false;
  return !(view.to && (c.startedAt > view.to || (c.endedAt ?? Infinity) < view.from));
}

function time() {
  if (view.to) return [view.from, view.to];
  if (view.ended) return [run.begun, Math.max(run.last, run.begun + 1)];
  const now = Math.max(Date.now(), run.last);
  return [Math.max(run.begun || now - view.window, now - view.window), now];
}

// touch has the page drawn: a page on which nothing happens asks for no frames.
function touch() { dirty = true; soon(); }
function soon() { if (!asked) { asked = true; requestAnimationFrame(frame); } }

let drawn = 0, before = 0;
function frame(now) {
  asked = false;
  const live = !view.ended && run.sums.running > 0;
  if ((dirty || live) && now - drawn >= 50) {
    drawn = now;
    if (dirty) { heads(); lines(); texts(); }
    dirty = false;
    const items = view.state || view.line || view.text || view.to ? run.list.filter(passes) : run.list;
    box.hidden = items.length === 0;
    list.set(items, time());
    if (items.length > before && !view.follow) late += items.length - before;
    before = items.length;
    if (view.follow && !view.ended && !view.goal) box.scrollTop = box.scrollHeight;
    if (view.goal && list.to(view.goal)) { list.toggle(view.goal); view.goal = ""; view.follow = false; }
    put($("shown"), items.length === run.list.length ? "" : `${items.length} of ${run.list.length}`);
    put($("follow"), late ? `${late} new` : "Follow");
    $("follow").hidden = view.ended;
    $("follow").setAttribute("aria-pressed", view.follow);
    $("nothing").hidden = items.length > 0;
    put($("nothing"), run.list.length ? "No call is like this." : "Nothing called yet.");
    if (now - mapAt > 500 || view.ended) { mapAt = now; map(); }
    document.body.dataset.seq = run.seen;
    document.body.dataset.status = run.status;
  }
  if (dirty || live) soon();
}
touch();
new ResizeObserver(() => list.draw()).observe(box);
box.addEventListener("scroll", () => {
  const end = box.scrollTop + box.clientHeight >= box.scrollHeight - 4;
  if (!view.ended) { view.follow = end; if (end) late = 0; }
  list.draw();
}, { passive: true });

let shownState = "";
function heads() {
  const s = run.sums, state = ofRun[run.status] ?? run.status;
  put($("calls"), String(s.calls)); put($("running"), String(s.running)); put($("failed"), String(s.failed));
  if (s.credits > 0n || !view.ended) put($("credits"), decimal(s.credits));
  put($("kept"), String(Math.max(s.tokens - s.given, 0)));
  $("kept").title = `Results of calls: about ${s.tokens} tokens. Given back by programs: about ${s.given}. An estimate.`;
  $("failed").classList.toggle("failed", s.failed > 0);
  if (state && state !== shownState) { shownState = state; $("state").replaceChildren(el("span", { className: "state " + state }, icon(state), " " + state)); }
  waiting();
}
setInterval(() => { if (!view.ended && !document.hidden) put($("elapsed"), took(Date.now() - Number(root.dataset.begun))); }, 1000);
let spoken = "";
setInterval(() => { const text = `${run.sums.calls} calls, ${run.sums.failed} failed`; if (!view.ended && text !== spoken) put($("spoken"), spoken = text); }, 5000);

function lines() {
  for (const [key, l] of run.lines) {
    const at = key.lastIndexOf(" ");
    const li = lineElement(key.slice(0, at), key.slice(at + 1));
    if (!li) continue;
    const button = li.firstElementChild;
    button.hidden = false;
    put(button, String(l.all));
    button.title = `${l.all} calls, ${l.open} open, ${l.failed} failed`;
    li.classList.toggle("open", l.open > 0);
    li.classList.toggle("bad", l.failed > 0);
    li.classList.toggle("chosen", view.line === key);
  }
}
const found = new Map();
function lineElement(program, line) {
  const key = program + " " + line;
  if (!found.has(key)) {
    const li = document.querySelector(`[data-program="${CSS.escape(program)}"] li[data-line="${CSS.escape(line)}"]`);
    if (!li) return null;
    found.set(key, li);
  }
  return found.get(key);
}

function texts() {
  for (const [call, text] of run.output) {
    const pre = document.querySelector(`[data-output="${CSS.escape(call)}"]`);
    if (!pre || pre.dataset.size === String(text.length)) continue;
    const end = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4;
    pre.dataset.size = text.length;
    pre.textContent = text.length > 262144 ? "…" + text.slice(-262144) : text;
    if (end && !view.ended) pre.scrollTop = pre.scrollHeight;
  }
  for (const [message, text] of run.said) {
    let article = document.querySelector(`[data-message="${CSS.escape(message)}"]`);
    if (!article) {
      article = el("article", { className: "said ai" }, el("h3", { textContent: "Answered" }), el("p"));
      article.dataset.message = message;
      $("talk").append(article);
      $("conversation").hidden = false;
    }
    const p = article.lastElementChild;
    if (p.textContent.length < text.length) p.textContent = text;
  }
}

const shownPrograms = new Set([...document.querySelectorAll("[data-program]")].map((p) => p.dataset.program));
function missesProgram() { for (const p of run.programs.keys()) if (!shownPrograms.has(p)) return true; return false; }
// A run that has ended begins no more programs: what is missing then is asked for once.
async function askPrograms() {
  programsAsked = true;
  const last = view.ended;
  try {
    for (let more = true; more;) {
      const answer = await fetch(`${base}/runs/${id}/programs?version=${version}&from=${programsFrom}`);
      if (!answer.ok) throw new Error(answer.status);
      const page = await answer.json();
      ({ from: programsFrom, more } = page);
      for (const p of page.programs) if (!shownPrograms.has(p.callId)) program(p);
      touch();
    }
  } catch { /* what is missing is asked for again */ }
  setTimeout(() => {
    programsAsked = false;
    if (!missesProgram()) return;
    if (last) put($("connection"), "Some programs could not be read. Load the page again."); else askPrograms();
  }, 1000);
}
function program(p) {
  $("noprogram")?.remove();
  const ol = el("ol");
  for (const line of p.lines) {
    const code = el("code", {}, ...(line.t ?? []).map((t) => el("span", { className: t.k, textContent: t.t })));
    ol.append(el("li", { "data-line": line.n }, el("button", { type: "button", className: "count", tabIndex: -1, hidden: true }), code));
  }
  const n = shownPrograms.add(p.callId).size;
  const all = p.cut ? [el("span", { className: "dim" }, " (not whole here: ", el("a", { href: `/v1/tool/call/output?toolCallId=${encodeURIComponent(p.callId)}`, textContent: "download all of it" }), ")")] : [];
  $("programs").append(el("article", { className: "program", id: p.callId, "data-program": p.callId },
    el("h2", {}, n > 1 ? `Program ${n} ` : "Program ", el("span", { className: "dim", textContent: p.language })), el("div", { className: "code", tabIndex: 0, role: "region", "aria-label": "Program" }, ol),
    ...(p.error ? [el("p", { className: "notice failed", textContent: p.error })] : []), el("h3", {}, "Output", ...all), el("pre", { className: "output", tabIndex: 0, "data-output": p.callId })));
}
$("programs").addEventListener("click", (e) => {
  const li = e.target.closest("li[data-line]");
  if (!li) return;
  const key = li.closest("[data-program]").dataset.program + " " + li.dataset.line;
  if (run.lines.has(key)) only(view.line === key ? "" : key);
});
function only(line) {
  view.line = line;
  keep("line", line);
  $("unline").hidden = !line;
  put($("unline"), line ? `line ${line.slice(line.lastIndexOf(" ") + 1)} ×` : "");
  touch();
}
$("unline").addEventListener("click", () => only(""));
only(view.line);

// The map: how many calls were open, over the whole run.
function map() {
  const n = 150, from = run.begun, to = Math.max(view.ended ? run.last : Date.now(), from + 1), step = (to - from) / n;
  const all = new Int32Array(n + 1), bad = new Uint8Array(n);
  for (const c of run.list) {
    const a = Math.max(0, Math.min(n - 1, Math.floor((c.startedAt - from) / step))), b = Math.max(a, Math.min(n - 1, Math.floor(((c.endedAt ?? to) - from) / step)));
    all[a]++; all[b + 1]--;
    if (c.state === "failed") bad[b] = 1;
  }
  let open = 0, most = 1;
  const high = [];
  for (let i = 0; i < n; i++) { open += all[i]; high.push(open); most = Math.max(most, open); }
  $("density").setAttribute("d", run.list.length ? high.map((h, i) => h ? `M${i * 2} 32v${(-28 * h / most).toFixed(1)}h2v${(28 * h / most).toFixed(1)}z` : "").join("") : "");
  $("bad").setAttribute("d", [...bad].map((x, i) => x ? `M${i * 2} 0h2v3h-2z` : "").join(""));
  const w = $("window");
  w.setAttribute("x", view.to ? Math.max(0, (view.from - from) / (to - from) * 300) : 0);
  w.setAttribute("width", view.to ? Math.max(1, (view.to - view.from) / (to - from) * 300) : 0);
}
let pulled = null;
$("map").addEventListener("pointerdown", (e) => { pulled = e.offsetX; $("map").setPointerCapture(e.pointerId); });
$("map").addEventListener("pointerup", (e) => {
  if (pulled === null) return;
  const width = $("map").clientWidth, from = run.begun, length = Math.max((view.ended ? run.last : Date.now()) - from, 1);
  const [a, b] = [pulled, e.offsetX].sort((x, y) => x - y);
  pulled = null;
  if (b - a < 4) { view.from = view.to = 0; } else { view.from = from + a / width * length; view.to = from + b / width * length; }
  touch(); mapAt = 0;
});

// Cards load what they show when they are opened.
function card(call) {
  const c = run.calls.get(call);
  const made = el("article", { className: "callcard", "data-card": call });
  const head = el("div", { className: "cardhead" }, el("strong", { textContent: c?.tool ?? call }), el("span", { className: "dim", textContent: c?.line ? `line ${c.line}` : "" }));
  const body = el("div", { className: "cardbody", tabIndex: 0 }, el("p", { className: "dim", textContent: "Loading…" }));
  made.append(head, body);
  fetch(`${base}/calls/${encodeURIComponent(call)}/card`).then(async (answer) => {
    if (!answer.ok) throw new Error("The call could not be read. Open it again.");
    const d = await answer.json();
    made.again = d;
    const parts = [];
    if (d.error) parts.push(el("h3", { className: "failed", textContent: "Error" }), el("pre", { className: "failed", textContent: d.error }));
    parts.push(fold("Arguments", d.arguments));
    if (d.cutArguments) parts.push(el("p", {}, "These are not all of them. ", el("a", { href: `/v1/tool/call/result?toolCallId=${encodeURIComponent(call)}`, textContent: "Open the whole record" })));
    parts.push(fold("Result", d.result || "There is none yet."));
    if (d.cut) parts.push(el("p", {}, "This is not all of it. ", el("a", { href: `/v1/tool/call/output?toolCallId=${encodeURIComponent(call)}`, textContent: "Download whole" })));
    body.replaceChildren(...parts);
    head.append(copier("curl", d.curl), copier("Python", d.python), el("a", { className: "button", href: `${base}/calls/${encodeURIComponent(call)}`, textContent: "Open" }));
  }).catch((e) => body.replaceChildren(el("p", { className: "failed", textContent: e.message })));
  return made;
}
function fold(name, text) { return el("details", { open: true }, el("summary", { textContent: name }), el("pre", { textContent: text })); }
function copier(name, text) {
  const b = el("button", { type: "button", className: "copy", textContent: "Copy " + name, hidden: !text });
  b.dataset.copy = text;
  return b;
}
async function copy(name) {
  const call = list.selected();
  if (!call) return;
  const answer = await fetch(`${base}/calls/${encodeURIComponent(call)}/card`);
  if (!answer.ok) return;
  const text = (await answer.json())[name];
  if (text) { await navigator.clipboard.writeText(text); put($("spoken"), "Copied"); }
  put($("connection"), text ? "Copied as " + name : `This call cannot be made by ${name}.`);
}

// Calls that wait for somebody are above the list, whatever is filtered.
let waits = "";
function waiting() {
  const now = run.sums.waiting ? run.list.filter((c) => c.state === "waiting") : [];
  const key = now.map((c) => c.callId).join();
  if (key === waits) return;
  waits = key;
  $("waiting").replaceChildren(...now.slice(0, 10).map((c) => {
    const made = el("article", { className: "approval", tabIndex: 0, "data-approval": c.callId }, el("strong", {}, icon("waiting"), " " + c.tool + (c.asks ? " asks you" : " waits for you")), el("code", { textContent: c.asks || brief(c.arguments) }));
    const say = el("span", { role: "status" });
    const button = (name, decision, kind) => el("button", { type: "button", className: kind, textContent: name, onclick: () => decide(c.callId, decision, say) });
    // Nobody allows here what is not shown whole. A question is answered on its page.
    const cut = c.arguments.endsWith("…");
    const whole = !c.asks && !cut;
    if (whole) made.append(button("Allow", "allow", "primary"));
    made.append(button(c.asks ? "Decline" : "Refuse", "refuse", "danger"), el("a", { href: `${base}/approvals/${encodeURIComponent(c.callId)}`, textContent: c.asks ? "Answer" : cut ? "See all of it to allow it" : "Look closer" }), say);
    made.addEventListener("keydown", (e) => { if (e.target === made && (e.key === "a" && whole || e.key === "d")) { e.stopPropagation(); decide(c.callId, e.key === "a" ? "allow" : "refuse", say); } });
    return made;
  }));
}
async function decide(callId, decision, say) {
  const answer = await fetch("/v1/tool/call/decide", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ callId, decision }) });
  if (!answer.ok) { const said = await answer.json().catch(() => ({})); put(say, `${said.errMsg ?? "That did not work."} ${said.errDetail ?? ""}`); }
}

$("search").addEventListener("input", () => { view.text = $("search").value.toLowerCase(); touch(); });
$("filter").value = view.state;
function onlyState(state) { view.state = state; $("filter").value = state; keep("state", state); touch(); }
$("filter").addEventListener("change", () => onlyState($("filter").value));
$("follow").addEventListener("click", () => { view.follow = true; late = 0; touch(); });

function save(name, parts, type) {
  const a = el("a", { download: name, href: URL.createObjectURL(new Blob(parts, { type })) });
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}
const cell = (v) => { const t = String(v ?? ""); return `"${(/^[=+\-@\t\r]/.test(t) ? "'" + t : t).replaceAll('"', '""')}"`; };
// The page keeps no events: they are read again, up to the last one that it has seen.
async function everyEvent() {
  const last = run.seen, lines = [], answer = await fetch(stream + "&lastEventId=0");
  if (answer.status !== 200) throw new Error(answer.status);
  for await (const [number, data] of events(answer)) {
    if (number !== lines.length + 1) break;
    lines.push(data + "\n");
    if (number === last) return lines;
  }
  throw new Error("events are missing");
}
$("download-events").addEventListener("click", async () => {
  put($("connection"), "Reading the events…");
  try {
    save(`${root.dataset.run}.jsonl`, await everyEvent(), "application/x-ndjson");
    put($("connection"), "");
  } catch { put($("connection"), "The events could not be read, and nothing was saved. Try again."); }
});
$("download-calls").addEventListener("click", () => {
  const names = ["callId", "parentId", "line", "tool", "state", "startedAt", "endedAt", "credits", "bytes", "error", "arguments"];
  save(`${root.dataset.run}.csv`, [names.join() + "\n", ...run.list.map((c) => names.map((n) => cell(c[n])).join() + "\n")], "text/csv");
});
$("download-program").addEventListener("click", () => save(`${root.dataset.run}.txt`, [...document.querySelectorAll(".program li code")].map((c) => c.textContent + "\n"), "text/plain"));

const keys = {
  j: () => list.move(1), k: () => list.move(-1), ArrowDown: () => list.move(1), ArrowUp: () => list.move(-1),
  o: () => list.selected() && list.toggle(list.selected()), Enter: () => list.selected() && list.toggle(list.selected()),
  f: () => onlyState(view.state === "failed" ? "" : "failed"),
  e: () => { const items = list.items(), now = items.findIndex((c) => c.callId === list.selected()); const next = items.find((c, i) => i > now && c.state === "failed"); if (next) { view.follow = false; list.to(next.callId); } },
  "/": () => $("search").focus(), G: () => { view.follow = true; late = 0; box.scrollTop = box.scrollHeight; touch(); },
  "[": () => { view.window = Math.max(1000, view.window / 2); touch(); }, "]": () => { view.window = Math.min(600000, view.window * 2); touch(); },
  c: () => copy("curl"), p: () => copy("python"), y: () => navigator.clipboard.writeText(location.href), r: () => $("replay")?.requestSubmit(),
  ".": () => { if ($("abort") && confirm("Abort this run?")) $("abort").requestSubmit(); },
  "?": () => $("keys").showModal(),
  Escape: () => { if (!list.closeAll()) { only(""); onlyState(""); view.from = view.to = 0; $("search").value = view.text = ""; touch(); } },
};
$("replay")?.addEventListener("submit", (e) => { if (run.sums.calls && !confirm(`The program makes its ${run.sums.calls} calls again. What they change, they change again. Replay?`)) e.preventDefault(); });
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented || $("keys").open) return;
  if (e.target.closest("input, textarea, select")) { if (e.key === "Escape") e.target.blur(); return; }
  if (e.key === "Enter" && e.target.closest("a, button, summary")) return;
  if (e.key.startsWith("Arrow") && e.target !== $("rows")) return;
  const act = keys[e.key];
  if (!act) return;
  e.preventDefault();
  act();
});
