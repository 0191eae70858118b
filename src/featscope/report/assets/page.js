"use strict";
(() => {
  const each = (selector, act, root = document) => root.querySelectorAll(selector).forEach(act);

  // Claims: a button opens the row below it.
  const expand = document.getElementById("expand");
  const openers = [...document.querySelectorAll(".open")];
  const isOpen = (button) => button.getAttribute("aria-expanded") === "true";
  const setOpen = (button, open) => {
    button.setAttribute("aria-expanded", open);
    document.getElementById(button.getAttribute("aria-controls")).hidden = !open;
    const all = openers.every(isOpen);
    expand.setAttribute("aria-expanded", all);
    expand.textContent = all ? "Hide all details" : "Show all details";
  };
  openers.forEach((button) => button.addEventListener("click", () => setOpen(button, !isOpen(button))));
  expand?.addEventListener("click", () => {
    const open = !openers.every(isOpen);
    openers.forEach((button) => setOpen(button, open));
  });

  // Figures.
  const specification = (plot) => JSON.parse(plot.parentNode.querySelector(".specification").textContent);
  const settings = { responsive: true, displayModeBar: false, typesetMath: false };
  const draw = (plot, { data, layout }) => Plotly.newPlot(plot, data, layout, settings);

  const bytes = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const MISSING = 255;
  const matrix = (panel, frame) => {
    const [rows, columns] = panel.shape;
    const [low, high] = panel.ends;
    return Array.from({ length: rows }, (_, row) => {
      const start = (frame * rows + row) * columns;
      return Array.from(panel.values.subarray(start, start + columns), (byte) =>
        byte === MISSING ? null : low + (byte / 254) * (high - low));
    });
  };

  const drawMovie = async (figure) => {
    const steps = JSON.parse(figure.dataset.steps);
    const slider = figure.querySelector("input");
    const output = figure.querySelector("output");
    const play = figure.querySelector(".play");
    const panels = [...figure.querySelectorAll(".plot")].map((plot) => {
      const { figure, frames, shape, ends } = specification(plot);
      return { plot, figure, shape, ends, values: bytes(frames) };
    });
    const label = (frame) => {
      output.textContent = `step ${steps[frame]}`;
      slider.setAttribute("aria-valuetext", output.textContent);
    };
    const show = (frame) => {
      label(frame);
      return Promise.all(panels.map((panel) => Plotly.restyle(panel.plot, { z: [matrix(panel, frame)] })));
    };
    for (const panel of panels) {
      panel.figure.data[0].z = matrix(panel, Number(slider.value));
      await draw(panel.plot, panel.figure);
    }
    label(Number(slider.value));

    let playing = false;
    const setPlaying = (on) => {
      playing = on;
      play.setAttribute("aria-pressed", on);
      play.firstElementChild.textContent = on ? "❚❚" : "▶";
      play.querySelector(".word").textContent = on ? "Pause" : "Play";
    };
    const advance = async () => {
      const started = performance.now();
      await show(Number(slider.value));
      const wait = Math.max(0, 160 - (performance.now() - started));
      setTimeout(() => {
        if (!playing) return;
        if (slider.value === slider.max) return setPlaying(false);
        slider.stepUp();
        advance();
      }, wait);
    };
    slider.addEventListener("input", () => { setPlaying(false); show(Number(slider.value)); });
    play.addEventListener("click", () => {
      setPlaying(!playing);
      if (!playing) return;
      if (slider.value === slider.max) slider.value = 0;
      advance();
    });
  };

  const drawFigure = async (figure) => {
    if (figure.dataset.steps) return drawMovie(figure);
    for (const plot of figure.querySelectorAll(".plot")) await draw(plot, specification(plot).figure);
    each("[data-series]", (button) => button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", on);
      each(".plot", (plot) => {
        const chosen = plot.data.flatMap((trace, i) => (trace.legendgroup === button.dataset.series ? [i] : []));
        if (chosen.length) Plotly.restyle(plot, { visible: on }, chosen);
      }, figure);
    }), figure);
  };

  // One figure after the other, so that the page answers in between.
  (async () => {
    for (const figure of document.querySelectorAll(".figure")) {
      await drawFigure(figure);
      await new Promise((next) => setTimeout(next));
    }
    document.documentElement.dataset.drawn = "all";
  })();

  const fit = () => each(".plot", (plot) => plot.data && Plotly.Plots.resize(plot));
  window.addEventListener("beforeprint", fit);
  window.addEventListener("afterprint", fit);
})();
