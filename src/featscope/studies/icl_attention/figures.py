"""The figures of the study."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from featscope.claims import LEVEL
from featscope.figures import Bars, Curve, Curves, Figure, Panel
from featscope.studies.base import Runs
from featscope.studies.icl_attention.judge import HAND_SET, LAYOUTS, Layout, arm_name, models
from featscope.studies.summaries import over_replicas

if TYPE_CHECKING:
    from featscope.studies.icl_attention.study import IclAttention

_PANELS: tuple[tuple[Layout, str], ...] = (
    ("correct", "relevant"),
    ("correct", "irrelevant"),
    ("wrong", "relevant"),
    ("wrong", "irrelevant"),
)


def figures(study: "IclAttention", runs: Runs) -> Iterator[Figure]:
    """Figure 5.3, then ratios."""
    names = models(study, runs)
    yield Curves(
        "norms",
        "What a label attends to, prompt by prompt",
        "l2 norm over heads and tokens of the final layer's last row, on each sentence; replica 0. The panels are "
        "those of the paper's Figure 5.3: correct is the original label, wrong the inverted one.",
        [
            Panel(
                f"{layout.capitalize()}, {sentence}",
                "prompt",
                "norm",
                [_curve(model, runs[arm_name(model, layout)][sentence]) for model in names],
            )
            for layout, sentence in _PANELS
        ],
    )
    arms = {f"{model} {layout}": runs[arm_name(model, layout)] for model in names for layout in LAYOUTS}
    arms |= {arm: runs[arm] for arm in HAND_SET}

    def over_arms(series: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return over_replicas(xr.concat([run[series] for run in arms.values()], "arm"))

    middle, low, high = (np.exp(ends) for ends in over_arms("log_ratio"))
    yield Bars(
        "ratios",
        "Irrelevant over relevant",
        "The norm on the irrelevant sentence over that on the relevant one: its mean over prompts as it is, and its "
        "geometric mean with each norm over the square root of its sentence's length. Swapped: the irrelevant "
        "sentence comes first. Unrelated: another irrelevant sentence in place of the relevant one, so that what is "
        f"left is the place. Lines are {100 * LEVEL:.3g} % intervals over replicas.",
        list(arms),
        {"raw, mean": over_arms("ratio"), "length-normalised, geometric mean": (middle, low, high)},
        "ratio",
        [(1.0, "as much")],
    )


def _curve(label: str, norms: xr.DataArray) -> Curve:
    first = norms.isel(replica=0).values
    return Curve(label, np.arange(len(first)), first)
