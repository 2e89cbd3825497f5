// Elements are made by calls only: what is on the page was written by models, users
// and upstreams, and none of it is markup.
export function el(name, members = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(members)) {
    if (key === "role" || key.startsWith("aria-") || key.startsWith("data-")) e.setAttribute(key, value);
    else e[key] = value;
  }
  e.append(...children);
  return e;
}

const svg = "http://www.w3.org/2000/svg";
const sprite = new URL("icons.svg", import.meta.url).pathname;

export function icon(name) {
  const s = document.createElementNS(svg, "svg"), u = document.createElementNS(svg, "use");
  s.setAttribute("class", "icon");
  s.setAttribute("aria-hidden", "true");
  s.use = (id) => u.setAttribute("href", sprite + "#" + id);
  s.use(name);
  s.append(u);
  return s;
}

export function took(ms) {
  if (ms < 0) ms = 0;
  if (ms < 1000) return ms + " ms";
  if (ms < 60000) return (ms / 1000).toFixed(1) + " s";
  return Math.floor(ms / 60000) + " min " + Math.round(ms % 60000 / 1000) + " s";
}

// put writes a text where it changed.
export function put(node, text) { if (node && node.textContent !== text) node.textContent = text; }
