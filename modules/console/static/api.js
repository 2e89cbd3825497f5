// Operations can be tried: a request goes out with the session of this browser.
import { el } from "./dom.js";

const most = 65536; // characters of an answer that are shown

document.getElementById("trying").hidden = false;
for (const box of document.querySelectorAll("details[data-try]")) {
  const once = () => { if (box.open && !box.querySelector("form")) offer(box); };
  box.addEventListener("toggle", once);
  once();
}

function offer(box) {
  const fields = [...box.querySelectorAll("tr[data-in]")].filter((row) => row.dataset.in !== "cookie")
    .map((row) => ({ in: row.dataset.in, input: el("input", { name: row.dataset.name, autocomplete: "off", spellcheck: false, required: row.dataset.in === "path" }) }));
  const example = box.querySelector(".sent");
  const body = example && el("textarea", { rows: 8, spellcheck: false, value: example.querySelector('pre[data-kind="application/json"]')?.textContent ?? "{}" });
  const send = el("button", { className: "primary", textContent: "Send" }), stop = el("button", { type: "button", textContent: "Stop", hidden: true });
  const status = el("p", { role: "status" }), shown = el("pre", { hidden: true, tabIndex: 0, role: "region", "aria-label": "Answer" });
  const form = el("form", { className: "try" }, el("h3", { textContent: "Try it" }),
    ...fields.map((f) => el("label", {}, el("code", { textContent: f.input.name }), f.input)),
    ...(body ? [el("label", {}, "Body", body)] : []), el("div", {}, send, " ", stop), status, shown);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const ending = new AbortController();
    stop.onclick = () => ending.abort();
    stop.hidden = false;
    send.disabled = true;
    shown.hidden = true;
    status.textContent = "Sent …";
    try {
      await ask(request(box.dataset, fields, body), ending.signal, status, shown);
    } catch (problem) {
      status.textContent += ending.signal.aborted ? " Stopped." : " It did not work: " + problem.message;
    }
    stop.hidden = true;
    send.disabled = false;
  });
  box.lastElementChild.append(form);
}

function request({ method, path }, fields, body) {
  const url = new URL(path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(fields.find((f) => f.in === "path" && f.input.name === name)?.input.value ?? "")), location.href);
  const headers = {};
  for (const { in: where, input } of fields) {
    if (!input.value) continue;
    if (where === "query") url.searchParams.append(input.name, input.value);
    if (where === "header") headers[input.name] = input.value;
  }
  if (body) headers["Content-Type"] = "application/json";
  return [url, { method, headers, body: body?.value, redirect: "manual" }];
}

// An answer is shown as it comes; one that is not text is not shown.
async function ask([url, what], signal, status, shown) {
  const begun = performance.now(), answer = await fetch(url, { ...what, signal });
  if (answer.type === "opaqueredirect") { status.textContent = "The answer leads to another page, which is not opened here."; return; }
  const kind = answer.headers.get("Content-Type") ?? "";
  status.textContent = `${answer.status} ${answer.statusText}, ${Math.round(performance.now() - begun)} ms. ${kind}`;
  if (kind && !/json|text|yaml/.test(kind)) { await answer.body?.cancel(); status.textContent += " is not shown here."; return; }
  let text = "";
  shown.hidden = false;
  shown.textContent = "";
  for (const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) break;
    text += value;
    if (text.length > most) {
      shown.textContent = text.slice(0, most);
      status.textContent += ` These are its first ${most.toLocaleString("en")} characters, not all.`;
      await reader.cancel();
      return;
    }
    shown.textContent = text;
  }
  if (kind.includes("json")) shown.textContent = indented(text);
}

// Numbers stay as they are: the text is only broken into lines.
function indented(text) {
  let out = "", depth = 0;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{[]\s*[}\]]|[{}[\],:]|[^\s"{}[\],:]+/g)) {
    if (token === "}" || token === "]") out += "\n" + "  ".repeat(--depth);
    out += token === ":" ? ": " : token;
    if (token === "{" || token === "[") out += "\n" + "  ".repeat(++depth);
    if (token === ",") out += "\n" + "  ".repeat(depth);
  }
  return out;
}
