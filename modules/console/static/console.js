// What every page has: buttons that copy, and moments that are exact on hover.
for (const button of document.querySelectorAll("button.copy")) button.hidden = !navigator.clipboard;
document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("button.copy");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  const word = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = word; }, 1500);
});
// g and a letter go to a page; not while somebody writes.
const places = { r: "runs", t: "toolsets", f: "files", c: "credits", k: "keys" };
let going = 0;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, textarea, select")) return;
  if (event.key === "g") { going = Date.now(); return; }
  if (Date.now() - going < 1000 && places[event.key]) {
    event.preventDefault();
    event.stopImmediatePropagation();
    const brand = document.querySelector(".brand");
    location.href = new URL(places[event.key], brand.href);
  }
  going = 0;
}, true);
// Lists that change are read again while somebody can see them.
const list = document.querySelector("[data-refresh]");
if (list) {
  setInterval(async () => {
    if (document.hidden || list.contains(document.activeElement)) return;
    const answer = await fetch(location.href).catch(() => null);
    if (!answer?.ok || answer.redirected) return;
    const rows = await answer.text();
    if (rows === list.dataset.text) return;
    location.reload();
  }, Number(list.dataset.refresh));
}
