// Matrices over steps: one byte a cell, frame after frame, differences deflated. A click on a cell shows its course.
const unpacked = new Map();
// The replica that is picked, where it is one of these; else the first.
const replicaOf = (figure) => figure.replicas[state.replica] ? state.replica : 0;
const apart = (figure) => (figure.high - figure.low) / (figure.levels - 1);
const valueOf = (figure, level) => level === null ? null : figure.low + Math.min(figure.levels - 1, Math.max(0, level)) * apart(figure);
// To as many decimals as levels are apart, and ``more``; what is beyond the ends of the scale as that.
function told(figure, level, more = 0) {
  if (level === null) return null;
  const decimals = Math.min(100, Math.max(0, Math.ceil(-Math.log10(apart(figure)))) + more);
  return `${level < 0 ? "<" : level >= figure.levels ? ">" : ""}${valueOf(figure, level).toFixed(decimals)}`;
}

// The step that a panel shows: one that ended before the others stays at its last.
const stepOf = (figure, panel, frame) => Math.min(figure.steps[frame], panel.last ?? Infinity);

async function unpack(figure, replica) {
  const key = `${figure.id} ${replica}`;
  if (!unpacked.has(key)) unpacked.set(key, inflate(figure.replicas[replica]).then((cells) => {
    let start = 0;
    return figure.panels.map(({ rows, columns }) => {
      const size = rows * columns, own = cells.subarray(start, (start += size * figure.steps.length));
      for (let i = size; i < own.length; i++) own[i] += own[i - size];
      return (row, column, frame) => {
        const level = own[frame * size + row * columns + column];
        return level === figure.none ? null : level === figure.above ? figure.levels : level === figure.below ? -1 : level;
      };
    });
  }));
  return unpacked.get(key);
}

function movie(figure, home) {
  const frames = figure.steps.length, tall = Math.max(...figure.panels.map((panel) => panel.rows));
  const most = innerWidth < 760 ? 300 : 512, height = tall > most ? most : tall * Math.max(1, Math.floor(most / tall));
  const course = document.querySelector(`[data-course="${figure.id}"]`);
  let frame = frames - 1;
  state.step ??= figure.steps[frame];
  const pickOf = () => state.pick ??= { panel: 0, row: null, column: 0 };
  const pick = (panel, row, column) => { state.pick = { panel, row, column }; changed("pick"); };

  const canvases = figure.panels.map((panel, k) => {
    const canvas = html("canvas", { width: panel.columns, height: panel.rows, tabIndex: 0 });
    canvas.style.height = `${height}px`;
    canvas.setAttribute("role", "img");
    const cellAt = (event) => {
      const box = canvas.getBoundingClientRect(), within = (share, count) => Math.min(count - 1, Math.max(0, Math.floor(share * count)));
      return [within((event.clientY - box.top) / box.height, panel.rows), within((event.clientX - box.left) / box.width, panel.columns)];
    };
    canvas.addEventListener("click", (event) => pick(k, ...cellAt(event)));
    canvas.addEventListener("pointermove", async (event) => {
      const [row, column] = cellAt(event), cells = await unpack(figure, replicaOf(figure));
      tell([`${words(panel.label)}: row ${row + 1}, column ${column + 1}`, `${words(figure.value)}: ${told(figure, cells[k](row, column, frame)) ?? "none"}`], event.clientX, event.clientY);
    });
    canvas.addEventListener("pointerleave", hush);
    canvas.addEventListener("keydown", (event) => {
      const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!move) return;
      event.preventDefault();
      const { row, column } = pickOf().panel === k && pickOf().row !== null ? pickOf() : { row: 0, column: 0 };
      pick(k, Math.min(panel.rows - 1, Math.max(0, row + move[0])), Math.min(panel.columns - 1, Math.max(0, column + move[1])));
    });
    return canvas;
  });

  home.append(html("div", { className: "with-axis" }, html("p", { className: "axis", innerHTML: figure.row }),
    html("div", { className: "matrices" }, ...canvases.map((canvas, k) => html("div", { className: "matrix" },
      html("p", { className: "name" }, html("span", {}, html("span", { innerHTML: figure.panels[k].label }), html("span", { className: "stays" }))),
      html("div", { className: "cells" }, canvas), html("p", { className: "axis", innerHTML: figure.column }))))));
  const play = html("button", { type: "button", className: "play", textContent: "▶ Play" });
  const slider = html("input", { type: "range", min: 0, max: frames - 1, value: frame }), shown = html("output");
  slider.setAttribute("aria-label", "Step");
  const chooser = html("select", { className: "replica" }, ...figure.replicas.map((_, r) => html("option", { value: r, textContent: r })));
  const held = figure.replicas.length < figure.of ? html("span", { className: "axis", textContent: ` (the first ${figure.replicas.length} of ${figure.of})` }) : "";
  home.append(html("div", { className: "player" }, play, slider, shown, html("label", {}, "replica ", chooser, held)));
  const colours = html("i");
  home.append(html("p", { className: "key" }, number(figure.low), colours, number(figure.high), html("span", { innerHTML: figure.value })));

  async function paint() {
    const replica = replicaOf(figure), cells = await unpack(figure, replica), table = ramp(figure.levels, figure.around_zero), none = missing();
    const shade = (level) => level === null ? none : table[Math.min(figure.levels - 1, Math.max(0, level))];
    colours.style.background = gradient(table);
    figure.panels.forEach((panel, k) => {
      const brush = canvases[k].getContext("2d"), image = brush.createImageData(panel.columns, panel.rows);
      for (let row = 0, i = 0; row < panel.rows; row++)
        for (let column = 0; column < panel.columns; column++)
          paintPixel(image.data, i++, shade(cells[k](row, column, frame)));
      brush.putImageData(image, 0, 0);
      canvases[k].parentNode.querySelectorAll("i, b").forEach((mark) => mark.remove());
      canvases[k].setAttribute("aria-label", `${words(panel.label)}: ${panel.rows} ${words(figure.row)} by ${panel.columns} `
        + `${words(figure.column)}; colour is ${words(figure.value)}, at step ${stepOf(figure, panel, frame)}. Arrow keys pick a cell.`);
      const ended = stepOf(figure, panel, frame) < figure.steps[frame];
      canvases[k].closest(".matrix").querySelector(".stays").textContent = ended ? ` (its last step, ${panel.last})` : "";
    });
    slider.value = frame;
    slider.setAttribute("aria-valuetext", `step ${figure.steps[frame]}`);
    shown.textContent = `step ${figure.steps[frame]}`;
    chooser.value = replica;
    home.dataset.frame = frame;
    if (course) drawCourse(figure, course, canvases, cells, pickOf(), pick);
  }

  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "▶ Play";
    course?.setAttribute("aria-live", "polite");
  };
  const go = (to) => { frame = to; state.step = figure.steps[to]; changed("step"); };
  play.addEventListener("click", () => {
    if (timer) return stop();
    if (frame === frames - 1) go(0);
    play.textContent = "❚❚ Pause";
    course?.setAttribute("aria-live", "off");  // else each frame would be read aloud
    timer = setInterval(() => frame < frames - 1 ? go(frame + 1) : stop(), 260);
  });
  slider.addEventListener("input", () => { stop(); go(+slider.value); });
  chooser.addEventListener("change", () => { state.replica = +chooser.value; changed("replica"); });
  listen((what) => {
    // Another movie has moved on: the frame of the same step, or the one before it.
    if (what === "step") frame = Math.max(0, figure.steps.findLastIndex((step) => step <= state.step));
    paint();
  });
  return paint();
}

// How the value of one cell came about, among those of the other cells of its row.
function drawCourse(figure, course, canvases, cells, pick, choose) {
  const panel = figure.panels[pick.panel = Math.min(pick.panel, figure.panels.length - 1)], cell = cells[pick.panel];
  const last = figure.steps.length - 1, columns = [...Array(panel.columns).keys()];
  if (pick.row === null) {  // to begin with, the cell that grew most
    let most = -1;
    for (let row = 0; row < panel.rows; row++) for (const column of columns) {
      const gain = cell(row, column, last) - cell(row, column, 0);
      if (gain > most) [most, pick.row, pick.column] = [gain, row, column];
    }
    pick.row ??= 0;
  }
  pick.row = Math.min(pick.row, panel.rows - 1), pick.column = Math.min(pick.column, panel.columns - 1);
  const width = Math.max(280, course.clientWidth || 420), height = 138, log = figure.steps.at(-1) > 30;
  const floor = log ? 0.7 : 0, final = Math.max(figure.steps.at(-1), floor);
  const frames = figure.steps.flatMap((_, frame) => frame && stepOf(figure, panel, frame - 1) === panel.last ? [] : [frame]);
  const steps = frames.map((frame) => Math.max(stepOf(figure, panel, frame), floor));
  const x = scale(steps[0], final, log, 30, width - 6), y = scale(figure.low, figure.high, false, height - 22, 8);
  const path = (column) => line(x, y, steps, frames.map((frame) => valueOf(figure, cell(pick.row, column, frame))));
  const end = columns.reduce((best, c) => cell(pick.row, c, last) > cell(pick.row, best, last) ? c : best, 0);
  const value = told(figure, cell(pick.row, pick.column, last)) ?? "none";
  const [rowName, columnName] = [figure.row, figure.column].map((label) => words(label).split(",")[0]);  // "neurons, sorted"
  const text = `Row ${pick.row + 1} (${rowName}) ends at ${value} in column ${pick.column + 1} (${columnName})`;
  const others = `Blue: column ${pick.column + 1}; grey: the other ${panel.columns - 1}${end === pick.column ? "" : `, of which ${end + 1} ends largest`}.`;
  const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, width: "100%", role: "img", "aria-label": `${text}. ${others}` });
  axes(chart, x, y, height, width);
  for (const column of columns) if (column !== pick.column)
    chart.append(svg("path", { d: path(column), style: "stroke:var(--s4);fill:none;stroke-width:1;opacity:.35" }));
  chart.append(svg("path", { d: path(pick.column), style: "stroke:var(--s0);fill:none;stroke-width:2.6" }),
    svg("path", { class: "cursor", d: `M${x(Math.max(state.step, steps[0]))},8V${height - 22}` }));

  const mark = html("i"), arrow = html("b"), percent = (share) => `${100 * share}%`;
  Object.assign(mark.style, {
    left: percent(pick.column / panel.columns), width: percent(1 / panel.columns),
    top: percent(pick.row / panel.rows), height: percent(1 / panel.rows),
  });
  arrow.style.top = percent((pick.row + 0.5) / panel.rows);
  canvases[pick.panel].parentNode.append(mark, arrow);

  const field = (name, at, count, set) => {
    const input = html("input", { type: "number", min: 1, max: count, value: at + 1 });
    input.addEventListener("change", () => set(Math.min(count, Math.max(1, Math.round(+input.value) || 1)) - 1));
    return html("label", {}, `${name} `, input);
  };
  const which = html("select", {}, ...figure.panels.map((p, k) => html("option", { value: k, textContent: words(p.label), selected: k === pick.panel })));
  which.setAttribute("aria-label", "Which matrix");
  which.addEventListener("change", () => choose(+which.value, 0, 0));
  const focused = course.contains(document.activeElement) ? [...course.querySelectorAll("select, input")].indexOf(document.activeElement) : -1;
  course.replaceChildren(html("p", { className: "name", textContent: text }),
    html("p", { className: "axis", textContent: `${others} Click the picture for another row.` }),
    chart, html("p", { className: "axis x", textContent: "step" }),
    html("div", { className: "choose" }, which,
      field("row", pick.row, panel.rows, (row) => choose(pick.panel, row, pick.column)),
      field("column", pick.column, panel.columns, (column) => choose(pick.panel, pick.row, column))));
  if (focused >= 0) course.querySelectorAll("select, input")[focused].focus();
}
