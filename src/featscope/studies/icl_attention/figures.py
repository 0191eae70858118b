"""The figures of the study."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from featscope.claims import POSITIVE
from featscope.figures import Bars, Curve, Curves, Panel
from featscope.studies.base import Runs
from featscope.studies.icl_attention.arms import CORRECT, LAYOUTS, WRONG
from featscope.studies.summaries import bars

_OF_MODELS = ("larger-attends-to-both", "larger-attends-to-both-wrong-label", "small-attends-to-relevant")


def ratios(runs: Runs, arms: Sequence[str]) -> Bars:
    """The norm on the irrelevant sentence over that on the relevant one."""
    over_arms = xr.concat([runs[arm][["ratio", "log_ratio"]] for arm in arms], "arm")
    return bars(
        "ratios",
        "Attention to the irrelevant sentence over that to the relevant one",
        "Above 1, the label attends more to the irrelevant sentence. The ratio of norms as it is, and with each norm "
        "over the square root of its sentence's length. With two irrelevant ones, another irrelevant sentence stands "
        "in place of the relevant one, so that what is left is the place.",
        [runs[arm].attrs["label"] for arm in arms],
        {"as it is (mean)": over_arms.ratio, "lengths taken out (geometric mean)": np.exp(over_arms.log_ratio)},
        "ratio of norms",
        within=POSITIVE,
        references=[(1.0, "both alike")],
        claims=(*_OF_MODELS, "relevance-beyond-position", "normalised-is-exact"),
    )


def norms(runs: Runs, models: Sequence[str]) -> Curves:
    """Figure 5.3: each model's norms, prompt by prompt."""

    def line(model: str, layout: str, part: str) -> Curve:
        first = runs[f"{model}{layout}"][part].isel(replica=0).values
        return Curve(model, np.arange(len(first)), first)

    return Curves(
        "norms",
        "What a label attends to, prompt by prompt",
        "How much the label attends to each sentence in the last layer (norm over heads and tokens), in replica 0. "
        "The panels are those of the paper's Figure 5.3.",
        [
            Panel(
                f"{LAYOUTS[layout][0].capitalize()}, {part} sentence",
                "prompt",
                "attention (norm)",
                [line(model, layout, part) for model in models],
            )
            for layout in (CORRECT, WRONG)
            for part in ("relevant", "irrelevant")
        ],
        claims=_OF_MODELS,
    )
