"""The figures of the study, described for the report to draw. Runs are called by the labels of their arms."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import xarray as xr
from jaxtyping import Float

from featscope.figures import Bars, Figure
from featscope.probes.long_tail import accuracy, gap
from featscope.studies import Runs
from featscope.studies.longtail_images.table2 import ACCURACY, GAP, TABLE_2
from featscope.studies.summaries import bars, over_steps

PLAIN, PRUNED = "long tail", "long tail, pruned"  # the arms that Table 2 has
_MOST_GROUPS = 20
PERCENT, POINTS = (0.0, 100.0), (-100.0, 100.0)
_THEIRS = "The paper's numbers are from networks and settings that it does not give; their lines are its ±."
_BY_CLASS = "Classes are in the order from head to tail, with the number of long-tailed training images."


def figures(runs: Runs) -> Iterator[Figure]:
    """Table 2 beside what was measured, then class by class, then what is pruned, then the course of training."""
    here = bars(
        "accuracy",
        "How many test images are named, and the paper's Table 2",
        f"Leftmost: measured here, by a linear probe of the features. {_THEIRS}",
        ["measured"],
        {name: 100 * accuracy(run).expand_dims("group", -1) for name, run in runs.items()},
        "images named right (%)",
        within=PERCENT,
        claims=(
            "training-helps",
            "imbalance-costs-accuracy",
            "pruning-raises-accuracy",
            "pruning-gains-as-printed",
            "pruning-helps-the-long-tail-more",
        ),
    )
    yield _beside_table(here, ACCURACY)
    here = bars(
        "gap",
        "Gap between head and tail, and the paper's Table 2",
        "Leftmost: measured here. Some classes are easier than others, so that untrained networks have a gap too: "
        f"compare arms. {_THEIRS}",
        ["measured"],
        {name: 100 * gap(run).expand_dims("group", -1) for name, run in runs.items()},
        "accuracy on head minus tail (Δ₂₀, points)",
        within=POINTS,
        claims=("imbalance-opens-gap", "pruning-lowers-gap"),
    )
    yield _beside_table(here, GAP)
    groups = _names(runs[PLAIN]["class_size"].isel(replica=0))
    yield bars(
        "class-accuracy",
        "Accuracy of the linear probe, class by class",
        f"{_BY_CLASS} The probe is fitted to balanced images.",
        groups,
        {name: 100 * _in_groups(run["class_accuracy"]) for name, run in runs.items()},
        "images named right (%)",
        within=PERCENT,
        claims=("class-sizes", "imbalance-opens-gap"),
    )
    yield bars(
        "doubt",
        "What pruning adds to the doubt of the contrastive loss",
        f"Doubt (1 - ℓ'_p) of the pruned network minus that of the whole one, on test images. {_BY_CLASS} The paper's "
        "Lemma F.2 has it rise on rare samples and on no others.",
        groups,
        {name: 100 * _in_groups(run["doubt_added"]) for name, run in runs.items()},
        "added doubt (1 - ℓ'_p, points)",
        within=POINTS,
        claims=("pruning-doubts-the-tail",),
    )
    yield bars(
        "pruned-share",
        "Where the pruned weights are",
        "Share that pruning takes, or in arms without it would take, from each convolution.",
        [f"convolution {number}" for number in range(1, 1 + runs[PLAIN].sizes["convolution"])],
        {name: 100 * run["pruned_of_layer"] for name, run in runs.items()},
        "pruned weights (%)",
        within=PERCENT,
        claims=("pruned-share",),
    )
    yield from over_steps(runs)


def _beside_table(figure: Bars, printed: Float[np.ndarray, "row 2 2"]) -> Bars:
    """``figure`` of what was measured, and right of it what Table 2 has of two of the arms."""
    unknown = np.full((len(TABLE_2), 2), np.nan)
    series, samples = {}, {}
    for name, ends in figure.series.items():
        value, spread = {PLAIN: printed[:, 0], PRUNED: printed[:, 1]}.get(name, unknown).T
        mean, low, high = (
            np.r_[here, theirs] for here, theirs in zip(ends, (value, value - spread, value + spread), strict=True)
        )
        series[name] = mean, low, high
        samples[name] = np.pad(figure.samples[name], ((0, 0), (0, len(TABLE_2))), constant_values=np.nan)
    return replace(figure, groups=["measured", *TABLE_2], series=series, samples=samples)


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
