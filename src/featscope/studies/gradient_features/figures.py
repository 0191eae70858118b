"""The figures of the study."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr

from featscope.figures import Bars, Curve, Curves, Figure, Heatmaps, Panel, Scatters
from featscope.studies.base import Runs
from featscope.studies.gradient_features.arms import (
    LEVELS,
    PARITY,
    PARITY_FITTING,
    PARITY_FROZEN,
    PARITY_NEURONS,
    PARITY_SMALL,
    PARITY_TICKET,
    SPREADS,
    STAIRS,
    XOR,
    XOR_NEURONS,
    XOR_RANDOM,
    XOR_TICKET,
    XOR_WORST,
)
from featscope.studies.gradient_features.at_start import pointing
from featscope.studies.gradient_features.neurons import PARITY_SIZES, PARITY_THRESHOLDS, XOR_THRESHOLDS
from featscope.studies.gradient_features.probes import random_accuracy
from featscope.studies.summaries import bars, chart, curve, heatmaps
from featscope.theory import gradient_features as theory

_EDGES = np.linspace(0, 1, 11)
_UNIT = 2.5  # p_j ‖μ‖ of the XOR mixture in 100 dimensions
_TIMES = {"start": "before", "step": "after one step", "end": "at the end"}


def all_of(study: Any, runs: Runs, levels: xr.DataArray) -> Iterator[Figure]:
    """Every figure, in the order of the story."""
    yield directions(runs[XOR], runs[XOR_NEURONS], study.dimension)
    yield cosines(runs)
    yield sure(runs[XOR_NEURONS], runs[PARITY_NEURONS], study.arm(XOR_NEURONS).recipe.data.spread)
    yield tickets(study, runs)
    yield over_spread(runs[SPREADS], study.dimension, 4 * study.quarter)
    yield random_map(runs[SPREADS], 4 * study.quarter)
    yield staircase(levels)


def directions(run: xr.Dataset, neurons: xr.Dataset, dimension: int) -> Scatters:
    """Unit weights of one replica's neurons in the plane of the XOR features; gradients at a higher threshold."""
    one = run.isel(replica=0)
    corners = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]], float)
    panels, classes = {}, {}
    for when, label in _TIMES.items():
        panels[label] = np.concatenate([one[f"plane_{when}"].values, corners])
        classes[label] = np.concatenate([np.where(one.positive.values, 0, 1), np.full(len(corners), 2)]).astype(int)
    gradients = neurons.plane.isel(replica=0, threshold=XOR_THRESHOLDS.index(2.0)).values / _UNIT
    panels["gradients at a higher threshold"] = np.concatenate([gradients, corners])
    classes["gradients at a higher threshold"] = np.array([0] * len(gradients) + [2] * len(corners))
    return Scatters(
        "directions",
        "Does one step of gradient descent turn random neurons into the plane of the features?",
        f"Each dot is a neuron of the first replica of xor: its cosines to two of the features, in {dimension} "
        "dimensions. A neuron on the circle through the corners lies in their plane. Neurons with b = b~ fire for few "
        "inputs, those with -b~ for most. Right: gradients of 200 neurons at t = 2, p_j ‖μ‖ for unit; by the theory "
        "long ones lie near the axes of the features.",
        panels,
        classes,
        ["b = b~", "b = -b~", "features"],
        claims=("step-turns-neurons-to-features", "xor-trained"),
    )


def cosines(runs: Runs) -> Bars:
    """Histograms of the largest cosine of a neuron to a feature."""

    def histogram(values: xr.DataArray) -> xr.DataArray:
        counts = np.array([np.histogram(one, _EDGES)[0] for one in values.values], float)
        return xr.DataArray(counts / counts.sum(1, keepdims=True), dims=("replica", "bin"))

    series = {f"XOR, {label}": histogram(runs[XOR][f"cosine_{when}"]) for when, label in _TIMES.items()}
    series["parity, before"] = histogram(runs[PARITY].cosine_start)
    series["parity, after one step"] = histogram(runs[PARITY].cosine_step)
    return bars(
        "cosines",
        "Cosines to the nearest feature, before the step and after it",
        "Share of neurons by the largest cosine, without sign, to a feature.",
        [f"{low:.1f} to {high:.1f}" for low, high in pairwise(_EDGES)],
        series,
        "share of neurons",
        within=(0.0, 1.0),
        claims=("step-turns-neurons-to-features",),
    )


def sure(xor: xr.Dataset, parity: xr.Dataset, spread: float) -> Curves:
    """Shares of sure neurons over the threshold, with the formulas, and where their gradients point."""
    at, of_law = np.array(XOR_THRESHOLDS), np.array(PARITY_THRESHOLDS)
    grid = np.linspace(0.5, 2.5, 60)
    fine = np.linspace(0.5, 2.0, 60)
    shares = [
        curve(xor.sure, "measured", "threshold", x=at, within=(0.0, 1.0)),
        Curve("formula", grid, np.array([theory.xor_sure_probability(t, spread) for t in grid]), dashed=True),
    ]
    of_parity = []
    for law, size in enumerate(PARITY_SIZES):
        label = f"{size.blocks} block{'s' * (size.blocks > 1)}"
        of_parity.append(curve(parity.sure.isel(law=law), label, "threshold", x=of_law, within=(0.0, 1.0)))
        line = np.array([theory.parity_sure_probability(c, size.blocks) for c in fine])
        of_parity.append(Curve(f"{label}, formula", fine, line, dashed=True))
    directed = [
        curve(pointing(xor), "XOR", "threshold", x=at, skipna=True),
        *(
            curve(pointing(parity).isel(law=law), f"parity, r = {size.blocks}", "threshold", x=of_law, skipna=True)
            for law, size in enumerate(PARITY_SIZES)
        ),
    ]
    return chart(
        "sure",
        "How many neurons are sure of a feature, by the threshold, and how well do they point?",
        "Left and middle: share of random neurons that fire for one feature and not for others. Right: mean cosine of "
        "their gradients to it, over replicas that have any; at the highest thresholds few or none are left of three "
        "blocks.",
        Panel("XOR", "t = b~/(σ_w ‖μ‖)", "share of neurons", shares, log_y=True),
        Panel("Parities", "c = b~/(σ_w √k)", "share of neurons", of_parity, log_y=True),
        Panel("Where they point", "threshold", "cosine to the feature", directed),
        claims=("xor-sure-probability", "parity-sure-probability", "higher-thresholds-point-better"),
    )


def tickets(study: Any, runs: Runs) -> Curves:
    """Accuracy over steps for whole networks and parts of them."""
    of_xor = (XOR, XOR_TICKET, XOR_RANDOM, XOR_WORST)
    of_parity = (PARITY, PARITY_FROZEN, PARITY_TICKET, PARITY_FITTING, PARITY_SMALL)
    return chart(
        "tickets",
        "Do the neurons nearest to features learn alone what all learn?",
        f"Accuracy on fresh samples, after the first step of Algorithm 1, of networks of {4 * study.quarter} neurons "
        f"and of {study.ticket} of them; without a feature step, of about as few. Neurons fit that are near the "
        "feature and whose thresholds are where the answer bends, as many at each bend.",
        *(
            Panel(
                title,
                "step",
                "accuracy",
                [curve(runs[arm].accuracy, study.arm(arm).label, within=(0.0, 1.0)) for arm in drawn],
            )
            for title, drawn in (("XOR", of_xor), ("Parity", of_parity))
        ),
        claims=("lottery-ticket", "thresholds-make-the-ticket", "ticket-beats-the-worst", "few-neurons-need-no-step"),
    )


def over_spread(run: xr.Dataset, dimension: int, neurons: int) -> Curves:
    """Accuracies over σ_B."""
    random = random_accuracy(run, neurons)
    drawn = [
        curve(run.accuracy.isel(step=-1), "network", "spread", within=(0.0, 1.0)),
        *(
            curve(random.sel(count=count, drop=True), f"{count} random features", "spread", within=(0.0, 1.0))
            for count in sorted({100, neurons if neurons in random["count"] else 400})
        ),
        curve(run.oracle, "knows the features", "spread", dashed=True),
    ]
    return chart(
        "over-spread",
        "Do random features fall behind as clusters widen?",
        f"XOR of four Gaussians in {dimension} dimensions, means at a distance of {dimension**0.5:.3g} from 0.",
        Panel("Accuracy", "σ_B", "accuracy", drawn),
        claims=("random-features-are-trivial", "random-features-below", "lead-grows-with-spread"),
    )


def random_map(run: xr.Dataset, neurons: int) -> Heatmaps:
    """Lead of the network over random features, over σ_B and their number."""
    random = random_accuracy(run, neurons)
    lead = run.accuracy.isel(step=-1) - random
    return heatmaps(
        "random-map",
        "Where the network is ahead of random features",
        "Left: accuracy of ridge regression on random features. Right: that of the network less it.",
        {"random features": random, "lead of the network": lead},
        ("count", "random features"),
        ("spread", "σ_B"),
        "accuracy",
        (0.0, 1.0),
        claims=("random-features-below",),
    )


def staircase(levels: xr.DataArray) -> Curves:
    """Hinge loss of each level over steps."""
    drawn = [
        curve(levels.isel(level=place), f"{100 * share:.0f} % of samples", within=(0.0, np.inf))
        for place, share in enumerate(LEVELS)
    ]
    return chart(
        STAIRS,
        "Are parts learned one after another, heaviest first?",
        "Hinge loss of the samples of three XOR mixtures that make up one law, each in a plane of its own.",
        Panel("Hinge loss", "step", "hinge loss", drawn),
        claims=("simplicity-bias-staircase",),
    )
