"""The figures of the study."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from featscope.figures import Curve, Curves, Panel
from featscope.studies.summaries import chart, curve

Runs = Mapping[str, xr.Dataset]
_OF_MODELS = ("larger-is-better-without-flips", "larger-falls-faster", "small-is-flat", "large-falls-below-chance")


def panel(title: str, y_label: str, runs: Runs, series: str, arms: Sequence[str], flips: Sequence[float]) -> Panel:
    """A series over the share of inverted labels."""
    rates = 100 * np.asarray(flips)
    lines = [curve(runs[arm][series], runs[arm].attrs["label"], "flip", x=rates) for arm in arms]
    if series == "accuracy":
        lines.append(Curve("chance", rates, np.full(len(rates), 0.5), dashed=True))
    return Panel(title, "exemplar labels inverted (%)", y_label, lines)


def accuracy(runs: Runs, asked: str, models: Sequence[str], hand_set: Sequence[str], flips: Sequence[float]) -> Curves:
    """Accuracy as in Figures 5.1 and 5.2; ``asked`` is what was asked."""
    return chart(
        "accuracy",
        "Accuracy over inverted exemplar labels",
        f"{asked}; labels of items are never inverted. Left, language models (as in the paper's Figures 5.1 and 5.2); "
        "right, hand-set learners whose curves are known.",
        panel("Language models", "accuracy", runs, "accuracy", models, flips),
        panel("Hand-set learners", "accuracy", runs, "accuracy", hand_set, flips),
        claims=(*_OF_MODELS, "follower-is-exact", "ignorer-is-exact", "frequency-mirrors"),
    )


def following(runs: Runs, models: Sequence[str], hand_set: Sequence[str], flips: Sequence[float]) -> Curves:
    """Who follows the exemplars, and what the labels are."""
    everybody = [*models, *hand_set]
    return chart(
        "following",
        "Who follows the exemplars",
        "Left, of the items that were right with no label inverted, the share that is wrong. Middle, the probability "
        "of the true label among the two. Right, how often label 1 is said: a line at 0 or 1 is a model that says "
        "one word whatever it is shown.",
        panel("Overridden", "share", runs, "override", everybody[:-1], flips),
        panel("Trust in the truth", "probability", runs, "likely", everybody, flips),
        panel("Label 1 is said", "share", runs, "says_one", everybody, flips),
        claims=("follower-trusts-in-proportion",),
    )
