// Axes: ticks, scales, what a line and a band look like.

// Round values between the ends; on a logarithmic axis powers of ten, or 1, 2 and 5 where there are few of these.
function ticks(low, high, log, most) {
  if (!log) {
    const raw = (high - low) / most || 1, unit = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].find((m) => m * unit >= raw * (1 - 1e-9)) * unit, all = [];
    for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-6; v += step) all.push(+v.toPrecision(12));
    return all;
  }
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const few = high / low <= 50 || Math.floor(Math.log10(high)) - Math.ceil(Math.log10(low)) < 1, skip = few ? 1 : Math.max(1, Math.ceil((last - first) / most)), all = [];
  for (let e = first; e <= last; e += skip) for (const m of few ? [1, 2, 5] : [1]) all.push(m * 10 ** e);
  const inside = all.filter((v) => v >= low * 0.999 && v <= high * 1.001);
  return inside.length > 1 ? inside : ticks(low, high, false, most);  // too short for these
}

// The ticks of one axis are written alike: all as powers of ten if any needs to be; in full, so that neighbours differ.
function written(values) {
  const odd = values.some((v) => v !== 0 && (Math.abs(v) >= 1e5 || Math.abs(v) < 1e-3));
  return values.map((v) => v === 0 ? "0" : odd ? power(v, 12).replace("-", "−") : number(v, 12));
}

function scale(low, high, log, from, to) {
  const f = log ? Math.log10 : (v) => v, a = f(low), b = f(high);
  const at = (v) => from + ((f(v) - a) / (b - a || 1)) * (to - from);
  const back = (x) => { const v = a + ((x - from) / (to - from)) * (b - a); return log ? 10 ** v : v; };
  return Object.assign(at, { low, high, log, from, to, back });
}

// The ends of an axis that shows ``values``, and ``edges`` (ends of intervals) as far as these do not dwarf them: up to
// ``reach`` times the extent of the values.
function extent(values, log, edges = [], reach = 1) {
  const sound = (all) => finite(all).filter((v) => !log || v > 0);
  const seen = sound(values);
  if (!seen.length) return log ? [1, 10] : [0, 1];
  let low = Math.min(...seen), high = Math.max(...seen);
  const room = log ? Math.max(high / low, 2) : high - low || Math.abs(high) || 1;
  const [least, most] = log ? [low / room, high * room] : [low - reach * room, high + reach * room];
  const near = sound(edges).map((v) => Math.min(most, Math.max(least, v)));
  [low, high] = [Math.min(low, ...near), Math.max(high, ...near)];
  if (log) return low === high ? [low / 2, high * 2] : [low / 1.05, high * 1.05];
  if (low > 0 && low < 0.4 * high) low = 0;
  const air = (high - low) * 0.05 || Math.abs(high) * 0.1 || 1;
  return [low === 0 ? 0 : low - air, high === 0 ? 0 : high + air];
}

// Grid lines and numbers; ``marks`` are [x, label] of vertical lines, and never stretch the axis.
function axes(chart, x, y, height, width, marks = []) {
  const bottom = height - 22, yTicks = ticks(y.low, y.high, y.log, y.log ? 6 : 5), yWords = written(yTicks);
  yTicks.forEach((v, i) => chart.append(
    svg("path", { class: "grid", d: `M${x.from},${y(v)}H${width}` }),
    svg("text", { x: x.from - 6, y: y(v) + 4, "text-anchor": "end" }, yWords[i]),
  ));
  const xTicks = ticks(x.low, x.high, x.log, width > 340 ? 6 : 4), xWords = written(xTicks);
  xTicks.forEach((v, i) => chart.append(svg("text", {
    x: x(v), y: height - 5, "text-anchor": "middle",
  }, xWords[i])));
  chart.append(svg("path", { class: "grid", d: `M${x.from},${bottom}H${width}` }));
  let free = 0;  // labels of marks that would run into each other go one below the other
  marks.filter(([v]) => v >= x.low && v <= x.high).sort(([a], [b]) => a - b).forEach(([v, label], i, all) => {
    const text = words(label), end = x(v) + 8 + 6.5 * text.length, left = end > width;
    const row = i && x(v) - x(all[i - 1][0]) < 7 * text.length ? (free = (free + 1) % 3) : (free = 0);
    chart.append(
      svg("path", { class: "mark", d: `M${x(v)},4V${bottom}` }),
      svg("text", { x: x(v) + (left ? -3 : 3), y: 11 + 12 * row, "text-anchor": left ? "end" : "start" }, text),
    );
  });
}

// Room for the numbers along y.
const marginOf = (ends, log) => 10 + 6.6 * Math.max(2, ...written(ticks(...ends, log, log ? 6 : 5)).map((text) => text.length));

function line(x, y, xs, ys) {
  let path = "", pen = false;
  ys.forEach((v, i) => {
    const ok = v !== null && (!y.log || v > 0) && (!x.log || xs[i] > 0);
    if (ok) path += `${pen ? "L" : "M"}${x(xs[i]).toFixed(1)},${y(v).toFixed(1)}`;
    pen = ok;
  });
  return path;
}

function band(x, y, xs, low, high) {
  const known = (i) => low[i] !== null && high[i] !== null && high[i] > (y.log ? 0 : -Infinity) && (!x.log || xs[i] > 0);
  const at = [...xs.keys()].filter(known), cut = (v) => y(Math.min(y.high, Math.max(y.low, v))).toFixed(1);
  const stretches = [];  // of points side by side: a point without an interval parts them
  for (const i of at) i && stretches.at(-1)?.at(-1) === i - 1 ? stretches.at(-1).push(i) : stretches.push([i]);
  return stretches.map((points) => {
    const edge = (ends) => points.map((i) => `${x(xs[i]).toFixed(1)},${cut(ends[i])}`);
    if (points.length === 1) return `M${(x(xs[points[0]]) - 3).toFixed(1)},${cut(high[points[0]])}h6V${cut(low[points[0]])}h-6Z`;
    return `M${[...edge(high), ...edge(low).reverse()].join("L")}Z`;
  }).join("");
}
