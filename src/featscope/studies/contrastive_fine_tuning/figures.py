"""The figures of the study, described for the report to draw."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from featscope.figures import Bars, Curves, Panel, Scatters
from featscope.studies.base import Runs
from featscope.studies.contrastive_fine_tuning import published
from featscope.studies.contrastive_fine_tuning.arms import (
    CURVE,
    IMAGES,
    KINDS,
    LABEL_OF,
    LABELS,
    OF_CLASSES,
    OF_VIEWS,
    PHOTOS,
    SHARES,
    TARGETS,
    UNIONS,
    accuracy,
    difference,
    fewest,
)
from featscope.studies.contrastive_fine_tuning.clusters import FEATURES, MAPS
from featscope.studies.contrastive_fine_tuning.pretraining import SETS, Kinds
from featscope.studies.contrastive_fine_tuning.recipe import (
    BARE,
    CONTRASTIVE,
    ONE,
    ONE_TERM,
    PROBE,
    TWO,
    TWO_TERM,
)
from featscope.studies.contrastive_fine_tuning.source import VIEWS
from featscope.studies.summaries import bars, chart, curve, side_by_side, without_intervals

_ACCURACY, _GAIN = "test accuracy (%)", "difference (points)"
_CURVES = {
    "linear probe": PROBE,
    "one view": ONE,
    "one view and term": ONE_TERM + 1,
    "two views": TWO,
    "two views and term": TWO_TERM + 1,
}


def accuracies(runs: Runs, said: str) -> Bars:
    """Every method on every set at 100 labels."""
    arms = [arm for arm in TARGETS if arm in runs]
    each = {"linear probe": PROBE, "no augmentation": BARE} | dict(list(_CURVES.items())[1:])
    each["contrastive, then probe"] = CONTRASTIVE
    return bars(
        "accuracies",
        "Fine-tuning with a contrastive term and without",
        f"{said}100 labels; λ = 1.",
        [LABEL_OF[arm] for arm in arms],
        {label: side_by_side([fewest(runs[arm], method) for arm in arms]) for label, method in each.items()},
        _ACCURACY,
        within=(0.0, 100.0),
        claims=("fine-tuning-beats-a-probe", "augmentation-helps", "contrastive-training-helps-a-probe"),
    )


def gains(runs: Runs, said: str) -> Bars:
    """What the term adds, and what a second view adds without it."""
    arms = [arm for arm in TARGETS if arm in runs]
    pairs = {
        "term, 0.1, one view": (ONE_TERM, ONE),
        "term, 1, one view": (ONE_TERM + 1, ONE),
        "second view": (TWO, ONE),
        "term, 0.1, two views": (TWO_TERM, TWO),
        "term, 1, two views": (TWO_TERM + 1, TWO),
    }
    return bars(
        "gains",
        "What the term adds, and what a second view does",
        f"{said}100 labels. Differences within a replica, with the same start and batches.",
        [LABEL_OF[arm] for arm in arms],
        {
            label: side_by_side([difference(runs[arm], one, other) for arm in arms])
            for label, (one, other) in pairs.items()
        },
        _GAIN,
        references=[(0.0, "equal")],
        claims=("the-term-beats-fine-tuning", "the-term-beats-two-views", "a-second-view-helps"),
    )


def growth(runs: Runs, said: str) -> Curves:
    """Accuracy over labels, stored views and classes."""
    panels = []
    for arm in (IMAGES, PHOTOS):
        if arm in runs:
            at, kept = np.unique(_there(runs[arm], "labelled", LABELS[arm], views=0, classes=0), return_index=True)
            lines = [
                curve(accuracy(runs[arm], method).isel(views=0, classes=0, labels=kept), label, "labels", x=at)
                for label, method in _CURVES.items()
            ]
            panels.append(Panel(f"{LABEL_OF[arm]}: labels", "labels", _ACCURACY, lines, log_x=True))
    if IMAGES in runs and CURVE in LABELS[IMAGES]:
        whole = runs[IMAGES].isel(labels=LABELS[IMAGES].index(CURVE), drop=True)
        for arm, along, last in ((OF_VIEWS, "views", VIEWS), (OF_CLASSES, "classes", 10)):
            if arm in runs:
                known = runs[arm].isel(labels=0, drop=True)
                other = ({"views", "classes"} - {along}).pop()
                at = np.array([2, 5, last], float)
                if along == "classes":
                    few, every = _there(known, "told", (2, 5), views=0), _there(whole, "told", (last,), views=0)
                    at = np.concatenate([few, every])
                at, kept = np.unique(at, return_index=True)
                lines = []
                for label, method in _CURVES.items():
                    parts = [accuracy(one, method).isel({other: 0}, drop=True) for one in (known, whole)]
                    joined = xr.concat([part.drop_vars(along, errors="ignore") for part in parts], along)
                    lines.append(curve(joined.isel({along: kept}), label, along, x=at))
                panels.append(Panel(f"CIFAR-10: {along}", along, _ACCURACY, lines))
    return chart(
        "growth",
        "Labels, stored views, classes",
        f"{said}λ = 1. Curves over views and classes are at {CURVE} labels. Where there are fewer labels or classes "
        "than were asked for, points are at what there is.",
        *panels,
        claims=("the-term-helps-most-with-few-labels",),
    )


def trade_off(run: xr.Dataset, said: str) -> Curves:
    """Pre-training on ever more sets: the target, the average, and how features change."""
    sets, run = np.arange(1, 1 + len(SETS), dtype=float), run.isel(share=0, drop=True)
    percent = 100 * run.accuracy
    lines = [
        curve(percent.isel(target=0, drop=True), "target (CIFAR-10)", "sets", x=sets),
        curve(percent.mean("target"), "average of all sets", "sets", x=sets),
    ]
    return chart(
        "trade-off",
        "The trade-off: pre-training on ever more sets",
        f"{said}CIFAR-10, then PACS photographs, sketches and cartoons; each from scratch. Probes have 100 labels.",
        Panel("Linear probes", "sets", _ACCURACY, lines),
        Panel(
            "Features of the target",
            "sets",
            "linear CKA with those of the first",
            [curve(run.similarity, "similarity", "sets", x=sets)],
        ),
        claims=("more-sets-cost-the-target", "more-sets-serve-all", "features-move-away"),
    )


def parts(runs: Runs, said: str) -> Curves:
    """Pre-training on parts of the target and ever more sets, and on ever more kinds of as many images."""
    sets = np.arange(1, 1 + len(SETS), dtype=float)
    percent = 100 * runs[UNIONS].accuracy.isel(target=0, drop=True)
    lines = [
        curve(percent.isel(share=place, drop=True), f"{share} % of it", "sets", x=sets)
        for place, share in enumerate(SHARES)
    ]
    panels = [Panel("Parts of CIFAR-10", "sets", _ACCURACY, lines)]
    if KINDS in runs:
        at = 100 / np.array(Kinds.parts, float)
        known = curve(100 * runs[KINDS].accuracy, "CIFAR-10 and others", "part", x=at)
        panels.append(Panel("Kinds of other images", "share of the kinds (%)", _ACCURACY, [known]))
    return chart(
        "parts",
        "Less of the target, and more kinds of others",
        f"{said}Test accuracy on CIFAR-10 of probes with 100 labels. A kind is a class of PACS photographs, sketches "
        "or cartoons; the number of images stays.",
        *panels,
        claims=("less-of-the-target-costs", "other-sets-stand-in-for-the-target", "more-kinds-cost-the-target"),
    )


def clusters(run: xr.Dataset, said: str) -> Scatters:
    """Features of test images of one replica, by class."""
    one = run.isel(replica=0, labels=0, views=0, classes=0)
    classes = one.named.values.astype(int)
    names = list(FEATURES)[:MAPS]
    found = [float(run.silhouette.isel(features=place).mean()) for place in range(MAPS)]
    panels = {
        f"{name}: {tight:.3f}": one.position.values[place]
        for place, (name, tight) in enumerate(zip(names, found, strict=True))
    }
    return Scatters(
        "clusters",
        "Features of test images, by class",
        f"{said}t-SNE of one replica, each panel by itself; {CURVE} labels. Numbers are silhouettes of the features, "
        "not of the map, means over replicas.",
        panels,
        dict.fromkeys(panels, classes),
        [f"class {place}" for place in range(classes.max() + 1)],
        claims=("fine-tuning-makes-clusters", "the-term-makes-cleaner-clusters", "cleaner-clusters-beyond-two-views"),
    )


def printed() -> Bars:
    """Gains of the term that are printed, over labels."""
    groups = [f"{at} %" for at in published.FRACTIONS]
    names = {"MoCo v2": "F.5", "CLIP": "F.6", "MoCo v3": "F.7", "SimCSE": "F.8"}
    return Bars(
        "printed",
        "What is printed: gains of the term over fine-tuning",
        "Tables F.5 to F.8 of the dissertation, means over their rows, by share of labels that is used.",
        groups,
        {
            name: without_intervals([np.mean(published.gains(table, fractions=(at,))) for at in published.FRACTIONS])
            for name, table in names.items()
        },
        _GAIN,
        [(0.0, "equal")],
        claims=("printed-gains-are-all-above-zero", "printed-probes-gain", "printed-trade-off"),
    )


def _there(run: xr.Dataset, name: str, asked: Sequence[int], **where: int) -> np.ndarray:
    """How many there were, which may be fewer than ``asked``; that number in runs that do not have it stored."""
    if name not in run:
        return np.array(asked, dtype=float)
    return run[name].isel(where, drop=True).mean("replica").values
