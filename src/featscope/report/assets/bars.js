// Bars, as rows: a name, and for each series a dot a replica, the mean and its interval. All series share one axis.
const REACH = 8;  // differences are often much smaller than what is known of them, which must show

function bars(figure, home) {
  const several = figure.series.length > 1, hidden = new Set();
  const places = tones(figure.series.map((series) => series.label));
  const lookOf = ({ label }) => ({ colour: tone(places.get(label)), dashes: dashesOf(places.get(label)) });
  const look = (series) => [series.label, swatch(lookOf(series).colour, lookOf(series).dashes, 8)];
  if (several) legend(home, figure.series.map(look), hidden, () => again());
  const holder = html("div", { className: "chart" });
  const name = several ? "" : figure.series[0].label;
  home.append(html("div", { className: "panels" }, html("div", { className: "panel" },
    html("p", { className: "name", innerHTML: name }), html("p", { className: "axis", innerHTML: figure.unit }), holder)));
  const again = responsive(holder, (width) => holder.replaceChildren(rows(figure, hidden, lookOf, width)));
  listen((what) => { if (what === "replica") again(); });
}

function rows(figure, hidden, lookOf, width) {
  const shown = figure.series.map((series) => ({ ...series, ...lookOf(series) })).filter((series) => !hidden.has(series.label));
  const names = figure.groups.map(words), needed = 16 + 6.6 * Math.max(...names.map((name) => name.length));
  const above = needed > width * 0.42, left = above ? 8 : needed;  // long names stand above their row
  const pitch = shown.length < 2 ? 18 : shown.length * names.length > 40 ? 8 : 12, top = above ? 20 : 0, row = top + Math.max(1, shown.length) * pitch + 10;
  const head = figure.references.length ? 16 : 0, height = head + names.length * row + 24, bottom = height - 22;
  const samples = (series, i) => finite((series.samples ?? []).map((replica) => replica[i]));
  const edges = shown.flatMap((series) => names.flatMap((_, i) => [...samples(series, i), ...(few(series) ? [] : [series.low[i], series.high[i]])]));
  const ends = extent([0, ...shown.flatMap((series) => series.y), ...figure.references.map(([value]) => value)], false, edges, REACH);
  const x = scale(...ends, false, left, width - 53);
  const said = shown.map((series) => `${words(series.label)}: ${names.map((name, i) => `${name} ${number(series.y[i])}${between(series, i)}`).join(", ")}`);
  const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `${words(figure.unit)}. ${said.join("; ")}.` });
  const at = ticks(...ends, false, 5), text = written(at);
  at.forEach((v, i) => chart.append(svg("path", { class: "grid", d: `M${x(v)},${head}V${bottom}` }),
    svg("text", { x: x(v), y: height - 6, "text-anchor": "middle" }, text[i])));
  for (const [value, label] of figure.references) {
    const right = x(value) > width / 2;
    chart.append(svg("path", { class: "mark", d: `M${x(value)},4V${bottom}` }),
      svg("text", { x: x(value) + (right ? -4 : 4), y: 11, "text-anchor": right ? "end" : "start" }, words(label)));
  }
  names.forEach((name, i) => {
    const start = head + i * row + 5, middle = start + top + shown.length * pitch / 2;
    if (i) chart.append(svg("path", { class: "grid", d: `M${above ? 0 : left},${start - 5}H${width}` }));
    chart.append(svg("text", above ? { class: "strong", x: left, y: start + 13 }
      : { class: "strong", x: left - 12, y: middle + 4, "text-anchor": "end" }, name));
    shown.forEach((series, k) => mark(chart, series, i, x, start + top + (k + 0.5) * pitch, pitch, samples(series, i)));
    const area = svg("rect", { class: "area", x: 0, y: start - 5, width, height: row });
    const read = (event) => tell([name, ...shown.map((series) => described(series, i))], event.clientX, event.clientY);
    area.addEventListener("pointermove", read);
    tapped(area, read);
    area.addEventListener("pointerleave", hush);
    chart.append(area);
  });
  return chart;
}

function mark(chart, series, i, x, middle, pitch, samples) {
  const value = series.y[i], style = `stroke:${series.colour}`, cut = (v) => x(Math.min(x.high, Math.max(x.low, v)));
  if (value !== null) chart.append(svg("path", {
    d: `M${x(Math.min(Math.max(0, x.low), x.high))},${middle}H${x(value)}`, style: `stroke:${series.colour};stroke-width:${pitch - 3};stroke-dasharray:${series.dashes};opacity:.22`,
  }));
  if (value === null) return pitch === 18 && chart.append(svg("text", { x: x(0) + 6, y: middle + 4 }, "none"));
  (series.samples ?? []).forEach((replica, r) => {
    const own = r === state.replica, one = replica[i];
    if (one !== null && one >= x.low && one <= x.high) chart.append(svg("circle", { cx: x(one), cy: middle, r: own ? 5 : 2.3, style: `fill:${series.colour};opacity:${own ? 1 : 0.35}` }));
  });
  const known = !few(series) && series.low[i] !== null && series.high[i] !== null, half = Math.min(7, pitch / 2);
  if (known) chart.append(svg("path", { d: `M${cut(series.low[i])},${middle}H${cut(series.high[i])}`, style: `${style};stroke-width:2.5` }));
  chart.append(svg("path", { d: `M${x(value)},${middle - half}v${2 * half}`, style: `${style};stroke-width:3` }));
  const last = Math.max(value, ...samples, known ? Math.min(series.high[i], x.high) : value);
  if (pitch === 18) chart.append(svg("text", { x: x(last) + 8, y: middle + 4 }, number(value)));
}

function described(series, i) {
  const one = alone(series);
  if (one) return `${words(series.label)}: ${number(one[i])} in replica ${state.replica}`;
  return `${words(series.label)}: ${number(series.y[i])}${between(series, i)}`;
}

const between = (series, i) => series.low[i] === null || few(series) ? "" : ` (${number(series.low[i])} to ${number(series.high[i])})`;
