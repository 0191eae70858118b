"""The figures of the study, described for the report to draw."""

from dataclasses import replace

import numpy as np
import xarray as xr

from featscope.claims import POSITIVE, SHARE
from featscope.figures import Bars, Curve, Curves, Panel
from featscope.studies import Runs
from featscope.studies.prediction_head.probes import diverse, median, rescued, share
from featscope.studies.summaries import bars, chart, curve, curves

OVERLAPS = (((0, 0), "fast, strong"), ((0, 1), "fast, weak"), ((1, 0), "slow, strong"), ((1, 1), "slow, weak"))
MARKS = {"strong_learned": "strong", "substituted": "borrowed", "weak_learned": "weak", "returned": "back"}
EARLIEST = 0.1  # time from which on a path is drawn; nothing moves before
FLOW_ARMS = ("head", "no-head", "tied-head", "no-stop-gradient", "no-normalization", "rare-weak", "both-features")


def on_batches(runs: Runs) -> Curves:
    """Overlaps, head and noise along Algorithm 1."""
    panels = []
    for arm, title in (("batches", "With the head"), ("batches-no-head", "Without")):
        size = abs(runs[arm].overlap.isel(path=0)).astype(float)
        lines = [curve(size.isel(neuron=j, feature=f), label, within=POSITIVE) for (j, f), label in OVERLAPS]
        panels.append(Panel(title, "training step", "overlap with a feature (|B_jl|)", lines))
    run = runs["batches"].isel(path=0).astype(float)
    pairs = enumerate((("fast", "|E_12|"), ("slow", "|E_21|")))
    lines = []
    for j, (name, entry) in pairs:
        lines.append(curve(abs(run["head"]).isel(neuron=j), f"borrowed by the {name} neuron, {entry}", within=POSITIVE))
        lines.append(curve(run.noise_norm.isel(neuron=j), f"noise of the {name} neuron, R", within=POSITIVE))
    return chart(
        "batches",
        "Algorithm 1: does the slow neuron learn the weak feature, with a head and without?",
        "The paper's Figure 7. There the slow neuron begins to learn the strong feature, borrows it from the fast one "
        "through E_21 instead, and learns the weak one; then the head returns to the identity.",
        *panels,
        Panel("Head and noise", "training step", "entry of the head; squared norm", lines),
        claims=("sgd-head-rescues", "sgd-follows-ode"),
    )


def one_path(runs: Runs) -> Curves:
    """The first kept trajectory that the head rescues, or the very first, with and without the head."""
    candidates = rescued(runs["head"]).isel(start=slice(0, runs["head"].sizes["path"])).values > 0
    replica, start = np.unravel_index(int(candidates.argmax()), candidates.shape)
    chosen = "the first that the head rescues" if candidates.any() else "the head rescues none of those kept"
    panels = []
    for arm, title in (("head", "With the head"), ("no-head", "The same start without")):
        path = runs[arm].isel(replica=replica, start=start, path=start)
        slow, fast = np.argsort(abs(path.overlap.isel(step=0, feature=0).values))
        seen = path.isel(step=path["time"].values > EARLIEST)  # NaN once its shard has stopped
        sizes = {label: seen.overlap.isel(neuron=(fast, slow)[j], feature=feature) for (j, feature), label in OVERLAPS}
        if arm == "head":
            sizes["borrowed, |E_21|"] = seen["head"].isel(neuron=slow)
        sizes["noise of the slow neuron, R"] = seen.noise_norm.isel(neuron=slow)
        lines = [Curve(label, seen["time"].values, abs(size.values)) for label, size in sizes.items()]
        passed = [(float(path[f"time_{event}"]), label) for event, label in MARKS.items() if arm == "head"]
        marks = [(time, label) for time, label in passed if np.isfinite(time)]
        panels.append(Panel(title, "time (1/η)", "size", lines, marks, log_x=True))
    return Curves(
        "phases",
        "One trajectory: do the four phases come in turn?",
        f"Gradient flow of infinite batches, replica {replica}, start {start}: {chosen}.",
        panels,
        claims=("four-phases", "substitution", "head-has-the-sign", "rise-and-fall"),
    )


def outcomes(runs: Runs) -> Bars:
    """How starts end that would collapse without head, by arm; runs are called by the labels of their arms."""
    ends = {"diverse": "different features", "collapsed": "both strong", "mixed": "mixed"}
    shares = {
        label: xr.concat([share(run[end], run.predicted_collapse) for run in runs.values()], "arm")
        for end, label in ends.items()
    }
    return bars(
        "outcomes",
        "How networks end that would learn one feature without a head",
        "Starts from which, by the rule, both neurons end on the strong feature without head; three bars add up to 1. "
        "Mixed: some neuron has both features, or none yet.",
        list(runs),
        shares,
        "share of starts",
        within=SHARE,
        claims=("head-rescues", "collapse-without-head", "no-stop-gradient-collapses", "asymmetry-rescues"),
    )


def over_sizes(run: xr.Dataset) -> Curves:
    """Who is rescued, and when, over the input dimension."""
    shares = curves(diverse(run), "weak", lambda weak: f"weak feature α_2 = {weak:g}", "input_dim", within=SHARE)
    axis, times = "input dimension (d)", []
    for event, label in (("strong_learned", "T1, strong learned"), ("weak_learned", "T3, weak learned")):
        time = run[f"time_{event}"].isel(weak=-1)
        logs = curve(xr.apply_ufunc(np.log10, median(time, time < np.inf)), label, "input_dim")
        drawn = {part: getattr(logs, part) for part in ("y", "low", "high", "samples")}
        times.append(replace(logs, **{part: 10**values for part, values in drawn.items() if values is not None}))
    return chart(
        "sizes",
        "Over the input dimension",
        "Left: of the starts that would collapse without head, the share that ends with different features. Right: "
        f"medians over the starts in which it happens, α_2 = {float(run['weak'][-1]):g}.",
        Panel("Rescued", axis, "share of starts", shares, log_x=True),
        Panel("When", axis, "time (1/η)", times, log_x=True, log_y=True),
        claims=("rescue-grows-with-dimension", "phase1-time", "phase1-scaling"),
    )


def over_widths(run: xr.Dataset, strong: float) -> Curves:
    """Whole networks on the strong feature, over their width; by the law one neuron is with probability ``strong``."""
    width = 2.0 ** np.arange(run.sizes["doubling"])
    measured = curve(run.all_collapsed, "measured", "doubling", x=width, within=SHARE)
    lines = [measured, Curve("law", width, strong**width, dashed=True)]
    return chart(
        "widths",
        "Without head, do wide networks collapse as a whole?",
        "Share of networks all of whose neurons end on the strong feature. By the law it is the m-th power of one "
        "neuron's probability, which tends to 1 only with α_1/α_2.",
        Panel("All on the strong feature", "neurons (m)", "share of networks", lines, log_x=True),
        claims=("any-width-collapses", "width-law", "collapse-over-widths"),
    )
