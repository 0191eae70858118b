"""The figures of the study."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import xarray as xr

from featscope.figures import Bars, Figure
from featscope.studies.base import Runs
from featscope.studies.longtail_images import judge
from featscope.studies.longtail_images.table2 import TABLE_2, Number
from featscope.studies.summaries import over_replicas, over_steps

_NAMES = {
    "plain": "long tail",
    "pruned": "long tail, pruned",
    "balanced": "balanced",
    "balanced-pruned": "balanced, pruned",
    "untrained": "untrained",
}
_MOST_GROUPS = 20
_ERROR_BARS = "Lines are 99 % intervals of means over replicas."
_PAPER = "The paper's numbers are from networks and settings that it does not give; their lines are its ±."
_BY_CLASS = "Classes are in the order from head to tail, with the number of long-tailed training images."


def figures(runs: Runs) -> Iterator[Figure]:
    """Table 2 beside what was measured, then class by class, then what is pruned, then the course of training."""
    yield _beside_table_2(
        runs,
        "accuracy",
        "Accuracy of the linear probe, and the paper's Table 2",
        "accuracy (%)",
        judge.accuracy,
        [row.accuracy for row in TABLE_2],
        "",
    )
    yield _beside_table_2(
        runs,
        "gap",
        "Gap between head and tail, and the paper's Table 2",
        "Δ₂₀ (points)",
        judge.gap,
        [row.gap for row in TABLE_2],
        "Some classes are easier than others, so that untrained networks have a gap too: compare arms.",
    )
    yield _by_class(
        runs,
        "class-accuracy",
        "Accuracy of the linear probe, class by class",
        f"{_BY_CLASS} The probe is fitted to balanced images.",
        "class_accuracy",
        "accuracy (%)",
    )
    yield _by_class(
        runs,
        "doubt",
        "What pruning adds to the doubt of the contrastive loss",
        f"1 - ℓ'_p of the pruned network minus that of the whole one, on views of test images. {_BY_CLASS} The paper's "
        "Lemma F.2 has it rise on rare samples and on no others.",
        "doubt_added",
        "added 1 - ℓ'_p (points)",
    )
    layers = runs["plain"].sizes["convolution"]
    yield Bars(
        id="pruned-share",
        title="Where the pruned weights are",
        caption=f"Share that pruning takes, or in arms without it would take, from each convolution. {_ERROR_BARS}",
        groups=[f"convolution {number}" for number in range(1, layers + 1)],
        series={_NAMES[arm]: _percent(run["pruned_of_layer"]) for arm, run in runs.items()},
        y_label="pruned (%)",
    )
    yield over_steps({_NAMES[arm]: run for arm, run in runs.items()})


def _beside_table_2(
    runs: Runs,
    id: str,
    title: str,
    y_label: str,
    measure: Callable[[xr.Dataset], np.ndarray],
    rows: Sequence[tuple[Number, Number]],
    hint: str,
) -> Bars:
    """The measured arms as the first group; of the others, the paper has those without and with pruning."""
    printed = {"plain": [row[0] for row in rows], "pruned": [row[1] for row in rows]}
    series = {}
    for arm, run in runs.items():
        mean, low, high = _percent(xr.DataArray(measure(run)[:, None], dims=("replica", "group")))
        value, spread = np.array(printed.get(arm, [(np.nan, np.nan)] * len(rows))).T
        series[_NAMES[arm]] = (np.r_[mean, value], np.r_[low, value - spread], np.r_[high, value + spread])
    return Bars(
        id=id,
        title=title,
        caption=" ".join(filter(None, ("Leftmost: measured here.", hint, _ERROR_BARS, _PAPER))),
        groups=["measured", *(row.data for row in TABLE_2)],
        series=series,
        y_label=y_label,
    )


def _by_class(runs: Runs, id: str, title: str, caption: str, name: str, y_label: str) -> Bars:
    sizes = runs["plain"]["class_size"].isel(replica=0)
    parts = np.array_split(np.arange(sizes.sizes["class"]), min(sizes.sizes["class"], _MOST_GROUPS))
    names = sizes.attrs["long_name"].removeprefix("training images of ").split(", ")
    series = {
        _NAMES[arm]: _percent(xr.concat([run[name].isel({"class": part}).mean("class") for part in parts], "group"))
        for arm, run in runs.items()
    }
    return Bars(id, title, f"{caption} {_ERROR_BARS}", [_group(names, sizes, part) for part in parts], series, y_label)


def _group(names: Sequence[str], sizes: xr.DataArray, part: np.ndarray) -> str:
    images = int(sizes.isel({"class": part}).mean())
    return f"{names[part[0]]} ({images})" if len(part) == 1 else f"classes {part[0] + 1}-{part[-1] + 1} ({images} each)"


def _percent(values: xr.DataArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return over_replicas(100 * values)
