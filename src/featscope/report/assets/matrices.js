// Matrices that stand still, with names along the axes; and mosaics of small images.
function heatmaps(figure, home) {
  const grid = home.appendChild(html("div", { className: "panels" })), levels = 64, key = html("i");
  const level = (v) => Math.min(levels - 1, Math.max(0, Math.round((v - figure.low) / (figure.high - figure.low) * (levels - 1))));
  const redraws = figure.panels.map((panel) => {
    const holder = html("div", { className: "chart" });
    grid.append(html("div", { className: "panel" }, html("p", { className: "name", innerHTML: panel.label }),
      html("p", { className: "axis", innerHTML: `${figure.row} ↓` }), holder, html("p", { className: "axis x", innerHTML: figure.column })));
    return responsive(holder, (width) => holder.replaceChildren(cells(figure, panel, width, ramp(levels, figure.around_zero), level)));
  });
  const paintKey = () => { key.style.background = gradient(ramp(levels, figure.around_zero)); };
  paintKey();
  home.append(html("p", { className: "key" }, number(figure.low), key, number(figure.high), html("span", { innerHTML: figure.value })));
  listen((what) => { if (what === "theme") { paintKey(); redraws.forEach((again) => again()); } });
}

function cells(figure, panel, width, colours, level) {
  const count = panel.cells.length, across = panel.cells[0].length;
  const rowNames = panel.cells.map((_, i) => words(figure.rows[i] ?? String(i))), columnNames = panel.cells[0].map((_, i) => words(figure.columns[i] ?? String(i)));
  const left = 8 + 6.6 * Math.max(...rowNames.map((name) => name.length)), wide = (width - left) / across;
  const tall = Math.max(3, Math.min(34, 240 / count)), slanted = Math.max(...columnNames.map((name) => name.length)) * 6.6 > wide;
  const skip = slanted && columnNames.every((name) => /^[-\d.]+$/.test(name)) ? Math.ceil(30 / wide) : 1;  // numbers may be left out
  const tilt = slanted && skip === 1, below = tilt ? 14 + 4.8 * Math.max(...columnNames.map((name) => name.length)) : 18;
  const height = count * tall + below, legible = wide >= 32 && tall >= 16;
  const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `${words(panel.label)}: ${words(figure.value)} over ${words(figure.row)} and ${words(figure.column)}` });
  const canvas = html("canvas", { width: across, height: count }), brush = canvas.getContext("2d");
  const image = brush.createImageData(across, count), none = missing();
  panel.cells.flat().forEach((value, at) => paintPixel(image.data, at, value === null ? none : colours[level(value)]));
  brush.putImageData(image, 0, 0);
  const area = { x: left, y: 0, width: width - left, height: count * tall };
  chart.append(svg("image", { ...area, href: canvas.toDataURL(), preserveAspectRatio: "none", class: "pixels" }));
  if (legible) panel.cells.forEach((row, i) => row.forEach((value, j) => {
    if (value === null) return;
    const [red, green, blue] = colours[level(value)], light = red * 0.3 + green * 0.59 + blue * 0.11 > 140;
    chart.append(svg("text", { x: left + (j + 0.5) * wide, y: (i + 0.5) * tall + 4, "text-anchor": "middle", class: "inside", style: `fill:${light ? "#171b20" : "#ffffff"}` }, number(value, 2)));
  }));
  const over = chart.appendChild(svg("rect", { ...area, class: "area" }));
  const read = (event) => {
    const box = over.getBoundingClientRect(), place = (share, n) => Math.min(n - 1, Math.max(0, Math.floor(share * n)));
    const i = place((event.clientY - box.top) / box.height, count), j = place((event.clientX - box.left) / box.width, across);
    tell([`${words(figure.row)} ${rowNames[i]}, ${words(figure.column)} ${columnNames[j]}`,
      `${words(figure.value)}: ${number(panel.cells[i][j])}`], event.clientX, event.clientY);
  };
  over.addEventListener("pointermove", read);
  tapped(over, read);
  over.addEventListener("pointerleave", hush);
  const rowSkip = Math.ceil(12 / tall);
  rowNames.forEach((name, i) => { if (i % rowSkip === 0) chart.append(svg("text", { x: left - 5, y: (i + 0.5) * tall + 4, "text-anchor": "end" }, name)); });
  columnNames.forEach((name, j) => {
    const x = left + (j + 0.5) * wide, y = count * tall + 13;
    if (j % skip === 0) chart.append(svg("text", tilt ? { "text-anchor": "end", transform: `translate(${x + 4} ${y}) rotate(-40)` } : { x, y, "text-anchor": "middle" }, name));
  });
  return chart;
}

async function images(figure, home) {
  const grid = home.appendChild(html("div", { className: "panels images" }));
  for (const panel of figure.panels) {
    const { count, height, width } = panel, across = Math.ceil(Math.sqrt(count)), gap = 1;
    const canvas = html("canvas", { width: across * (width + gap), height: Math.ceil(count / across) * (height + gap) });
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${words(panel.label)}: ${count} images`);
    grid.append(html("div", { className: "panel" }, html("p", { className: "name", innerHTML: panel.label }), canvas));
    const pixels = await inflate(panel.pixels), brush = canvas.getContext("2d");
    for (let i = 0; i < count; i++) {
      const image = brush.createImageData(width, height);
      for (let p = 0; p < width * height; p++) paintPixel(image.data, p, pixels.subarray((i * width * height + p) * 3));
      brush.putImageData(image, (i % across) * (width + gap), Math.floor(i / across) * (height + gap));
    }
  }
}
