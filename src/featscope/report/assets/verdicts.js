// Where a claim holds: a mark and a colour for each verdict. Over two axes each point stands for what lies around it.
const MARKS = {
  holds: (x, y, r) => `M${x - r},${y}a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`,
  fails: (x, y, r) => `M${x - r},${y - r}l${2 * r},${2 * r}m0,${-2 * r}l${-2 * r},${2 * r}`,
};
MARKS.undecided = MARKS.holds;
const VERDICT_TONES = { holds: "var(--holds)", fails: "var(--loud)", undecided: "var(--undecided)" };
const MARK_LOOK = {
  holds: `fill:${VERDICT_TONES.holds};stroke:${VERDICT_TONES.holds};stroke-width:1.5`,
  fails: `fill:none;stroke:${VERDICT_TONES.fails};stroke-width:2.6`,
  undecided: `fill:var(--paper);stroke:${VERDICT_TONES.undecided};stroke-width:2`,
};
const CELLS = 48;  // along a side of the areas

function verdicts(figure, home) {
  const look = (verdict) => svg("svg", { width: 14, height: 14, "aria-hidden": true }, svg("path", { d: MARKS[verdict](7, 7, 4.5), style: MARK_LOOK[verdict] }));
  home.append(html("p", { className: "legend" }, ...Object.keys(VERDICT_TONES).map((verdict) => html("span", {}, look(verdict), ` ${verdict} `))));
  const grid = home.appendChild(html("div", { className: "panels" }));
  for (const panel of figure.panels) {
    const holder = html("div", { className: "chart" });
    grid.append(html("div", { className: "panel" }, html("p", { className: "name", innerHTML: panel.label }),
      html("p", { className: "axis", innerHTML: figure.y }), holder, html("p", { className: "axis x", innerHTML: figure.x })));
    responsive(holder, (width) => holder.replaceChildren(diagram(figure, panel, width)));
  }
}

// The ends of an axis of the sweep: a little beyond the outermost points.
function around(values, log) {
  const f = log ? Math.log10 : (v) => v, low = f(Math.min(...values)), high = f(Math.max(...values)), air = 0.06 * (high - low) || 0.5;
  return log ? [10 ** (low - air), 10 ** (high + air)] : [low - air, high + air];
}

function diagram(figure, panel, width) {
  const height = Math.round(Math.max(180, Math.min(300, width * 0.7))), every = [...panel.x.keys()];
  const ends = figure.areas ? around(panel.y, figure.logy) : extent([...panel.y, ...panel.edges.flat()], figure.logy, [...panel.low ?? [], ...panel.high ?? []]);
  const x = scale(...around(panel.x, figure.logx), figure.logx, marginOf(ends, figure.logy), width - 16);
  const y = scale(...ends, figure.logy, height - 22, 8);
  const on = (i) => panel.y[i] !== null && (!figure.logy || panel.y[i] > 0), place = (i) => on(i) ? y(panel.y[i]) : y.from;  // else at the foot
  const count = Object.keys(VERDICT_TONES).map((verdict) => `${verdict} at ${panel.verdicts.filter((one) => one === verdict).length}`).join(", ");
  const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", tabindex: 0, "aria-label": `${words(panel.label)}: ${count} of ${panel.x.length} points` });
  if (figure.areas) for (const [verdict, d] of Object.entries(areas(panel, x, y))) chart.append(svg("path", { d, style: `fill:${VERDICT_TONES[verdict]};opacity:.2` }));
  axes(chart, x, y, height, width);
  const inOrder = [...every].sort((a, b) => panel.x[a] - panel.x[b]);
  const through = (values, points) => line(x, y, points.map((i) => panel.x[i]), points.map((i) => values[i]));
  if (!figure.areas) {
    chart.append(svg("path", { d: through(panel.y, inOrder), style: "fill:none;stroke:var(--soft);stroke-width:1" }));
    for (const edge of panel.edges) chart.append(svg("path", { d: through(edge, inOrder), style: "fill:none;stroke:var(--ink);stroke-width:1.4;stroke-dasharray:5 3" }));
  }
  const cut = (v) => y(Math.min(y.high, Math.max(y.low, v))).toFixed(1);
  for (const i of every) {
    const verdict = panel.verdicts[i], at = x(panel.x[i]);
    if (panel.low && panel.low[i] !== null && panel.high[i] !== null)
      chart.append(svg("path", { d: `M${at},${cut(panel.low[i])}V${cut(panel.high[i])}`, style: `stroke:${VERDICT_TONES[verdict]};stroke-width:2` }));
    chart.append(svg("path", { d: MARKS[verdict](at, place(i), 4.5), style: MARK_LOOK[verdict] }));
  }
  const read = (i) => {
    const box = chart.getBoundingClientRect(), ratio = box.width / width, [where, what] = words(panel.said[i]).split(/: (.*)/s);
    tell([where, what], box.left + x(panel.x[i]) * ratio, box.top + place(i) * ratio);
  };
  const nearest = (event) => {
    const box = chart.getBoundingClientRect(), ratio = width / box.width, h = (event.clientX - box.left) * ratio, v = (event.clientY - box.top) * ratio;
    const away = (i) => Math.hypot(x(panel.x[i]) - h, place(i) - v);
    if (every.length) read(every.reduce((best, i) => away(i) < away(best) ? i : best));
  };
  chart.addEventListener("pointermove", nearest);
  tapped(chart, nearest);
  chart.addEventListener("pointerleave", hush);
  chart.addEventListener("blur", hush);
  let reading = -1;
  chart.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !every.length) return;
    event.preventDefault();
    reading = (Math.max(reading, step > 0 ? -1 : 0) + step + every.length) % every.length;
    read(every[reading]);
  });
  return chart;
}

// Rows of cells, each of the verdict of its nearest point, as one path a verdict.
function areas(panel, x, y) {
  const paths = Object.fromEntries(Object.keys(VERDICT_TONES).map((verdict) => [verdict, ""]));
  const wide = (x.to - x.from) / CELLS, tall = (y.from - y.to) / CELLS, ratio = (x.to - x.from) / (y.from - y.to);
  const points = panel.x.map((value, i) => [x(value), y(panel.y[i]), panel.verdicts[i]]);
  for (let row = 0; row < CELLS; row++) {
    const top = y.to + row * tall;
    let from = 0, before = null;
    for (let column = 0; column <= CELLS; column++) {
      const h = x.from + (column + 0.5) * wide, v = top + tall / 2;
      const of = column < CELLS ? points.reduce((best, p) => {
        const apart = (p[0] - h) ** 2 + ((p[1] - v) * ratio) ** 2;
        return apart < best[0] ? [apart, p[2]] : best;
      }, [Infinity, null])[1] : null;
      if (of === before) continue;
      if (before) paths[before] += `M${(x.from + from * wide).toFixed(1)},${top.toFixed(1)}h${((column - from) * wide).toFixed(1)}v${tall.toFixed(1)}h${(-(column - from) * wide).toFixed(1)}Z`;
      [from, before] = [column, of];
    }
  }
  return paths;
}
