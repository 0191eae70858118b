// The data of each figure as CSV, and each figure as a picture.
function save(name, content, type) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  html("a", { download: name, href: address }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

const TABLES = {
  curves: (figure) => {
    const numbers = replicasOf(figure.panels.flatMap((p) => p.curves));
    return [["panel", "curve", "x", "mean", "low", "high", ...numbers.map((r) => `replica ${r}`)],
      ...figure.panels.flatMap((p) => p.curves.flatMap((c) => c.x.map((x, i) =>
        [words(p.title), words(c.label), x, c.y[i], c.low?.[i], c.high?.[i], ...numbers.map((r) => c.samples?.[r]?.[i])])))];
  },
  bars: (figure) => {
    const numbers = replicasOf(figure.series);
    return [["series", "group", "mean", "low", "high", ...numbers.map((r) => `replica ${r}`)],
      ...figure.series.flatMap((s) => figure.groups.map((group, i) =>
        [words(s.label), words(group), s.y[i], s.low[i], s.high[i], ...numbers.map((r) => s.samples?.[r]?.[i])]))];
  },
  heatmaps: (figure) => [["panel", words(figure.row), words(figure.column), words(figure.value)],
    ...figure.panels.flatMap((p) => p.cells.flatMap((row, i) => row.map((value, j) =>
      [words(p.label), words(figure.rows[i] ?? String(i)), words(figure.columns[j] ?? String(j)), value])))],
  scatters: (figure) => [["panel", "class", "x", "y"],
    ...figure.panels.flatMap((p) => p.x.map((x, i) => [words(p.label), words(figure.classes[p.of[i]]), x, p.y[i]]))],
  agreement: (figure) => [["claim", "predicted", "tolerance", "measured", "low", "high", "verdict"],
    ...figure.rows.map((row, i) => [words(row), figure.predicted[i], figure.tolerance[i], figure.measured[i], figure.low[i], figure.high[i], figure.verdicts[i]])],
  verdicts: (figure) => [["panel", words(figure.x), words(figure.y), "verdict", "low", "high"],
    ...figure.panels.flatMap((p) => p.x.map((x, i) => [words(p.label), x, p.y[i], p.verdicts[i], p.low?.[i], p.high?.[i]]))],
  movie: async (figure) => {
    const replica = replicaOf(figure), cells = await unpack(figure, replica);
    const frame = Math.max(0, figure.steps.findLastIndex((step) => step <= state.step));
    const known = `± ${number(apart(figure) / 2, 2)}; exact: featscope export`;  // the page keeps a few levels
    return [["panel", "step", "row", "column", `value in replica ${replica} (${known})`],
      ...figure.panels.flatMap((p, k) => Array.from({ length: p.rows * p.columns }, (_, i) =>
        [words(p.label), stepOf(figure, p, frame), Math.floor(i / p.columns) + 1, i % p.columns + 1, told(figure, cells[k](Math.floor(i / p.columns), i % p.columns, frame), 1)]))];
  },
};
// Numbers of all replicas that are drawn, which can be more than the page picks from: runs may have different numbers.
function replicasOf(drawn) {
  return [...Array(Math.max(0, ...drawn.map((one) => one.samples?.length ?? 0))).keys()];
}

// A cell as CSV has it; words that a spreadsheet would take for a formula are marked as words.
function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return value;
  const text = /^[=+@]/.test(value) ? `'${value}` : value;
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

async function saveTable(id) {
  const table = await TABLES[figures[id].kind](figures[id]);
  save(`${id}.csv`, table.map((row) => row.map(cell).join(",")).join("\n"), "text/csv");
}

// Drawings as one SVG, with their looks written out so that they look the same elsewhere; canvases as PNG.
function savePicture(id) {
  const home = document.querySelector(`[data-figure="${id}"]`), parts = [...home.querySelectorAll(".panel svg[role=img]")];
  const canvases = home.querySelectorAll("canvas");
  const saveFrom = (k) => canvases[k]?.toBlob((blob) => { save(`${id}-${k + 1}.png`, blob); saveFrom(k + 1); });
  saveFrom(0);  // one after another: all at once come in any order
  if (!parts.length) return;
  const { color: ink, backgroundColor: paper } = getComputedStyle(document.body);
  const paperSheet = svg("rect", { width: "100%", height: "100%", fill: paper });
  const whole = svg("svg", { xmlns: "http://www.w3.org/2000/svg", "font-family": "sans-serif" }, paperSheet);
  const write = (text, x, y, look) => whole.append(svg("text", { x, y, "font-size": 13, fill: ink, ...look }, text));
  const wide = Math.max(...parts.map((part) => part.viewBox.baseVal.width));
  let down = saveLegend(home, whole, write, wide);
  for (const part of parts) {
    const box = part.viewBox.baseVal, panel = part.closest(".panel");
    const [name, axis, across, leftOut] = [".name", ".axis:not(.x, .left-out)", ".axis.x", ".left-out"].map((which) => panel.querySelector(which)?.textContent ?? "");
    write([name, axis].filter(Boolean).join(": "), 4, down + 16, { "font-weight": "bold" });
    whole.append(placed(part, 0, down + 24, box.width, box.height));
    write(across, wide - 4, down + box.height + 38, { "text-anchor": "end" });
    write(leftOut, 4, down + box.height + 56);
    down += box.height + (leftOut ? 76 : 58);
  }
  whole.setAttribute("width", wide);
  whole.setAttribute("height", down);
  save(`${id}.svg`, new XMLSerializer().serializeToString(whole), "image/svg+xml");
}

// What the legend shows now, in rows; how far down it goes.
function saveLegend(home, whole, write, wide) {
  let [right, down] = [4, 0];
  for (const entry of home.querySelectorAll(".legend > :not([aria-pressed=false])")) {
    const look = entry.querySelector("svg"), [width, height] = ["width", "height"].map((side) => +look.getAttribute(side));
    const text = entry.textContent.trim(), room = width + 22 + 7 * text.length;
    if (right > 4 && right + room > wide) [right, down] = [4, down + 20];
    whole.append(placed(look, right, down + 12 - height / 2, width, height));
    write(text, right + width + 6, down + 16);
    right += room;
  }
  return right > 4 ? down + 28 : 0;
}

// A copy of a drawing with its looks written out.
function placed(drawing, x, y, width, height) {
  const copy = drawing.cloneNode(true), styled = drawing.querySelectorAll("*");
  const kept = ["stroke", "fill", "stroke-width", "stroke-dasharray", "opacity", "font-family", "font-size", "text-anchor"];
  copy.querySelectorAll("*").forEach((node, i) => {
    const style = getComputedStyle(styled[i]);
    node.removeAttribute("style");
    for (const name of kept) node.setAttribute(name, style.getPropertyValue(name));
  });
  for (const [attribute, value] of Object.entries({ x, y, width, height })) copy.setAttribute(attribute, value);
  return copy;
}
