"""The figures of the study, described for the report to draw."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from featscope.claims import LEVEL, Claim
from featscope.figures import Bars, Curve, Curves, Figure, Panel
from featscope.studies.base import Runs, last
from featscope.studies.pruning.judge import at, final_ratio
from featscope.studies.summaries import band, over_replicas

if TYPE_CHECKING:
    from featscope.studies.pruning.study import Pruning

INTERVALS = f"Means over replicas with {100 * LEVEL:.3g} % intervals."


def figures(study: "Pruning", runs: Runs, claims: Sequence[Claim]) -> Iterator[Figure]:
    """The figures, in the order of the story."""
    yield _over_time(runs)
    yield _over_ratio(runs)
    yield _one_step(runs)
    yield _too_much(runs)


def _series(run: xr.Dataset, name: str) -> list[Curve]:
    return [band(f"α = {a:g}" if a else "no pruning", at(run[name], a)) for a in run["ratio"].values]


def _over_time(runs: Runs) -> Curves:
    y_label = "F_min / F_maj"
    stationary = _series(runs["stationary"], "energy_ratio")
    straight = band("α = 0.25, straight-through", runs["straight-through"]["energy_ratio"], dashed=True)
    begins = [(500.0, "pruning begins")]
    return Curves(
        "energy-ratio",
        "Energy of rare features over that of common ones",
        f"1 is balance. Left, two neurons hold each feature from the start. {INTERVALS}",
        [
            Panel("Planted start, ranked by norm", "training step", y_label, [*stationary, straight]),
            Panel(
                "Random start, ranked by norm",
                "training step",
                y_label,
                _series(runs["random-start"], "energy_ratio"),
                begins,
            ),
            Panel(
                "Random start, ranked by energy along a neuron",
                "training step",
                y_label,
                _series(runs["random-start-direction"], "energy_ratio"),
                begins,
            ),
        ],
    )


def _over_ratio(runs: Runs) -> Curves:
    named = {
        "stationary": "planted, by norm",
        "random-start": "random, by norm",
        "random-start-direction": "random, by energy along",
    }

    def curves(of: str) -> list[Curve]:
        lines = []
        for arm, label in named.items():
            run = runs[arm]
            values = final_ratio(run) if of == "energy_ratio" else last(run, run[of])
            values = values.sel(ratio=values["ratio"] > 0) if of == "overlap" else values
            mean, low, high = over_replicas(values.transpose("replica", "ratio"))
            lines.append(Curve(label, values["ratio"].values, mean, low, high))
        return lines

    return Curves(
        "over-ratio",
        "At the end of training, over the pruning ratio",
        f"Theorem 3.2 assumes an overlap of 1. {INTERVALS}",
        [
            Panel("Balance", "pruning ratio α", "F_min / F_maj", curves("energy_ratio")),
            Panel("Who is pruned", "pruning ratio α", "share that is minority's", curves("overlap")),
        ],
    )


def _one_step(runs: Runs) -> Bars:
    run = runs["one-step"]
    groups = {
        "whole": "no pruning",
        "one": "one of two pruned",
        "pruned": "both pruned",
        "straight_through": "both, STE",
    }

    def bars(kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        ends = [over_replicas(run[f"growth_{kind}_{name}"]) for name in groups]
        mean, low, high = (np.array([float(e[i]) for e in ends]) for i in range(3))
        return mean, low, high

    return Bars(
        "one-step",
        "What one step does to planted neurons",
        f"Growth of the norm by the data gradient, relative to the norm and to η. {INTERVALS}",
        groups=list(groups.values()),
        series={"minority neurons": bars("minority"), "majority neurons": bars("majority")},
        y_label="-<∇, w_i>/||w_i||²",
    )


def _too_much(runs: Runs) -> Curves:
    curves = _series(runs["too-much"], "largest_energy")
    return Curves(
        "too-much",
        "Prune too much, and weights grow without bound",
        f"The largest energy of any feature. {INTERVALS}",
        [Panel("Planted start", "training step", "largest F_j", curves, log_y=True)],
    )
