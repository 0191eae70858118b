"""The figures of the study."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from featscope.figures import Bars, Curve, Curves, Panel
from featscope.studies.summaries import INTERVALS, over_replicas

Runs = Mapping[str, xr.Dataset]


def norms(runs: Runs, models: Sequence[str]) -> Curves:
    """Figure 5.3: each model's norms, prompt by prompt."""

    def line(model: str, layout: str, part: str) -> Curve:
        first = runs[f"{model}-{layout}"][part].isel(replica=0).values
        return Curve(model, np.arange(len(first)), first)

    return Curves(
        "norms",
        "What a label attends to, prompt by prompt",
        "l2 norm over heads and tokens of the final layer's last row, on each sentence; replica 0. The panels are "
        "those of the paper's Figure 5.3: correct is the original label, wrong the inverted one.",
        [
            Panel(f"{layout.capitalize()}, {part}", "prompt", "norm", [line(model, layout, part) for model in models])
            for layout in ("correct", "wrong")
            for part in ("relevant", "irrelevant")
        ],
        claims=("larger-attends-to-both", "larger-attends-to-both-wrong-label", "small-attends-to-relevant"),
    )


def ratios(runs: Runs, arms: Sequence[str]) -> Bars:
    """The norm on the irrelevant sentence over that on the relevant one."""

    def over_arms(series: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return over_replicas(xr.concat([runs[arm][series] for arm in arms], "arm"))

    middle, low, high = (np.exp(ends) for ends in over_arms("log_ratio"))
    return Bars(
        "ratios",
        "Irrelevant over relevant",
        "The norm on the irrelevant sentence over that on the relevant one: its mean over prompts as it is, and its "
        "geometric mean with each norm over the square root of its sentence's length. Swapped: the irrelevant "
        "sentence comes first. Unrelated: another irrelevant sentence in place of the relevant one, so that what is "
        f"left is the place. {INTERVALS}",
        [runs[arm].attrs["label"] for arm in arms],
        {"raw, mean": over_arms("ratio"), "length-normalised, geometric mean": (middle, low, high)},
        "ratio",
        [(1.0, "as much")],
        claims=("small-attends-to-relevant", "relevance-beyond-position", "normalised-is-exact"),
    )
