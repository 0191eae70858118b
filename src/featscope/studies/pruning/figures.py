"""The figures of the study, described for the report to draw."""

import numpy as np
import xarray as xr

from featscope.claims import SHARE
from featscope.figures import Bars, Curve, Curves, Panel
from featscope.studies import Runs, last
from featscope.studies.summaries import bars, chart, curve, curves

_STEP, _ALPHA, _BALANCE = "training step", "share of neurons hidden (α)", "rare over common features (F_min / F_maj)"


def _many(neurons: int) -> str:
    return {2: "two", 3: "three", 4: "four"}.get(neurons, str(neurons))


def _label(ratio: float) -> str:
    return f"α = {ratio:g}" if ratio else "no pruning"


def over_time(runs: Runs, ratio: float, neurons: int, bias_begins: int, pruning_begins: int) -> Curves:
    """Balance of rare and common features; ``ratio`` is that of the straight-through arm, ``neurons`` a feature's."""
    planted, norm, direction = (
        curves(runs[arm].energy_ratio, "ratio", _label)
        for arm in ("stationary", "random-start", "random-start-direction")
    )
    straight = curve(runs["straight-through"].energy_ratio, f"{_label(ratio)}, straight-through", dashed=True)
    begins = [(pruning_begins, "pruning begins")]
    return chart(
        "energy-ratio",
        "Energy of rare features over that of common ones",
        f"1 is balance. Left, {_many(neurons)} neurons hold each feature from the start. Right, the same weights and "
        "data as in the middle, but other neurons are hidden from the logits. A dip from step "
        f"{bias_begins} on is of the thresholds, which begin there.",
        Panel("Features held from the start", _STEP, _BALANCE, [*planted, straight]),
        Panel("Random start, ranked by size", _STEP, _BALANCE, norm, begins),
        Panel("Random start, ranked by direction", _STEP, _BALANCE, [norm[0], *direction], begins),
        claims=("stationary-rebalance", "stationary-amplitude", "random-start-rebalance", "random-start-direction"),
    )


def over_ratio(runs: Runs, planted: str) -> Curves:
    """The end of training over the pruning ratio; ``planted`` is what the arm from a planted start is called."""
    unpruned = runs["random-start"].sel(ratio=[0.0])
    arms = {
        planted: runs["stationary"],
        "random, by norm": runs["random-start"],
        "random, by direction": xr.concat([unpruned, runs["random-start-direction"]], "ratio", data_vars="minimal"),
    }

    def ends(name: str) -> list[Curve]:
        return [curve(last(run, run[name]), label, "ratio") for label, run in arms.items()]

    pruned = {label: last(run, run.overlap).sel(ratio=run["ratio"] > 0) for label, run in arms.items()}
    of_rare = [curve(share, label, "ratio", within=SHARE) for label, share in pruned.items()]

    return chart(
        "over-ratio",
        "At the end of training, over the pruning ratio",
        "Theorem 3.2 assumes that all pruned neurons belong to rare features; once these have caught up, others may be "
        "pruned, too. By direction whole features are hidden, which may grow without bound.",
        Panel("Balance", _ALPHA, _BALANCE, ends("energy_ratio")),
        Panel("Common features", _ALPHA, "energy of a common feature (F_maj)", ends("majority_energy"), log_y=True),
        Panel("Who is hidden", _ALPHA, "share that belongs to rare features", of_rare),
        claims=("monotone-in-ratio", "pruned-are-minority", "random-start-rebalance", "random-start-direction"),
    )


def tiers(runs: Runs, pruning_begins: int) -> Curves:
    """Energies of three tiers of frequency, without pruning and with it."""
    names = {"majority": "most frequent", "next": "next", "rarest": "rarest"}
    panels = []
    for ratio in runs["tiers"]["ratio"].values:
        run = runs["tiers"].sel(ratio=ratio)
        lines = [curve(run[f"{tier}_energy"], label) for tier, label in names.items()]
        marks = [(pruning_begins, "pruning begins")] if ratio else []
        title = f"Pruning, {_label(ratio)}" if ratio else "No pruning"
        panels.append(Panel(title, _STEP, "energy of a feature", lines, marks))
    return chart(
        "tiers",
        "Three tiers of frequency",
        "Means over the features of a tier. Both are the same until pruning begins.",
        *panels,
        claims=("tiers-settle", "tiers-stay-apart", "rarest-tier-is-first", "tiers-join"),
    )


def one_step(runs: Runs, neurons: int) -> Bars:
    """Growth of planted neurons in a single step, ``neurons`` of each feature."""
    every = "both" if neurons == 2 else f"all {_many(neurons)}"
    groups = {
        "whole": "no pruning",
        "one": f"one of {_many(neurons)} pruned",
        "pruned": f"{every} pruned",
        "straight_through": f"{every}, straight-through",
    }
    growth = {
        f"{kind} neurons": xr.concat([runs["one-step"][f"growth_{kind}_{name}"] for name in groups], "group")
        for kind in ("minority", "majority")
    }
    return bars(
        "one-step",
        "What one step does to planted neurons",
        "Growth of the norm by the gradient of the data, -<∇, w_i>/||w_i||², before decay: it is relative to the norm "
        "and to the step size. The straight-through gradient of a pruned neuron is 0.",
        list(groups.values()),
        growth,
        "growth in a step, over the step size η",
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
        "Do weights grow without bound where too much is pruned?",
        "The largest energy of any feature, from a planted start. Where fewer neurons are left than there are "
        "features, some features are hidden altogether. A curve ends where the first replica has no finite numbers "
        "any more.",
        Panel("Planted start", _STEP, "largest energy of a feature (log10 F_j)", curves(size, "ratio", _label)),
        claims=("divergence-when-all-pruned",),
    )
