// Draws the figures, and makes the page's controls work.
const DRAW = { curves, bars, movie, heatmaps, images, scatters, verdicts };
const drawn = [];
for (const home of document.querySelectorAll("[data-figure]")) {
  const id = home.dataset.figure, figure = Object.assign(figures[id], { id });
  if (!DRAW[figure.kind]) continue;
  drawn.push(DRAW[figure.kind](figure, home));
  const note = html("p", { className: "axis instead" });
  home.after(note);
  listen((what) => { if (what === "replica") note.textContent = instead(figure); });
}
// What a figure shows while a replica is picked that it has nothing of.
function instead(figure) {
  if (state.replica === null) return "";
  if (figure.kind === "movie") return replicaOf(figure) === state.replica ? "" : `The page does not hold replica ${state.replica} of this: it shows replica ${replicaOf(figure)}.`;
  const series = figure.series ?? figure.panels.flatMap((panel) => panel.curves ?? []);
  return series.some(alone) ? "" : "The same whichever replica is picked.";
}
for (const button of document.querySelectorAll("[data-csv]")) button.addEventListener("click", () => saveTable(button.dataset.csv));
for (const button of document.querySelectorAll("[data-save]")) button.addEventListener("click", () => savePicture(button.dataset.save));

const picker = document.getElementById("replica");
picker?.addEventListener("change", () => { state.replica = picker.value === "" ? null : +picker.value; changed("replica"); });
listen((what) => { if (what === "replica" && picker) picker.value = state.replica ?? ""; });

// Only claims of one tone, or all of them.
function filter(tone) {
  for (const button of document.querySelectorAll(".filters button")) button.setAttribute("aria-pressed", button.dataset.filter === tone);
  for (const row of document.querySelectorAll(".source tr[data-tone]")) row.hidden = tone !== "" && row.dataset.tone !== tone;
  for (const fold of document.querySelectorAll(".source")) {
    fold.hidden = !fold.querySelector("tr[data-tone]:not([hidden])");
    fold.open = tone !== "" && !fold.hidden;
  }
}
for (const node of document.querySelectorAll("[data-filter]")) node.addEventListener("click", () => filter(node.dataset.filter));

// A link to a claim opens the fold that it lies in.
function unfold() {
  const row = location.hash.length > 1 && document.getElementById(location.hash.slice(1)), fold = row && row.closest("details");
  if (!fold) return;
  if (row.hidden) filter("");
  fold.open = true;
  row.scrollIntoView({ block: "center" });
}
addEventListener("hashchange", unfold);
unfold();

document.getElementById("theme").addEventListener("click", () => {
  const theme = dark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("featscope-theme", theme); } catch { /* no storage for a file opened directly */ }
  changed("theme");
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => changed("theme"));

let folded = [], picked = "";
addEventListener("beforeprint", () => {
  picked = document.querySelector('.filters [aria-pressed="true"]')?.dataset.filter ?? "";
  if (picked) filter("");  // paper has all claims
  folded = [...document.querySelectorAll("details:not([open])")];
  folded.forEach((fold) => { fold.open = true; });
  changed("theme");
});
addEventListener("afterprint", () => {
  folded.forEach((fold) => { fold.open = false; });
  if (picked) filter(picked);
  changed("theme");
});

document.getElementById("copy")?.addEventListener("click", (event) => {
  const command = document.getElementById("command"), button = event.target;
  const select = () => getSelection().selectAllChildren(command);  // where a page may not write to the clipboard
  if (!navigator.clipboard) return select();
  navigator.clipboard.writeText(command.textContent).then(() => { button.textContent = "Copied"; }, select);
});
for (const link of document.querySelectorAll(".menu a")) link.addEventListener("click", () => { link.closest("details").open = false; });
// What is drawn at its width is told of it after the first frame's layout, and draws in the second.
const frame = () => new Promise(requestAnimationFrame);
Promise.all(drawn).then(frame).then(frame).then(frame).then(() => { document.documentElement.dataset.drawn = "all"; });
