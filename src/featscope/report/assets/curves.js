// Lines over x: means with bands, or every replica where there are few; brush to zoom, read with pointer or keys.
function curves(figure, home) {
  const all = figure.panels.flatMap((panel) => panel.curves), labels = [...new Set(all.map((c) => c.label))];
  const solid = labels.filter((label) => all.some((c) => c.label === label && !c.dashed));
  const lone = labels.filter((label) => !solid.includes(label));  // predictions of nothing that was measured here
  const places = tones([...solid, ...lone.slice(1)]);
  const looks = new Map(labels.map((label) => {
    const place = places.get(label) ?? -1, colour = place < 0 ? "var(--ink)" : tone(place);
    return [label, { colour, dashes: (dashed) => !dashed ? dashesOf(place) : rounds(place) ? "2.5 2" : "5 3" }];
  }));
  const hidden = new Set(), redraws = [];
  const look = (label) => [label, swatch(looks.get(label).colour, looks.get(label).dashes(!solid.includes(label)))];
  if (labels.length > 1) legend(home, labels.map(look), hidden, () => redraws.forEach((again) => again()));
  const grid = home.appendChild(html("div", { className: "panels" }));
  for (const panel of figure.panels) {
    const again = curvePanel(panel, grid, looks, hidden);
    redraws.push(again);
    const overSteps = /step/.test(panel.x);
    listen((what) => { if (what === "replica" || (what === "step" && overSteps)) again(); });
  }
}

function curvePanel(panel, grid, looks, hidden) {
  const holder = html("div", { className: "chart" });
  const back = html("button", { type: "button", className: "back", textContent: "Show all", hidden: true });
  const beyond = html("p", { className: "axis", textContent: "Some intervals go beyond the axis.", hidden: true });
  grid.append(html("div", { className: "panel" },
    html("p", { className: "name", innerHTML: panel.title }), html("p", { className: "axis", innerHTML: panel.y }),
    holder, html("p", { className: "axis x", innerHTML: panel.x }), html("p", { className: "axis left-out", innerHTML: panel.left_out }), beyond, back));
  let span = null, reading = null;  // what part of x is shown; the point that the keyboard has reached
  const known = (c) => c.y.flatMap((v, i) => v === null || (panel.logx && c.x[i] <= 0) ? [] : [c.x[i]]);
  const shown = () => panel.curves.filter((c) => !hidden.has(c.label));

  function draw(width) {
    const height = Math.round(Math.max(150, Math.min(240, width * 0.62)));
    const inSpan = (c, values) => values ? values.filter((_, i) => !span || (c.x[i] >= span[0] && c.x[i] <= span[1])) : [];
    const middle = shown().flatMap((c) => inSpan(c, c.y));
    const edges = shown().flatMap((c) => few(c) && c.samples ? c.samples.flatMap((s) => inSpan(c, s))
      : [...inSpan(c, c.low), ...inSpan(c, c.high)]);
    const xs = panel.curves.flatMap(known), ends = extent(middle, panel.logy, edges);
    const x = scale(...(span ?? (xs.length ? [Math.min(...xs), Math.max(...xs)] : panel.logx ? [1, 10] : [0, 1])), panel.logx,
      marginOf(ends, panel.logy), width - 16);
    const y = scale(...ends, panel.logy, height - 22, 8);
    const said = shown().map((c) => `${words(c.label)} ends at ${number(finite(c.y).at(-1) ?? null, c.digits - 1)}`).join("; ");
    const chart = svg("svg", {
      viewBox: `0 0 ${width} ${height}`, height, role: "img", tabindex: 0,
      "aria-label": `${words(panel.title)}: ${words(panel.y)} over ${words(panel.x)}. ${said}.`,
    });
    axes(chart, x, y, height, width, panel.marks);
    const clip = `c${Math.random().toString(36).slice(2)}`, body = svg("g", { "clip-path": `url(#${clip})` });
    chart.append(svg("clipPath", { id: clip },
      svg("rect", { x: x.from - 3, y: 4, width: width - x.from + 3, height: height - 24 })), body);
    for (const c of shown()) curve(c, body, x, y, looks.get(c.label));
    if (/step/.test(panel.x) && state.step !== null && state.step >= x.low && state.step <= x.high)
      chart.append(svg("path", { class: "cursor", d: `M${x(state.step)},8V${height - 22}` }));
    const ruler = chart.appendChild(svg("path", { class: "ruler" }));
    interact(chart, x, ruler, width, height);
    holder.replaceChildren(chart);
    back.hidden = !span;
    beyond.hidden = !finite(edges).some((v) => v < ends[0] || v > ends[1]);
  }

  function read(chart, ruler, x, at, height) {
    const scaled = chart.getBoundingClientRect(), ratio = scaled.width / chart.viewBox.baseVal.width;
    ruler.setAttribute("d", `M${x(at)},8V${height - 22}`);
    const lines = shown().map((c) => {
      const i = nearest(c, at);
      if (i < 0) return "";
      const one = alone(c), value = one ? one[i] : c.y[i];
      const sure = !c.low || c.low[i] === null || one || few(c);
      const where = c.x[i] === at ? "" : ` (at ${exact(c.x[i])})`;  // the nearest that there is
      const told = (v) => number(v, c.digits - 1);
      return `${words(c.label)}${where}: ${told(value)}${sure ? "" : ` (${told(c.low[i])} to ${told(c.high[i])})`}`;
    });
    tell([`${words(panel.x)} ${exact(at)}`, ...lines.filter(Boolean)], scaled.left + x(at) * ratio, scaled.top);
  }
  const nearest = (c, at) => c.x.reduce((best, v, i) =>
    c.y[i] !== null && (best < 0 || Math.abs(v - at) < Math.abs(c.x[best] - at)) ? i : best, -1);

  function interact(chart, x, ruler, width, height) {
    const points = [...new Set(shown().flatMap(known))].sort((a, b) => a - b).filter((v) => v >= x.low && v <= x.high);
    const place = (event) => {
      const box = chart.getBoundingClientRect();
      return x.back(Math.min(x.to, Math.max(x.from, (event.clientX - box.left) * width / box.width)));
    };
    const closest = (at) => points.reduce((best, v) => Math.abs(x(v) - x(at)) < Math.abs(x(best) - x(at)) ? v : best, points[0]);
    const zoom = (to) => { span = to; hush(); draw(width); };
    let from = null;
    chart.addEventListener("pointerdown", (event) => { from = place(event); });
    chart.addEventListener("pointermove", (event) => {
      if (!points.length) return;
      if (from === null) return read(chart, ruler, x, closest(place(event)), height);
      const to = place(event);  // a span is being brushed
      ruler.setAttribute("d", `M${x(from)},8V${height - 22}H${x(to)}V8Z`);
      hush();
    });
    chart.addEventListener("pointerup", (event) => {
      const ends = [from, place(event)].sort((a, b) => a - b);
      const wide = from !== null && x(ends[1]) - x(ends[0]) > 12;
      from = null;
      if (wide) zoom(ends);
    });
    tapped(chart, (event) => points.length && read(chart, ruler, x, closest(place(event)), height));
    chart.addEventListener("pointerleave", () => { from = null; ruler.removeAttribute("d"); hush(); });
    chart.addEventListener("blur", () => { ruler.removeAttribute("d"); hush(); });
    chart.addEventListener("dblclick", () => zoom(null));
    back.onclick = () => zoom(null);
    chart.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape" && !span) { ruler.removeAttribute("d"); return hush(); }
      if (event.key === "Escape") { zoom(null); return holder.firstElementChild.focus(); }
      if (!step || !points.length) return;
      event.preventDefault();
      const now = reading === null ? (step > 0 ? -1 : points.length) : points.indexOf(closest(reading));
      reading = points[Math.min(points.length - 1, Math.max(0, now + step))];
      read(chart, ruler, x, reading, height);
    });
  }
  return responsive(holder, draw);
}

function curve(c, body, x, y, { colour, dashes }) {
  const stroke = `stroke:${colour};fill:none;stroke-linejoin:round`;
  const look = `${stroke};stroke-width:${c.dashed ? 1.8 : 2.2};stroke-dasharray:${dashes(c.dashed)}`;
  const one = alone(c);
  if (few(c) && c.samples && c.samples.length > 1)
    for (const sample of c.samples) body.append(svg("path", { d: line(x, y, c.x, sample), style: `${stroke};stroke-width:1;opacity:.55` }));
  else if (c.low) body.append(svg("path", { d: band(x, y, c.x, c.low, c.high), style: `fill:${colour};opacity:.16` }));
  body.append(svg("path", { d: line(x, y, c.x, c.y), style: look + (one ? ";opacity:.3" : "") }));
  if (one) body.append(svg("path", { d: line(x, y, c.x, one), style: look }));
  if (c.x.length <= 12 && !c.dashed) c.x.forEach((v, i) => {
    const value = one ? one[i] : c.y[i];
    if (value !== null && (!y.log || value > 0) && (!x.log || v > 0))
      body.append(svg("circle", { cx: x(v), cy: y(value), r: 3, style: `fill:${colour}` }));
  });
}
