"""The figures of the study, described for the report to draw."""

from collections.abc import Mapping

import numpy as np
import xarray as xr

from featscope.figures import Bars, Curve, Curves, Panel
from featscope.studies import last
from featscope.studies.summaries import INTERVALS, chart, curve, curves, over_replicas

Runs = Mapping[str, xr.Dataset]
_STEP, _ALPHA, _BALANCE = "training step", "pruning ratio α", "F_min / F_maj"


def _label(ratio: float) -> str:
    return f"α = {ratio:g}" if ratio else "no pruning"


def over_time(runs: Runs, ratio: float, bias_begins: int, pruning_begins: int) -> Curves:
    """Balance of rare and common features; ``ratio`` is that of the straight-through arm."""
    planted, norm, direction = (
        curves(runs[arm].energy_ratio, "ratio", _label)
        for arm in ("stationary", "random-start", "random-start-direction")
    )
    straight = curve(runs["straight-through"].energy_ratio, f"{_label(ratio)}, straight-through", dashed=True)
    begins = [(pruning_begins, "pruning begins")]
    return chart(
        "energy-ratio",
        "Energy of rare features over that of common ones",
        "1 is balance. Left, two neurons hold each feature from the start. Right, the same weights and data as in the "
        "middle, but other neurons are hidden from the logits. The dip there is of the thresholds, which begin at step "
        f"{bias_begins}.",
        Panel("Planted, by norm", _STEP, _BALANCE, [*planted, straight]),
        Panel("Random, by norm", _STEP, _BALANCE, norm, begins),
        Panel("Random, by direction", _STEP, _BALANCE, [norm[0], *direction], begins),
        claims=("stationary-rebalance", "stationary-amplitude", "random-start-rebalance", "random-start-direction"),
    )


def over_ratio(runs: Runs) -> Curves:
    """The end of training over the pruning ratio."""
    unpruned = runs["random-start"].sel(ratio=[0.0])
    arms = {
        "planted, by norm": runs["stationary"],
        "random, by norm": runs["random-start"],
        "random, by direction": xr.concat([unpruned, runs["random-start-direction"]], "ratio", data_vars="minimal"),
    }

    def ends(name: str, *, share: bool = False) -> list[Curve]:
        lines = []
        for label, run in arms.items():
            values = last(run, run[name]).transpose("replica", "ratio")
            values = values.sel(ratio=values["ratio"] > 0) if share else values
            mean, low, high = over_replicas(values)
            if share:
                low, high = low.clip(0, 1), high.clip(0, 1)
            lines.append(Curve(label, values["ratio"].values, mean, low, high))
        return lines

    return chart(
        "over-ratio",
        "At the end of training, over the pruning ratio",
        "Theorem 3.2 assumes that all pruned neurons belong to rare features; once these have caught up, others are "
        "pruned too. By direction whole features are hidden, and too many of them grow without bound.",
        Panel("Balance", _ALPHA, _BALANCE, ends("energy_ratio")),
        Panel("Common features", _ALPHA, "F_maj", ends("majority_energy"), log_y=True),
        Panel("Who is pruned", _ALPHA, "share of rare features", ends("overlap", share=True)),
        claims=("monotone-in-ratio", "pruned-are-minority", "random-start-rebalance", "random-start-direction"),
    )


def one_step(runs: Runs) -> Bars:
    """Growth of planted neurons in a single step."""
    groups = {
        "whole": "no pruning",
        "one": "one of two pruned",
        "pruned": "both pruned",
        "straight_through": "both, straight-through",
    }
    growth = {
        f"{kind} neurons": over_replicas(xr.concat([runs["one-step"][f"growth_{kind}_{n}"] for n in groups], "group"))
        for kind in ("minority", "majority")
    }
    return Bars(
        "one-step",
        "What one step does to planted neurons",
        "Growth of the norm by the gradient of the data, -<∇, w_i>/||w_i||², before decay: it is relative to the norm "
        f"and to the step size. The straight-through gradient of a pruned neuron is 0. {INTERVALS}",
        groups=list(groups.values()),
        series=growth,
        y_label="growth over η",
        claims=(
            "planted-minority-growth",
            "planted-majority-unchanged",
            "monotone-in-ratio",
            "straight-through-kills",
            "growth-is-the-gap",
        ),
    )


def too_much(runs: Runs) -> Curves:
    """The largest energy where whole features are hidden."""
    size = np.log10(runs["too-much"].largest_energy)
    return chart(
        "too-much",
        "Prune too much, and weights grow without bound",
        "The largest energy of any feature, from a planted start. Beyond one neuron of each feature some features are "
        "hidden altogether. A curve ends where the first replica has no finite numbers any more.",
        Panel("Planted start", _STEP, "log10 of the largest F_j", curves(size, "ratio", _label)),
        claims=("divergence-when-all-pruned",),
    )
