"""The figures of the study, described for the report to draw."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from featscope.claims import LEVEL
from featscope.figures import Bars, Curve, Curves, Figure, Panel
from featscope.studies.base import Runs
from featscope.studies.prediction_head.judge import rescued, share
from featscope.studies.summaries import band, over_replicas
from featscope.theory.prediction_head import strong_probability

if TYPE_CHECKING:
    from featscope.studies.prediction_head.study import PredictionHead

INTERVALS = f"Means over replicas with {100 * LEVEL:.3g} % intervals."
OVERLAPS = (((0, 0), "fast, strong"), ((0, 1), "fast, weak"), ((1, 0), "slow, strong"), ((1, 1), "slow, weak"))
EARLIEST = 0.1  # time from which on a path is drawn; nothing moves before
FLOW_ARMS = ("head", "no-head", "tied-head", "no-stop-gradient", "no-normalization", "rare-weak", "both-features")


def figures(study: "PredictionHead", runs: Runs) -> Iterator[Figure]:
    """The figures, in the order of the story."""
    yield _on_batches(runs)
    yield _one_path(runs)
    yield _outcomes(runs)
    yield _over_sizes(runs)
    yield _over_widths(study, runs)


def _on_batches(runs: Runs) -> Curves:
    panels = []
    for arm, title in (("batches", "With the head"), ("batches-no-head", "Without")):
        size = abs(runs[arm]["overlap"].isel(path=0))
        curves = [band(label, size.isel(neuron=j, feature=f)) for (j, f), label in OVERLAPS]
        panels.append(Panel(title, "training step", "|B_jl|, overlap with a feature", curves))
    head = abs(runs["batches"]["head"].isel(path=0))
    noise = runs["batches"]["noise_norm"].isel(path=0)
    curves = [band(f"|{name}|", head.isel(neuron=j)) for j, name in enumerate(("E_12", "E_21"))]
    curves += [band(f"R of the {name} neuron", noise.isel(neuron=j)) for j, name in enumerate(("fast", "slow"))]
    panels.append(Panel("Head and noise", "training step", "entry of the head; squared norm", curves))
    return Curves(
        "batches",
        "Algorithm 1: the slow neuron learns the weak feature, if there is a head",
        "The paper's Figure 7. The slow neuron begins to learn the strong feature, borrows it from the fast one "
        f"through E_21 instead, and learns the weak one; then the head returns to the identity. {INTERVALS}",
        panels,
    )


def _one_path(runs: Runs) -> Curves:
    run = runs["head"]
    kept = run.sizes["path"]
    candidates = rescued(run).isel(start=slice(0, kept)).values
    replica, start = np.unravel_index(int(candidates.argmax()), candidates.shape)
    panels = []
    for arm, title in (("head", "With the head"), ("no-head", "The same start without")):
        path = runs[arm].isel(replica=replica, start=start, path=start)
        time = path["time"].values
        seen = np.isfinite(time) & (time > EARLIEST)
        order = np.argsort(-np.abs(path["overlap"].isel(feature=0).values[np.flatnonzero(np.isfinite(time))[0]]))

        def curve(label: str, values: np.ndarray, t: np.ndarray = time[seen], seen: np.ndarray = seen) -> Curve:
            return Curve(label, t, np.abs(values[seen]))

        overlap = path["overlap"].transpose("step", "neuron", "feature").values
        curves = [curve(label, overlap[:, order[j], f]) for (j, f), label in OVERLAPS]
        if arm == "head":
            curves.append(curve("|E_21|", path["head"].transpose("step", "neuron").values[:, order[1]]))
        curves.append(curve("R of the slow neuron", path["noise_norm"].transpose("step", "neuron").values[:, order[1]]))
        marks = [
            (float(path[f"time_{event}"]), label)
            for event, label in (
                ("strong_learned", "strong"),
                ("substituted", "borrowed"),
                ("weak_learned", "weak"),
                ("returned", "back"),
            )
            if np.isfinite(path[f"time_{event}"])
        ]
        panels.append(Panel(title, "time (1/η)", "size", curves, marks if arm == "head" else [], log_x=True))
    return Curves(
        "phases",
        "The four phases along one trajectory",
        f"Gradient flow of infinite batches, replica {replica}, start {start}: the first that the head rescues.",
        panels,
    )


def _outcomes(runs: Runs) -> Bars:
    given = [runs[arm] for arm in FLOW_ARMS]

    def bars(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        shares = [share(run[name], run["predicted_collapse"]) for run in given]
        mean, low, high = over_replicas(xr.concat(shares, "arm"))
        return mean, low.clip(0, 1), high.clip(0, 1)

    return Bars(
        "outcomes",
        "How networks end that would collapse by the rule",
        "Starts from which both neurons would end on the strong feature without head. Mixed: some neuron has both "
        f"features, or none yet. {INTERVALS}",
        groups=list(FLOW_ARMS),
        series={"different features": bars("diverse"), "both strong": bars("collapsed"), "mixed": bars("mixed")},
        y_label="share of starts",
    )


def _over_sizes(runs: Runs) -> Curves:
    run = runs["sizes"]
    dims = run["input_dim"].values

    def curve(label: str, values: xr.DataArray) -> Curve:
        return Curve(label, dims, *over_replicas(values.transpose("replica", "input_dim")))

    def log_curve(label: str, values: xr.DataArray) -> Curve:
        logs = xr.apply_ufunc(np.log10, values.transpose("replica", "input_dim"))
        mean, low, high = over_replicas(logs)
        return Curve(label, dims, 10**mean, 10**low, 10**high)

    rescue = share(run["diverse"], run["predicted_collapse"])
    weak = run["weak"].values
    times = {
        name: run[f"time_{event}"].where(np.isfinite(run[f"time_{event}"])).sel(weak=2.0).median("start")
        for event, name in (("strong_learned", "T1, strong learned"), ("weak_learned", "T3, weak learned"))
    }
    return Curves(
        "sizes",
        "Over the input dimension",
        "Left: of the starts that would collapse without head, the share that ends with different features. Right: "
        f"medians over the starts in which it happens, α_2 = 2. {INTERVALS}",
        [
            Panel(
                "Rescued",
                "input dimension d",
                "share of starts",
                [curve(f"α_2 = {a:g}", rescue.sel(weak=a)) for a in weak],
                log_x=True,
            ),
            Panel(
                "When",
                "input dimension d",
                "time (1/η)",
                [log_curve(name, t) for name, t in times.items()],
                log_x=True,
                log_y=True,
            ),
        ],
    )


def _over_widths(study: "PredictionHead", runs: Runs) -> Curves:
    values = runs["widths"]["collapsed_up_to"]
    width = 2.0 ** np.arange(values.sizes["doubling"])
    mean, low, high = over_replicas(values.transpose("replica", "doubling"))
    law = strong_probability(study.moments) ** width
    return Curves(
        "widths",
        "Without head, wide networks do not collapse as a whole",
        "Share of starts in which all neurons end on the strong feature. By the law it is the m-th power of one "
        f"neuron's probability, which tends to 1 only with α_1/α_2. {INTERVALS}",
        [
            Panel(
                "All on the strong feature",
                "neurons m",
                "share of starts",
                [
                    Curve("measured", width, mean, low.clip(0, 1), high.clip(0, 1)),
                    Curve("law", width, law, dashed=True),
                ],
                log_x=True,
            )
        ],
    )
