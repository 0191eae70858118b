// Follows a run: what the server says of it, and the report in a frame, which is replaced when there is a newer one.
"use strict";
const byId = (id) => document.getElementById(id);
const WORDS = { running: "Training", paused: "Paused", judging: "Judging the claims", ending: "Ending", finished: "Finished",
  "not running": "Not running" };
const plural = (n, one) => `${n} ${one}${n === 1 ? "" : "s"}`;
let source = null, shown = "", madeAt = 0, coming = null, ended = false;

function html(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function duration(seconds) {
  if (seconds < 90) return plural(Math.max(1, Math.round(seconds)), "second");
  if (seconds < 5400) return plural(Math.round(seconds / 60), "minute");
  return plural(Math.round(seconds / 360) / 10, "hour");
}

function memory([used, free, total]) {
  const gib = (bytes) => (bytes / 2 ** 30).toFixed(1);
  return `${gib(used)} GiB of memory used, ${gib(free)} of ${gib(total)} free`;
}

// A training of one's own does not say how many steps it will take (0), and takes no wishes.
const kind = (arm) => !arm.steps ? "running" : arm.done >= arm.steps - 0.5 ? "done" : arm.done > 0 || arm.status ? "running" : "to-come";

function row(arm) {
  const is = kind(arm), of = Math.max(1, arm.steps);
  const step = (arm.steps ? Math.round((arm.done / of) * arm.whole) : arm.done).toLocaleString("en");
  const numbers = !arm.steps ? `step ${step} at the last look` : is === "done" ? "done" : is === "running" ? `step ${step} of ${arm.whole.toLocaleString("en")}` : "to come";
  const bar = html("progress", arm.steps ? { max: of, value: arm.done } : {});
  bar.setAttribute("aria-label", arm.label);
  return html("li", { className: is }, html("span", { textContent: `${arm.place}. ${arm.label}` }),
    html("span", { className: "numbers", textContent: numbers }), bar,
    html("span", { className: "telling", textContent: is === "running" ? arm.status : "" }));
}

// Many arms would push the picture off the screen: a strip has all, and in words stand those that are trained now.
const FEW = 4;

function showArms(arms) {
  const many = arms.length > FEW, count = (is) => arms.filter((arm) => kind(arm) === is).length;
  byId("arms").replaceChildren(...arms.filter((arm) => !many || kind(arm) === "running").map(row));
  byId("strip").hidden = byId("all-arms").hidden = !many;
  if (!many) return;
  byId("strip").replaceChildren(...arms.map((arm) => {
    const part = html("span", { className: kind(arm), title: `${arm.place}. ${arm.label}` });
    part.style.setProperty("--done", arm.steps ? Math.min(1, arm.done / arm.steps) : 0);
    return part;
  }));
  const [summary, all] = byId("all-arms").children;
  summary.textContent = `All ${arms.length} arms: ${count("done")} done, ${count("to-come")} to come`;
  all.replaceChildren(...arms.map(row));
}

function show(seen) {
  if (seen.age !== null) madeAt = Date.now() - 1000 * seen.age;  // by the server's clock: the report may be older than this page
  const arms = seen.arms, now = arms.filter((arm) => kind(arm) === "running").map((arm) => arm.place);
  const left = seen.seconds_left === null ? "" : `, about ${duration(seen.seconds_left)} left`;
  const place = seen.state === "running" && now.length ? ` arm ${now.join(" and ")} of ${arms.length}` : "";
  byId("state").textContent = `${WORDS[seen.state] ?? seen.state}${place}${seen.state === "running" ? left : ""}`;
  document.title = `${WORDS[seen.state]}${place}: ${document.title.split(": ").at(-1)}`;
  const hints = { "not running": "It was interrupted or killed, or has not begun. What was saved is below; featscope run … --resume goes on, and this page follows.",
    judging: "All steps are done.", paused: "Training waits between two steps." };
  const age = shown && seen.state === "running" ? `what is below was drawn ${duration((Date.now() - madeAt) / 1000)} ago` : "";
  const facts = [hints[seen.state], seen.memory.length ? memory(seen.memory) : "", age];
  byId("facts").textContent = facts.filter(Boolean).join(" · ");
  showArms(arms);
  const alive = seen.state === "running" || seen.state === "paused";
  Object.assign(byId("pause"), { hidden: !(alive && seen.can_pause), disabled: false, textContent: seen.state === "paused" ? "Go on" : "Pause" });
  Object.assign(byId("stop"), { hidden: !alive || arms.some((arm) => !arm.steps), disabled: false });
  byId("events").hidden = !seen.events.length;
  byId("events").lastElementChild.replaceChildren(...seen.events.toReversed().map(([at, text]) =>
    html("li", { textContent: `${new Date(1000 * at).toLocaleTimeString()} ${text}` })));
  refresh(seen);
}

// A newer report is drawn out of sight, and takes the place of the one before once it is drawn.
function refresh({ version, state }) {
  if (version === shown || coming) return;
  const frame = coming = html("iframe", { className: "coming", title: "The report so far", src: "report" });
  frame.addEventListener("load", () => drawn(frame, version, state, Date.now() + 10000));
  byId("report").append(frame);
}

function drawn(frame, version, state, until) {
  const inside = frame.contentDocument;
  if (!inside?.body) return failed(frame);
  inside.documentElement.classList.add("inside");
  if (inside.getElementById("data") && inside.documentElement.dataset.drawn !== "all" && Date.now() < until) {
    setTimeout(() => drawn(frame, version, state, until), 100);
    return;
  }
  const before = byId("report").querySelector("iframe:not(.coming)");
  if (before) keep(before.contentDocument, inside);
  fit(frame);
  frame.className = "";
  before?.remove();
  new frame.contentWindow.ResizeObserver(() => fit(frame)).observe(inside.body);
  [shown, coming] = [version, null];
  if (state === "finished" && version.startsWith("finished") && inside.getElementById("data")) finish();
}

function failed(frame) {
  frame.remove();
  coming = null;
}

function fit(frame) {
  const height = frame.contentDocument?.body?.scrollHeight;
  if (height && frame.style.height !== `${height}px`) frame.style.height = `${height}px`;
}

// What the reader has opened and picked stays so.
function keep(before, after) {
  const picked = before?.getElementById("replica")?.value, picker = after.getElementById("replica");
  if (picked && picker) {
    picker.value = picked;
    picker.dispatchEvent(new Event("change"));
  }
  const open = new Set([...(before?.querySelectorAll("details[open] > summary > b") ?? [])].map((b) => b.textContent));
  for (const title of after.querySelectorAll("details > summary > b")) if (open.has(title.textContent)) title.closest("details").open = true;
}

function finish() {
  ended = true;
  source.close();
}

function trouble(text) {
  byId("trouble").textContent = text;
  byId("trouble").hidden = !text;
}

// The stream ends with the server; a server that is begun anew has the same address.
function follow() {
  source = new EventSource("events");
  source.addEventListener("message", (event) => { trouble(""); show(JSON.parse(event.data)); });
  source.addEventListener("error", () => {
    source.close();
    if (ended) return;
    trouble("The server does not answer: it has ended with its run, or was killed. This page waits for the next one: featscope watch DIR.");
    byId("pause").hidden = byId("stop").hidden = true;
    setTimeout(follow, 1000);
  });
}

async function ask(wish, button) {
  button.disabled = true;
  try {
    const answer = await fetch("ask", { method: "POST", body: wish });
    if (!answer.ok) trouble(await answer.text());
  } catch { trouble("The server does not answer."); }
}
byId("pause").addEventListener("click", ({ target }) => ask(target.textContent === "Pause" ? "pause" : "go on", target));
byId("stop").addEventListener("click", ({ target }) => ask("stop", target));
byId("theme").addEventListener("click", () => {
  const now = document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const theme = now === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("featscope-theme", theme); } catch { /* no storage */ }
  const inside = byId("report").querySelector("iframe:not(.coming)")?.contentDocument;
  if (inside && (inside.documentElement.dataset.theme || "") !== theme) inside.getElementById("theme")?.click();
});
follow();
