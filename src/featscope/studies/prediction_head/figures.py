"""The figures of the study, described for the report to draw."""

from collections.abc import Mapping

import numpy as np
import xarray as xr

from featscope.claims import SHARE
from featscope.figures import Bars, Curve, Curves, Panel
from featscope.studies.prediction_head.probes import diverse, rescued, share
from featscope.studies.summaries import bars, chart, curve, curves, over_replicas

Runs = Mapping[str, xr.Dataset]
OVERLAPS = (((0, 0), "fast, strong"), ((0, 1), "fast, weak"), ((1, 0), "slow, strong"), ((1, 1), "slow, weak"))
MARKS = {"strong_learned": "strong", "substituted": "borrowed", "weak_learned": "weak", "returned": "back"}
EARLIEST = 0.1  # time from which on a path is drawn; nothing moves before
FLOW_ARMS = ("head", "no-head", "tied-head", "no-stop-gradient", "no-normalization", "rare-weak", "both-features")


def on_batches(runs: Runs) -> Curves:
    """Overlaps, head and noise along Algorithm 1."""
    panels = []
    for arm, title in (("batches", "With the head"), ("batches-no-head", "Without")):
        size = abs(runs[arm].overlap.isel(path=0))
        lines = [curve(size.isel(neuron=j, feature=f), label) for (j, f), label in OVERLAPS]
        panels.append(Panel(title, "training step", "|B_jl|, overlap with a feature", lines))
    run = runs["batches"].isel(path=0)
    lines = [curve(abs(run["head"]).isel(neuron=j), f"|{name}|") for j, name in enumerate(("E_12", "E_21"))]
    noise = [curve(run.noise_norm.isel(neuron=j), f"R of the {name} neuron") for j, name in enumerate(("fast", "slow"))]
    return chart(
        "batches",
        "Algorithm 1: the slow neuron learns the weak feature, if there is a head",
        "The paper's Figure 7. The slow neuron begins to learn the strong feature, borrows it from the fast one "
        "through E_21 instead, and learns the weak one; then the head returns to the identity.",
        *panels,
        Panel("Head and noise", "training step", "entry of the head; squared norm", [*lines, *noise]),
        claims=("sgd-head-rescues", "sgd-follows-ode"),
    )


def one_path(runs: Runs) -> Curves:
    """The first trajectory that the head rescues, with and without the head."""
    candidates = rescued(runs["head"]).isel(start=slice(0, runs["head"].sizes["path"])).values
    replica, start = np.unravel_index(int(candidates.argmax()), candidates.shape)
    panels = []
    for arm, title in (("head", "With the head"), ("no-head", "The same start without")):
        path = runs[arm].isel(replica=replica, start=start, path=start)
        known = path.isel(step=np.isfinite(path["time"].values))
        slow, fast = np.argsort(abs(known.overlap.isel(step=0, feature=0).values))
        seen = known.isel(step=known["time"].values > EARLIEST)
        sizes = {label: seen.overlap.isel(neuron=(fast, slow)[j], feature=feature) for (j, feature), label in OVERLAPS}
        if arm == "head":
            sizes["|E_21|"] = seen["head"].isel(neuron=slow)
        sizes["R of the slow neuron"] = seen.noise_norm.isel(neuron=slow)
        lines = [Curve(label, seen["time"].values, abs(size.values)) for label, size in sizes.items()]
        passed = [(float(path[f"time_{event}"]), label) for event, label in MARKS.items() if arm == "head"]
        marks = [(time, label) for time, label in passed if np.isfinite(time)]
        panels.append(Panel(title, "time (1/η)", "size", lines, marks, log_x=True))
    return Curves(
        "phases",
        "The four phases along one trajectory",
        f"Gradient flow of infinite batches, replica {replica}, start {start}: the first that the head rescues.",
        panels,
        claims=("four-phases", "substitution", "head-has-the-sign", "rise-and-fall"),
    )


def outcomes(runs: Runs) -> Bars:
    """How starts end that would collapse without head, by arm."""
    ends = {"diverse": "different features", "collapsed": "both strong", "mixed": "mixed"}
    shares = {
        label: xr.concat([share(runs[arm][end], runs[arm].predicted_collapse) for arm in FLOW_ARMS], "arm")
        for end, label in ends.items()
    }
    return bars(
        "outcomes",
        "How networks end that would collapse by the rule",
        "Starts from which both neurons would end on the strong feature without head. Mixed: some neuron has both "
        "features, or none yet.",
        FLOW_ARMS,
        shares,
        "share of starts",
        within=SHARE,
        claims=("head-rescues", "collapse-without-head", "no-stop-gradient-collapses", "asymmetry-rescues"),
    )


def over_sizes(run: xr.Dataset) -> Curves:
    """Who is rescued, and when, over the input dimension."""
    shares = curves(diverse(run), "weak", lambda weak: f"α_2 = {weak:g}", "input_dim")
    axis, times = "input dimension d", []
    for event, label in (("strong_learned", "T1, strong learned"), ("weak_learned", "T3, weak learned")):
        time = run[f"time_{event}"].sel(weak=2.0)
        logs = xr.apply_ufunc(np.log10, time.where(np.isfinite(time)).median("start"))
        mean, low, high = (10**end for end in over_replicas(logs))
        times.append(Curve(label, run["input_dim"].values, mean, low, high))
    return chart(
        "sizes",
        "Over the input dimension",
        "Left: of the starts that would collapse without head, the share that ends with different features. Right: "
        "medians over the starts in which it happens, α_2 = 2.",
        Panel("Rescued", axis, "share of starts", shares, log_x=True),
        Panel("When", axis, "time (1/η)", times, log_x=True, log_y=True),
        claims=("rescue-grows-with-dimension", "phase1-time", "phase1-scaling"),
    )


def over_widths(run: xr.Dataset, strong: float) -> Curves:
    """Whole networks on the strong feature, over their width; by the law one neuron is with probability ``strong``."""
    width = 2.0 ** np.arange(run.sizes["doubling"])
    measured = curve(run.collapsed_up_to, "measured", "doubling", x=width, within=SHARE)
    lines = [measured, Curve("law", width, strong**width, dashed=True)]
    return chart(
        "widths",
        "Without head, wide networks do not collapse as a whole",
        "Share of starts in which all neurons end on the strong feature. By the law it is the m-th power of one "
        "neuron's probability, which tends to 1 only with α_1/α_2.",
        Panel("All on the strong feature", "neurons m", "share of starts", lines, log_x=True),
        claims=("any-width-collapses", "width-law"),
    )
