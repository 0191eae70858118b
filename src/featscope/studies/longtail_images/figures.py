"""The figures of the study, described for the report to draw. Runs are called by the labels of their arms."""

from collections.abc import Iterator, Sequence

import numpy as np
import xarray as xr
from jaxtyping import Float

from featscope.figures import Bars, Figure
from featscope.studies import Runs
from featscope.studies.longtail_images.table2 import ACCURACY, GAP, TABLE_2, accuracy, gap
from featscope.studies.summaries import INTERVALS, bars, over_replicas, over_steps

PLAIN, PRUNED = "long tail", "long tail, pruned"  # the arms that Table 2 has
_MOST_GROUPS = 20
_THEIRS = "The paper's numbers are from networks and settings that it does not give; their lines are its ±."
_BY_CLASS = "Classes are in the order from head to tail, with the number of long-tailed training images."


def figures(runs: Runs) -> Iterator[Figure]:
    """Table 2 beside what was measured, then class by class, then what is pruned, then the course of training."""
    yield Bars(
        "accuracy",
        "Accuracy of the linear probe, and the paper's Table 2",
        f"Leftmost: measured here. {INTERVALS} {_THEIRS}",
        ["measured", *TABLE_2],
        {name: _beside(accuracy(run), ACCURACY, name) for name, run in runs.items()},
        "accuracy (%)",
        claims=("training-helps", "imbalance-costs-accuracy", "pruning-raises-accuracy", "pruning-gains-as-printed"),
    )
    yield Bars(
        "gap",
        "Gap between head and tail, and the paper's Table 2",
        "Leftmost: measured here. Some classes are easier than others, so that untrained networks have a gap too: "
        f"compare arms. {INTERVALS} {_THEIRS}",
        ["measured", *TABLE_2],
        {name: _beside(gap(run), GAP, name) for name, run in runs.items()},
        "Δ₂₀ (points)",
        claims=("imbalance-opens-gap", "pruning-lowers-gap"),
    )
    groups = _names(runs[PLAIN]["class_size"].isel(replica=0))
    yield bars(
        "class-accuracy",
        "Accuracy of the linear probe, class by class",
        f"{_BY_CLASS} The probe is fitted to balanced images.",
        groups,
        {name: 100 * _in_groups(run["class_accuracy"]) for name, run in runs.items()},
        "accuracy (%)",
        claims=("class-sizes", "imbalance-opens-gap"),
    )
    yield bars(
        "doubt",
        "What pruning adds to the doubt of the contrastive loss",
        f"1 - ℓ'_p of the pruned network minus that of the whole one, on views of test images. {_BY_CLASS} The paper's "
        "Lemma F.2 has it rise on rare samples and on no others.",
        groups,
        {name: 100 * _in_groups(run["doubt_added"]) for name, run in runs.items()},
        "added 1 - ℓ'_p (points)",
        claims=("pruning-doubts-the-tail",),
    )
    yield bars(
        "pruned-share",
        "Where the pruned weights are",
        "Share that pruning takes, or in arms without it would take, from each convolution.",
        [f"convolution {number}" for number in range(1, 1 + runs[PLAIN].sizes["convolution"])],
        {name: 100 * run["pruned_of_layer"] for name, run in runs.items()},
        "pruned (%)",
        claims=("pruned-share",),
    )
    yield over_steps(runs)


def _beside(
    here: xr.DataArray, printed: Float[np.ndarray, "row 2 2"], name: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and ends of what was measured, and right of it what Table 2 has of two of the arms."""
    theirs = {PLAIN: printed[:, 0], PRUNED: printed[:, 1]}.get(name, np.full_like(printed[:, 0], np.nan))
    value, spread = theirs.T
    mean, low, high = over_replicas(100 * here.expand_dims("group"))
    return np.r_[mean, value], np.r_[low, value - spread], np.r_[high, value + spread]


def _parts(by_class: xr.DataArray) -> Sequence[np.ndarray]:
    classes = by_class.sizes["class"]
    return np.array_split(np.arange(classes), min(classes, _MOST_GROUPS))


def _in_groups(by_class: xr.DataArray) -> xr.DataArray:
    """Means over neighbouring classes, where there are more than can be shown."""
    return xr.concat([by_class.isel({"class": part}).mean("class") for part in _parts(by_class)], "group")


def _names(sizes: xr.DataArray) -> list[str]:
    names, images = sizes.attrs["long_name"].removeprefix("training images of ").split(", "), _in_groups(sizes).values
    each = [f"{names[p[0]]}" if len(p) == 1 else f"classes {p[0] + 1}-{p[-1] + 1}" for p in _parts(sizes)]
    return [f"{name} ({int(n)}{'' if name in names else ' each'})" for name, n in zip(each, images, strict=True)]
