"""The figures of the study."""

from collections.abc import Mapping

import numpy as np
import xarray as xr

from featscope.data.uniform_parity import UniformParity
from featscope.figures import Bars, Curve, Curves, Panel
from featscope.studies.base import Runs, Study
from featscope.studies.summaries import bars, chart, curve
from featscope.studies.uniform_parity.arms import FOUR, FOUR_SAMPLED, PAIR, PAIR_SAMPLED, SHUFFLED
from featscope.theory import uniform_parity as theory

_UNIT = (0.0, 1.0)


def angles(runs: Runs, laws: Mapping[str, UniformParity]) -> Curves:
    """Cosine of a sample's gradient to D over the size of the sample, and accuracy after training over it."""
    measured, marks = [], []
    for name, data in laws.items():
        d, k = data.dimension, data.block
        sizes = runs[name].samples.values
        grid = np.geomspace(sizes[0], sizes[-1], 60)
        predicted = np.array([(1 + theory.sampled_tangent(d, k, n)) ** -0.5 for n in grid])
        measured += [
            curve(runs[name].cosine, f"{k} of {d} signs", "samples", within=_UNIT),
            Curve(f"{k} of {d} signs, predicted", grid, predicted, dashed=True),
        ]
        marks.append((theory.opening_samples(d, k), f"45°, k = {k}"))
    trained = runs[PAIR_SAMPLED]
    pair = [
        curve(trained.accuracy.isel(step=-1), "accuracy at the end", "samples", within=_UNIT),
        curve(trained.cosine, "cosine after the step", "samples", within=_UNIT, skipna=True),
    ]
    return chart(
        "angles",
        "From which size of the sample on do gradients point at the block?",
        "Left: |cosine| of first gradients to the sum of the signs that count, for neurons that are equal on them. "
        "Right: parities of two signs, over the sample of the first step.",
        Panel("Angle", "samples", "|cosine| to the feature", measured, marks, log_x=True),
        Panel("Trained, two signs", "samples of the first step", "accuracy, |cosine|", pair, log_x=True),
        claims=("angle-opens-at", "noise-of-samples", "more-samples-learn-better"),
    )


def training(study: Study, runs: Runs, samples: int) -> Curves:
    """Accuracy and hinge loss over steps."""
    drawn = {study.arm(arm).label: runs[arm] for arm in (PAIR, FOUR, FOUR_SAMPLED, SHUFFLED)}
    return chart(
        "training",
        "Does the read-out learn the parity where the first step shows it?",
        "First weights stay as the first step leaves them; the read-out is trained on fresh samples. First gradients "
        f"are in closed form, those of four signs, sampled, are of {samples:,} samples.",
        Panel("Accuracy", "step", "accuracy", [curve(r.accuracy, label, within=_UNIT) for label, r in drawn.items()]),
        Panel(
            "Hinge loss",
            "step",
            "hinge loss",
            [curve(r.hinge, label, within=(0.0, np.inf)) for label, r in drawn.items()],
            log_y=True,
        ),
        claims=("trained-with-exact-gradient", "hinge-is-small", "trained-with-sampled-gradient"),
    )


def forms(run: xr.Dataset, dimension: int) -> Bars:
    """Measured over printed, on and off the block."""
    return bars(
        "forms",
        "What is printed of the first gradient, and what is so",
        f"All inputs of {dimension} signs. 1 where the printed form is right; on the block 1/2 is missing, off it "
        "the coefficient is another.",
        [f"k = {k}" for k in run.block.values],
        {"on the block": run.on_printed, "off the block": run.off_printed},
        "measured over printed",
        within=(0.0, np.inf),
        references=[(1.0, "as printed"), (0.5, "with 1/2")],
        claims=("printed-form-on-block", "printed-form-off-block", "coefficient-ratio"),
    )


def lengths(run: xr.Dataset) -> Curves:
    """‖G‖ over d with both powers through the first point."""
    d = run.dimension.values.astype(float)
    lines = []
    for k in run.block.values:
        measured = run.length.sel(block=k, drop=True)
        first = float(measured.isel(dimension=0).mean())
        lines += [
            curve(measured, f"k = {k}", "dimension", within=(0.0, np.inf)),
            Curve(f"k = {k}, d^(-(k-1)/2)", d, first * (d / d[0]) ** (-(k - 1) / 2), dashed=True),
            Curve(f"k = {k}, printed d^(-k)", d, first * (d / d[0]) ** (-float(k)), dashed=True),
        ]
    return chart(
        "lengths",
        "How fast do first gradients shrink with the dimension?",
        "Length of G over the number of signs; dashed, both powers from the first point on.",
        Panel("Length", "d", "‖G‖", lines, log_x=True, log_y=True),
        claims=("gradient-norm-order", "printed-gradient-norm"),
    )
