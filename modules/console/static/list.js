// A list of calls of which only those in sight are elements, from a pool.
import { el, icon, took } from "./dom.js";

const height = 28, cardHeight = 320;

// brief is a call's arguments without the title that every call has: it says nothing new.
export function brief(text) {
  return text.replace(/"file_name_title":"(?:[^"\\]|\\.)*",|,?"file_name_title":"(?:[^"\\]|\\.)*"/, "");
}

export function newList(box, rows, cards, show) {
  const pool = [];
  let items = [], open = new Map(), selected = "", span = [0, 1], where = new Map();

  function at(i) { // the top of row i
    let y = i * height;
    for (const id of open.keys()) { const n = where.get(id); if (n !== undefined && n < i) y += cardHeight; }
    return y;
  }

  function set(next, window) {
    items = next;
    span = window;
    where = new Map();
    if (open.size || selected) items.forEach((c, i) => { if (open.has(c.callId) || c.callId === selected) where.set(c.callId, i); });
    draw();
  }

  function first(y) {
    let low = 0, high = items.length;
    while (low < high) { const mid = (low + high) >> 1; if (at(mid + 1) <= y) low = mid + 1; else high = mid; }
    return low;
  }

  function draw() {
    const shownCards = [...open.keys()].filter((id) => where.has(id)).length;
    const total = items.length * height + shownCards * cardHeight;
    if (rows.dataset.total !== String(total)) { rows.dataset.total = total; rows.style.height = total + "px"; }
    const top = box.scrollTop, bottom = top + box.clientHeight;
    let used = 0, active = "";
    for (let i = first(top); i < items.length; i++) {
      const y = at(i);
      if (y > bottom) break;
      const row = pool[used] ?? (pool[used] = make(used));
      used++;
      fill(row, items[i], i, y);
      if (items[i].callId === selected) active = row.box.id;
    }
    for (let i = used; i < pool.length; i++) if (!pool[i].box.hidden) pool[i].box.hidden = true;
    if (active) rows.setAttribute("aria-activedescendant", active); else rows.removeAttribute("aria-activedescendant");
    for (const [id, card] of open) {
      const i = where.get(id);
      card.hidden = i === undefined;
      if (i !== undefined) card.style.transform = `translateY(${at(i) + height}px)`;
    }
  }

  function make(n) {
    const row = { box: el("div", { className: "row", id: "row-" + n, role: "option" }), text: {} };
    row.icon = icon("running");
    row.state = el("span", { className: "state" });
    row.word = el("span", { className: "hidden" });
    row.state.append(row.icon, row.word);
    row.tool = el("span", { className: "tool" });
    row.args = el("span", { className: "args" });
    row.lane = el("span", { className: "lane" });
    row.bar = el("span", { className: "span" });
    row.lane.append(row.bar);
    row.took = el("span", { className: "took" });
    row.cost = el("span", { className: "cost" });
    row.box.append(row.state, row.tool, row.args, row.lane, row.took, row.cost);
    row.box.addEventListener("click", () => { choose(row.id); toggle(row.id); });
    rows.append(row.box);
    return row;
  }

  function write(row, name, node, value) {
    if (row.text[name] === value) return;
    row.text[name] = value;
    node.textContent = value;
  }

  function fill(row, c, i, y) {
    row.id = c.callId;
    if (row.box.hidden) row.box.hidden = false;
    if (row.y !== y) { row.y = y; row.box.style.transform = `translateY(${y}px)`; }
    if (row.kind !== c.state) {
      row.kind = c.state;
      row.state.className = "state " + c.state;
      row.bar.className = "span " + c.state;
      row.icon.use(c.state);
    }
    write(row, "word", row.word, c.state + " ");
    write(row, "tool", row.tool, c.tool);
    write(row, "args", row.args, c.error ? c.error : brief(c.arguments));
    row.args.classList.toggle("failed", !!c.error);
    write(row, "took", row.took, c.endedAt ? took(c.endedAt - c.startedAt) : "");
    write(row, "cost", row.cost, c.credits ?? "");
    const chosen = c.callId === selected;
    if (row.chosen !== chosen) { row.chosen = chosen; row.box.setAttribute("aria-selected", chosen); }
    if (row.place !== i || row.size !== items.length) {
      row.place = i; row.size = items.length;
      row.box.setAttribute("aria-posinset", i + 1);
      row.box.setAttribute("aria-setsize", items.length);
      row.box.dataset.call = c.callId;
    }
    row.box.dataset.call = c.callId;
    const [from, to] = span, end = c.endedAt ?? to, length = Math.max(to - from, 1);
    const a = Math.max(0, Math.min(1, (c.startedAt - from) / length)), b = Math.max(a + 0.004, Math.min(1, (end - from) / length));
    const bar = end < from || c.startedAt > to ? "scaleX(0)" : `translateX(${(a * 100).toFixed(2)}%) scaleX(${(b - a).toFixed(4)})`;
    if (row.barAt !== bar) { row.barAt = bar; row.bar.style.transform = bar; }
  }

  function choose(id) {
    selected = id;
    where.set(id, items.findIndex((c) => c.callId === id));
    show.selected(id);
    draw();
  }

  function move(by) {
    if (!items.length) return;
    const now = items.findIndex((c) => c.callId === selected);
    const to = now < 0 ? (by > 0 ? 0 : items.length - 1) : Math.max(0, Math.min(items.length - 1, now + by));
    choose(items[to].callId);
    reveal(to);
  }

  function reveal(i) {
    const y = at(i);
    if (y < box.scrollTop) box.scrollTop = y;
    else if (y + height > box.scrollTop + box.clientHeight) box.scrollTop = y + height - box.clientHeight;
    draw();
  }

  function toggle(id) {
    const card = open.get(id);
    if (card) { open.delete(id); card.remove(); draw(); return; }
    if (open.size >= 4) { const [oldest] = open.keys(); open.get(oldest).remove(); open.delete(oldest); }
    const made = show.card(id);
    made.addEventListener("click", (e) => e.stopPropagation());
    open.set(id, made);
    cards.append(made);
    where.set(id, items.findIndex((c) => c.callId === id));
    draw();
  }

  function to(id) {
    const i = items.findIndex((c) => c.callId === id);
    if (i < 0) return false;
    choose(id);
    box.scrollTop = Math.max(0, at(i) - box.clientHeight / 2);
    draw();
    return true;
  }

  function closeAll() { for (const c of open.values()) c.remove(); const any = open.size > 0; open.clear(); draw(); return any; }

  return { set, draw, move, toggle, to, choose, closeAll, selected: () => selected, items: () => items };
}
