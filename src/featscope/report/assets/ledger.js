// Finds statements, opens the one that an address names, and copies commands.
const entries = [...document.querySelectorAll(".entry")];
const squares = new Map([...document.querySelectorAll(".squares a")].map((a) => [a.getAttribute("href").slice(1), a]));
const [search, paper, study] = ["search", "paper", "study"].map((id) => document.getElementById(id));
const texts = new Map();
let tone = "";

function text(entry) {
  if (!texts.has(entry)) texts.set(entry, `${entry.id} ${entry.textContent}`.toLowerCase());
  return texts.get(entry);
}

function find() {
  if (!search) return;
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const entry of entries) {
    const { tone: own, study: of, paper: by } = entry.dataset;
    const fits = (!tone || own === tone) && (!paper.value || by === paper.value) && (!study.value || of === study.value)
      && words.every((word) => text(entry).includes(word));
    entry.hidden = !fits;
    squares.get(entry.id).hidden = !fits;
    shown += fits;
  }
  const all = shown === entries.length;
  for (const fold of document.querySelectorAll(".fold")) if (!all && fold.querySelector(".entry:not([hidden])")) fold.open = true;
  for (const group of document.querySelectorAll(".of-study, .of-paper")) group.hidden = !all && !group.querySelector(".entry:not([hidden])");
  for (const button of document.querySelectorAll(".filters button")) button.setAttribute("aria-pressed", button.dataset.filter === tone);
  for (const option of study.options) option.hidden = Boolean(paper.value && option.dataset.paper && option.dataset.paper !== paper.value);
  document.getElementById("shown").textContent = all ? "" : `${shown} of ${entries.length} statements`;
}
for (const node of document.querySelectorAll("[data-filter]")) node.addEventListener("click", () => { tone = node.dataset.filter; find(); });
search?.addEventListener("input", find);
paper?.addEventListener("change", () => { if (study.selectedOptions[0]?.dataset.paper !== paper.value) study.value = ""; find(); });
study?.addEventListener("change", find);

function unfold() {
  const entry = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!entry || !entry.classList.contains("entry")) return;
  if (entry.hidden) { tone = search.value = paper.value = study.value = ""; find(); }
  entry.closest(".fold").open = entry.open = true;
  entry.scrollIntoView({ block: "start" });
}
addEventListener("hashchange", unfold);
find(); // a browser that goes back keeps what was typed
unfold();

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement, set = root.dataset.theme;
  const theme = (set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches) ? "light" : "dark";
  root.dataset.theme = theme;
  try { localStorage.setItem("featscope-theme", theme); } catch { /* no storage for a file opened directly */ }
});
for (const button of document.querySelectorAll(".copy")) {
  button.addEventListener("click", () => {
    const code = button.parentElement.querySelector("code");
    const select = () => getSelection().selectAllChildren(code);  // where a page may not write to the clipboard
    if (!navigator.clipboard) return select();
    navigator.clipboard.writeText(code.textContent).then(() => { button.textContent = "Copied"; }, select);
  });
}
