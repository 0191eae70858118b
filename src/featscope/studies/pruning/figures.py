"""The figures of the study, described for the report to draw."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from featscope.claims import LEVEL, Claim
from featscope.figures import Bars, Curve, Curves, Figure, Panel
from featscope.studies.base import Runs, last
from featscope.studies.pruning.judge import at
from featscope.studies.summaries import band, over_replicas

if TYPE_CHECKING:
    from featscope.studies.pruning.study import Pruning

INTERVALS = f"Means over replicas with {100 * LEVEL:.3g} % intervals."


def figures(study: "Pruning", runs: Runs, claims: Sequence[Claim]) -> Iterator[Figure]:
    """The figures, in the order of the story."""
    yield _over_time(study, runs)
    yield _over_ratio(runs)
    yield _one_step(runs)
    yield _too_much(runs)


def _label(ratio: float) -> str:
    return f"α = {ratio:g}" if ratio else "no pruning"


def _series(run: xr.Dataset, name: str) -> list[Curve]:
    return [band(_label(a), at(run[name], a)) for a in run["ratio"].values]


def _over_time(study: "Pruning", runs: Runs) -> Curves:
    x_label, y_label, name = "training step", "F_min / F_maj", "energy_ratio"
    planted, by_norm, by_direction = (
        _series(runs[arm], name) for arm in ("stationary", "random-start", "random-start-direction")
    )
    other = band(f"{_label(study.pruning.ratio)}, straight-through", runs["straight-through"][name], dashed=True)
    random = next(arm.config for arm in study.arms() if arm.name == "random-start")
    begins = [(random.pruning.start, "pruning begins")]
    return Curves(
        "energy-ratio",
        "Energy of rare features over that of common ones",
        "1 is balance. Left, two neurons hold each feature from the start. Right, the same weights and data as in the "
        "middle, but other neurons are hidden from the logits. The dip there is of the thresholds, which begin at step "
        f"{random.bias.begins}. {INTERVALS}",
        [
            Panel("Planted, by norm", x_label, y_label, [*planted, other]),
            Panel("Random, by norm", x_label, y_label, by_norm, begins),
            Panel("Random, by direction", x_label, y_label, [by_norm[0], *by_direction], begins),
        ],
    )


def _over_ratio(runs: Runs) -> Curves:
    unpruned = runs["random-start"].sel(ratio=[0.0])
    arms = {
        "planted, by norm": runs["stationary"],
        "random, by norm": runs["random-start"],
        "random, by direction": xr.concat([unpruned, runs["random-start-direction"]], "ratio", data_vars="minimal"),
    }

    def curves(name: str) -> list[Curve]:
        lines = []
        for label, run in arms.items():
            values = last(run, run[name]).transpose("replica", "ratio")
            values = values.sel(ratio=values["ratio"] > 0) if name == "overlap" else values
            mean, low, high = over_replicas(values)
            if name == "overlap":
                low, high = low.clip(0, 1), high.clip(0, 1)  # a share
            lines.append(Curve(label, values["ratio"].values, mean, low, high))
        return lines

    x_label = "pruning ratio α"
    return Curves(
        "over-ratio",
        "At the end of training, over the pruning ratio",
        "Theorem 3.2 assumes that all pruned neurons belong to rare features; once these have caught up, others are "
        f"pruned too. By direction whole features are hidden, and too many of them grow without bound. {INTERVALS}",
        [
            Panel("Balance", x_label, "F_min / F_maj", curves("energy_ratio")),
            Panel("Common features", x_label, "F_maj", curves("majority_energy"), log_y=True),
            Panel("Who is pruned", x_label, "share of rare features", curves("overlap")),
        ],
    )


def _one_step(runs: Runs) -> Bars:
    run = runs["one-step"]
    groups = {
        "whole": "no pruning",
        "one": "one of two pruned",
        "pruned": "both pruned",
        "straight_through": "both, straight-through",
    }

    def bars(kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return over_replicas(xr.concat([run[f"growth_{kind}_{name}"] for name in groups], "group"))

    return Bars(
        "one-step",
        "What one step does to planted neurons",
        "Growth of the norm by the gradient of the data, -<∇, w_i>/||w_i||², before decay: it is relative to the norm "
        f"and to the step size. The straight-through gradient of a pruned neuron is 0. {INTERVALS}",
        groups=list(groups.values()),
        series={"minority neurons": bars("minority"), "majority neurons": bars("majority")},
        y_label="growth over η",
    )


def _too_much(runs: Runs) -> Curves:
    run = runs["too-much"]
    curves = _series(run.assign(size=np.log10(run["largest_energy"])), "size")
    return Curves(
        "too-much",
        "Prune too much, and weights grow without bound",
        "The largest energy of any feature, from a planted start. Beyond one neuron of each feature some features are "
        "hidden altogether. A curve ends where the first replica has no finite numbers any more. "
        f"{INTERVALS}",
        [Panel("Planted start", "training step", "log10 of the largest F_j", curves)],
    )
