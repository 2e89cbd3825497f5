// The stream of a run's events. The browser comes back by itself while it says
// CONNECTING; once it says CLOSED it never does, and this module tries again.
import { leave, take as place } from "./place.js";

const quiet = 1000, pause = 2000; // ms

// events are those of an answer, each with its number. Whoever leaves the loop early ends
// the answer.
export async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (let rest = ""; ;) {
      const { done, value } = await reader.read();
      if (done) return;
      const frames = (rest + value).split("\n\n");
      rest = frames.pop();
      for (const frame of frames) {
        const data = /^data: (.*)$/m.exec(frame);
        if (data) yield [Number(/^id: (.*)$/m.exec(frame)?.[1]), data[1]];
      }
    }
  } finally { reader.cancel().catch(() => {}); }
}

export function follow(url, run, { take, say, ended }) {
  let source = null, wait = 500, timer = 0, over = false;

  function open() {
    clearTimeout(timer);
    if (over || document.hidden) return;
    source?.close();
    if (!place()) { poll(); return; }
    const s = new EventSource(url + "&lastEventId=" + run.seen);
    source = s;
    s.onopen = () => { wait = 500; say(""); };
    s.onmessage = (e) => {
      if (s !== source) return;
      const id = Number(e.lastEventId);
      const answer = take(id, e.data);
      if (answer === "gap") again(0);
      else if (answer === "end") stop();
    };
    s.onerror = () => {
      if (s !== source || over) return;
      say("The connection is lost. Trying again…");
      if (s.readyState === EventSource.CLOSED) look();
    };
  }

  // poll reads what there is, and lets the connection go.
  async function poll() {
    const stopped = new AbortController();
    const hurry = () => { clearTimeout(idle); idle = setTimeout(() => stopped.abort(), quiet); };
    let idle = setTimeout(() => stopped.abort(), 10 * quiet), answer = "";
    try {
      const got = await fetch(url + "&lastEventId=" + run.seen, { signal: stopped.signal });
      if (got.status !== 200) { clearTimeout(idle); return got.status === 204 ? stop() : look(); }
      hurry();
      for await (const [id, data] of events(got)) {
        hurry();
        answer = take(id, data);
        if (answer === "gap" || answer === "end") break;
      }
      say("");
    } catch { if (!stopped.signal.aborted) say("The connection is lost. Trying again…"); }
    clearTimeout(idle);
    stopped.abort();
    if (answer === "end") stop();
    else if (!over) timer = setTimeout(open, pause);
  }

  // look finds out why the server refused: an EventSource does not say.
  async function look() {
    let status = 0;
    const stopped = new AbortController();
    try {
      const answer = await fetch(url + "&lastEventId=" + run.seen, { signal: stopped.signal });
      status = answer.status;
    } catch { /* no server: try again */ }
    stopped.abort();
    if (status === 204) return stop();
    if (status === 401) return say("You are signed out.", true);
    if (status === 403 || status === 404) return say("This run is not there any more.");
    again(wait * (0.75 + Math.random() / 2));
    wait = Math.min(wait * 2, 15000);
  }

  function again(after) {
    source?.close();
    source = null;
    clearTimeout(timer);
    timer = setTimeout(open, after);
  }

  function stop() {
    over = true;
    source?.close();
    source = null;
    leave();
    say("");
    ended();
  }

  document.addEventListener("visibilitychange", () => {
    if (over) return;
    if (document.hidden) { source?.close(); source = null; clearTimeout(timer); leave(); } else open();
  });
  addEventListener("pagehide", () => { source?.close(); source = null; leave(); });
  addEventListener("pageshow", (e) => { if (e.persisted) open(); });
  open();
}
