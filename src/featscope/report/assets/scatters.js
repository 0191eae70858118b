// Points in the plane; classes are told apart by colour, and by shape where colours start again.
const SHAPES = [
  (x, y, r) => `M${x - r},${y}a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`,
  (x, y, r) => `M${x},${y - r}L${x + r},${y + r}H${x - r}Z`,
  (x, y, r) => `M${x - r},${y - r}h${2 * r}v${2 * r}h${-2 * r}Z`,
  (x, y, r) => `M${x},${y - r}l${r},${r}l${-r},${r}l${-r},${-r}Z`,
];

function scatters(figure, home) {
  const hidden = new Set(), redraws = [];
  const look = (k) => svg("svg", { width: 12, height: 12, "aria-hidden": true }, svg("path", { d: shapeOf(k)(6, 6, 4), style: `fill:${tone(k)}` }));
  legend(home, figure.classes.map((name, k) => [name, look(k)]), hidden, () => redraws.forEach((again) => again()));
  const grid = home.appendChild(html("div", { className: "panels" }));
  for (const panel of figure.panels) {
    const holder = html("div", { className: "chart" });
    grid.append(html("div", { className: "panel" }, html("p", { className: "name", innerHTML: panel.label }), holder));
    redraws.push(responsive(holder, (width) => holder.replaceChildren(points(figure, panel, hidden, width))));
  }
}

const shapeOf = (k) => SHAPES[Math.floor(k / TONES) % SHAPES.length];

function points(figure, panel, hidden, width) {
  const height = Math.min(width, 320), room = 6;
  const [across, up] = [extent(panel.x), extent(panel.y)], [wide, tall] = [width - 2 * room, height - 2 * room];
  const unit = Math.max((across[1] - across[0]) / wide, (up[1] - up[0]) / tall);  // of both axes: distances are compared
  const around = ([low, high], pixels) => [(low + high - unit * pixels) / 2, (low + high + unit * pixels) / 2];
  const x = scale(...around(across, wide), false, room, width - room), y = scale(...around(up, tall), false, height - room, room);
  const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `${words(panel.label)}: ${panel.x.length} points of ${figure.classes.length} classes` });
  chart.append(svg("rect", { class: "plane", x: 0.5, y: 0.5, width: width - 1, height: height - 1 }));
  figure.classes.forEach((name, k) => {
    if (hidden.has(name)) return;
    const own = [...panel.of.keys()].filter((i) => panel.of[i] === k && panel.x[i] !== null && panel.y[i] !== null);
    const d = own.map((i) => shapeOf(k)(+x(panel.x[i]).toFixed(1), +y(panel.y[i]).toFixed(1), 2.4)).join("");
    chart.append(svg("path", { d, style: `fill:${tone(k)};opacity:.75` }, svg("title", {}, words(name))));
  });
  return chart;
}
