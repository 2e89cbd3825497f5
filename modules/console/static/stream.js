// The stream of a run's events. The browser comes back by itself while it says
// CONNECTING; once it says CLOSED it never does, and this module tries again.
export function follow(url, run, { take, say, ended }) {
  let source = null, wait = 500, timer = 0, over = false;

  function open() {
    clearTimeout(timer);
    if (over || document.hidden) return;
    source?.close();
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
    say("");
    ended();
  }

  document.addEventListener("visibilitychange", () => {
    if (over) return;
    if (document.hidden) { source?.close(); source = null; clearTimeout(timer); } else open();
  });
  addEventListener("pagehide", () => { source?.close(); source = null; });
  addEventListener("pageshow", (e) => { if (e.persisted) open(); });
  open();
}
