// What all figures share: the data, one state, words and numbers, and how elements are made.
"use strict";
const { replicas, figures } = JSON.parse(document.getElementById("data").textContent);

// The step, the replica (null: all) and the picked neuron are the same in all figures; who shows one listens.
const state = { step: null, replica: null, pick: null };
const listeners = [];
const listen = (listener) => listeners.push(listener);
const changed = (what) => listeners.forEach((listener) => listener(what));

function html(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function svg(tag, { style, ...attributes } = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (style) made.style.cssText = style;  // an attribute would be against the page's policy
  made.append(...children);
  return made;
}

// Labels come as HTML that the page's maker has escaped; drawings take their plain text.
const words = (label) => html("span", { innerHTML: label }).textContent;

// What the replica that is picked measured; of series that have none of it, such as shares of all replicas, nothing.
const alone = (series) => state.replica === null ? null : series.samples?.[state.replica] ?? null;
// Whether it has too few replicas for an interval; what is of all replicas has one sample, and as many as the page. An
// interval of what has no samples is over something else.
const few = (series) => Boolean(series.samples) && (series.samples.length > 1 ? series.samples.length : replicas) < 4;
const finite = (values) => values.filter((value) => value !== null && Number.isFinite(value));
const superscript = (whole) => String(whole).replace(/[-0-9]/g, (c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]);

function number(value, digits = 3) {
  if (value === null || !Number.isFinite(value)) return "none";
  if (value === 0) return "0";
  const size = Math.abs(value), plain = size >= 10 ** digits ? Math.round(value) : +value.toPrecision(digits);
  return (size >= 1e5 || size < 1e-3 ? power(value, digits) : String(plain)).replace("-", "−");
}

// A place along an axis: whole numbers, such as steps, to the last digit.
const exact = (value) => Number.isInteger(value) && Math.abs(value) < 1e12 ? String(value).replace("-", "−") : number(value, 6);

function power(value, digits = 3) {
  const exponent = Math.floor(Math.log10(Math.abs(value)) + 1e-9);
  const mantissa = +(value / 10 ** exponent).toPrecision(digits);
  return `${mantissa === 1 ? "" : `${mantissa}×`}10${superscript(exponent)}`;
}

// Draws at the width of ``node``, and again whenever that changes; returns how to draw once more.
function responsive(node, draw) {
  let last = 0;
  new ResizeObserver(([entry]) => requestAnimationFrame(() => {
    const width = Math.floor(entry.contentRect.width);
    if (width && width !== last) draw((last = width));
  })).observe(node);
  return () => last && draw(last);
}

async function inflate(packed) {
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// A few lines beside the pointer, or beside what the keyboard has reached.
const tip = document.body.appendChild(html("div", { className: "tip", role: "status", hidden: true }));
function tell(lines, x, y) {
  tip.replaceChildren(...lines.map((line, i) => html(i ? "p" : "b", { textContent: line })));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - width - 8)) + scrollX}px`;
  tip.style.top = `${Math.max(8, y + 14 + height > innerHeight ? y - height - 10 : y + 14) + scrollY}px`;
}
const hush = () => { tip.hidden = true; };
addEventListener("pointerdown", (event) => { if (event.pointerType !== "mouse") hush(); }, true);  // a finger elsewhere

// A finger that is lifted without having moved asks for what a pointer that hovers is told.
function tapped(node, read) {
  let down = null;
  node.addEventListener("pointerdown", (event) => { down = [event.clientX, event.clientY]; });
  node.addEventListener("pointerup", (event) => {
    const still = down && Math.hypot(event.clientX - down[0], event.clientY - down[1]) < 10;
    if (still && event.pointerType !== "mouse") setTimeout(() => read(event));  // after the leaving that hides it
  });
}

const dark = () => document.documentElement.dataset.theme
  ? document.documentElement.dataset.theme === "dark" && !matchMedia("print").matches
  : matchMedia("(prefers-color-scheme: dark)").matches && !matchMedia("print").matches;

// Colours of ``levels`` values from low to high; around zero they go both ways.
function ramp(levels, aroundZero = false) {
  const night = ["#14171b", "#173750", "#1f6ea8", "#63b5ea", "#eaf6ff"];
  const day = ["#ffffff", "#cfe2f0", "#6fabd6", "#1b67a8", "#062a52"];
  const bothNight = ["#f6b48a", "#a3552a", "#14171b", "#1f6ea8", "#9fd2f7"];
  const both = ["#7f3108", "#e29a6c", "#ffffff", "#86b9dc", "#06365f"];
  const stops = (aroundZero ? (dark() ? bothNight : both) : dark() ? night : day)
    .map((colour) => [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16)));
  return Array.from({ length: levels }, (_, i) => {
    const at = (i / Math.max(1, levels - 1)) * (stops.length - 1), k = Math.min(stops.length - 2, Math.floor(at));
    return stops[k].map((part, c) => Math.round(part + (at - k) * (stops[k + 1][c] - part)));
  });
}
const missing = () => dark() ? [49, 55, 63] : [201, 205, 211];
function paintPixel(data, place, [red, green, blue]) {
  const at = 4 * place;
  data[at] = red;
  data[at + 1] = green;
  data[at + 2] = blue;
  data[at + 3] = 255;
}
const gradient = (colours) => `linear-gradient(to right, ${colours.map((c) => `rgb(${c})`).join()})`;

// Names with their looks; a click hides one in all panels, or shows it again. ``hidden`` holds the names.
function legend(home, entries, hidden, redraw) {
  home.append(html("p", { className: entries.length > 24 ? "legend many" : "legend" }, ...entries.map(([label, look]) => {
    const button = html("button", { type: "button", title: "Hide or show" }, look, html("span", { innerHTML: label }));
    button.setAttribute("aria-pressed", true);
    button.addEventListener("click", () => {
      hidden.has(label) ? hidden.delete(label) : hidden.add(label);
      button.setAttribute("aria-pressed", !hidden.has(label));
      redraw();
    });
    return button;
  })));
}
const swatch = (colour, dashes, width = 2.4) => svg("svg", { width: 24, height: 10, "aria-hidden": true },
  svg("path", { d: "M0,5h24", style: `stroke:${colour};stroke-width:${width}`, "stroke-dasharray": dashes }));

// A name keeps its colour on the whole page where no other of the same figure has it; beyond the last colour, lines
// are told apart by dots as well, and bars by gaps.
const TONES = 7, toneOf = new Map();
const tone = (index) => `var(--s${index % TONES})`;
const rounds = (place) => Math.max(0, Math.floor(place / TONES));  // how often colours have started again
const dashesOf = (place) => rounds(place) ? `9 3${" 2 3".repeat(rounds(place))}` : "none";
function tones(labels) {
  const used = new Set(), found = new Map();
  const look = (place) => labels.length > TONES ? place : place % TONES;  // a colour comes twice only where it must
  for (const label of labels) if (toneOf.has(label) && !used.has(look(toneOf.get(label)))) {
    used.add(look(toneOf.get(label)));
    found.set(label, toneOf.get(label));
  }
  let next = 0;
  for (const label of labels) if (!found.has(label)) {
    while (used.has(look(next))) next++;
    used.add(look(next));
    found.set(label, next);
    if (!toneOf.has(label)) toneOf.set(label, next);
  }
  return found;
}
