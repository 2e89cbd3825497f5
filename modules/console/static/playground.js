// The editor: Tab indents, Esc and then Tab leaves, Ctrl+Enter runs. The draft stays
// in this browser.
const area = document.getElementById("code"), form = document.getElementById("editor"), draft = "portico.draft";
let leave = false;
if (!area.value) area.value = localStorage.getItem(draft) ?? "";
area.addEventListener("input", () => localStorage.setItem(draft, area.value.slice(0, 262144)));
area.addEventListener("keydown", (e) => {
  if (e.key === "Escape") { leave = true; return; }
  if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) { e.preventDefault(); form.requestSubmit(); }
  if (e.key === "Tab" && !leave && !e.shiftKey) { e.preventDefault(); area.setRangeText("    ", area.selectionStart, area.selectionEnd, "end"); }
  leave = false;
});
