// A browser opens six connections to a server. Pages that follow runs share three of
// them, and the others stay for what people do. A place is taken by writing into
// localStorage whose it is and until when; whoever is gone does not renew it.
const places = 3, lease = 6000, name = "portico.stream.", me = String(Math.random()).slice(2);
let mine = -1, timer = 0;

function owner(i) {
  const [who, until] = (localStorage.getItem(name + i) ?? "").split(" ");
  return Number(until) > Date.now() ? who : "";
}

function write(i) { localStorage.setItem(name + i, me + " " + (Date.now() + lease)); }

// take says whether this page has a place, or got one.
export function take() {
  try {
    if (mine >= 0 && owner(mine) === me) return true;
    for (mine = places - 1; mine >= 0; mine--) {
      if (owner(mine)) continue;
      write(mine);
      clearInterval(timer);
      timer = setInterval(() => { if (owner(mine) === me) write(mine); }, lease / 3);
      return true;
    }
    return false;
  } catch { return true; } // no storage: nobody can be told
}

export function leave() {
  clearInterval(timer);
  try { if (mine >= 0 && owner(mine) === me) localStorage.removeItem(name + mine); } catch { /* none was taken */ }
  mine = -1;
}
