"""The figures of the study."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
import xarray as xr

from featscope.figures import Bars, ImageGrids, Scatters
from featscope.probes.cosine_map import placed
from featscope.studies.base import Runs
from featscope.studies.learned_filters.arms import (
    DIGITS,
    DIGITS_LARGE,
    DIGITS_STILL,
    PHOTOS,
    PHOTOS_STILL,
    RESIDUAL,
    RESIDUAL_LOT,
    RESIDUAL_STILL,
    RESIDUAL_WIDE,
)
from featscope.studies.learned_filters.training import PAIRS, SHOWN, STAGES
from featscope.studies.summaries import bars

_MAPPED = {DIGITS: "digits", DIGITS_LARGE: "usual start", PHOTOS: "photographs", RESIDUAL: "residual, last block"}


def maps(runs: Runs) -> Scatters:
    """Figures 2.3 and A.13 to A.17: filters of one replica in the plane, by their cosines."""
    panels, classes = {}, {}
    for arm, label in _MAPPED.items():
        run = runs[arm].isel(replica=0)
        for stage, name in enumerate(STAGES):
            key = f"{label}, {name}"
            panels[key] = placed(torch.tensor(run.cosines.isel(stage=stage).values)).numpy()
            classes[key] = np.nan_to_num(run.members.values).astype(int)
    return Scatters(
        "maps",
        "Where are filters before, during and after training?",
        f"Filters of one replica, {SHOWN} at most, placed so that distances are near to 1 - cosine (multidimensional "
        "scaling, each panel by itself). Colours are two clusters that a rule finds at the end, the same filters in "
        "every panel.",
        panels,
        classes,
        ["one cluster", "the other"],
        claims=("two-centres-are-opposite", "two-clusters-fit-best", "training-makes-clusters"),
    )


def images(runs: Runs) -> ImageGrids:
    """Filters of hidden units at the start and at the end."""
    panels = {}
    for arm in (DIGITS, DIGITS_LARGE, PHOTOS):
        run = runs[arm].isel(replica=0)
        order = np.argsort(run.members.values, kind="stable")
        for stage in (0, len(STAGES) - 1):
            panels[f"{_MAPPED[arm]}, {STAGES[stage]}"] = _pictures(run.filters.isel(stage=stage).values[order])
    return ImageGrids(
        "filters",
        "What do hidden units look for?",
        "First-layer weights of one replica as images, one cluster after the other; grey is 0, and each is scaled to "
        "its own largest weight.",
        panels,
        claims=("training-makes-clusters", "small-start-makes-clusters"),
    )


def _pictures(filters: np.ndarray) -> np.ndarray:
    largest = np.abs(filters).max((1, 2, 3), keepdims=True)
    scaled = 0.5 + 0.5 * filters / np.where(largest > 0, largest, 1)
    return np.broadcast_to(scaled, (len(filters), 3, *filters.shape[2:])).transpose(0, 2, 3, 1)


def by_layer(runs: Runs) -> Bars:
    """What the captions of Figures A.16 and A.17 print, by a rule: at the end and in filters never trained."""
    shown: list[tuple[str, str, int]] = [(DIGITS, "digits", 0), (DIGITS_LARGE, "usual start", 0)]
    shown += [(DIGITS_STILL, "still", 0), (PHOTOS, "photo", 0), (PHOTOS_STILL, "photo still", 0)]
    for arm, name in ((RESIDUAL, "slim"), (RESIDUAL_WIDE, "wide"), (RESIDUAL_STILL, "still")):
        shown += [(arm, f"{name} {layer + 1}", layer) for layer in range(4)]
    parts = {"own": "to the own centre", "between": "of both centres", "picked": "of five that are picked"}
    series = {
        label: _joined([runs[arm][name].isel(stage=-1, layer=layer) for arm, _, layer in shown])
        for name, label in parts.items()
    }
    return bars(
        "clusters",
        "How alike are filters of one cluster, by layer and before training?",
        "Cosines within and between two clusters at the end, and of the five filters nearest to each centre with the "
        "centre of these five; no bar where a replica has no cluster of five or more. 'Still' are filters of the "
        "start; numbers are groups of blocks of a residual network.",
        [label for _, label, _ in shown],
        series,
        "mean cosine",
        within=(-1, 1),
        claims=("picked-clusters-are-in-random-filters", "two-centres-are-opposite", "wider-gathers-more"),
    )


def _joined(values: Sequence[xr.DataArray]) -> xr.DataArray:
    return xr.concat(values, "group", coords="minimal", compat="override")


def gradients(runs: Runs, table: Mapping[int, tuple[Sequence[float], Sequence[float]]]) -> Bars:
    """Table A.7: cosines of mean gradients of ten steps with each other."""
    chunks = ("1-10", "11-20", "21-30")
    groups = [f"steps {chunks[i]} and {chunks[j]}" for i, j in PAIRS]
    arms = {RESIDUAL: "narrow", RESIDUAL_WIDE: "wide", RESIDUAL_LOT: "labels by lot"}
    series = {f"{label}, near a centre": runs[arm].agreement for arm, label in arms.items()}
    series |= {f"{label}, all filters": runs[arm].agreement_of_all for arm, label in arms.items()}
    drawn = bars(
        "gradients",
        "Do early gradients of a filter agree?",
        "Cosines of its gradients averaged over ten steps, of the filter nearest to a cluster's centre and of all of "
        "the last convolution; the table's are of ResNet(128) and ResNet(256).",
        groups,
        series,
        "cosine",
        within=(-1, 1),
        claims=("early-gradients-agree", "labels-make-gradients-agree", "gradients-agree-as-printed"),
    )
    blank = np.full(len(groups), np.nan)
    printed = {f"Table A.7, ResNet({m})": (np.array(pairs), blank, blank) for m, (_, pairs) in table.items()}
    return Bars(
        drawn.id,
        drawn.title,
        drawn.caption,
        drawn.groups,
        {**drawn.series, **printed},
        drawn.y_label,
        drawn.references,
        drawn.samples,
        claims=drawn.claims,
    )
