"""The figures of the study."""

from collections.abc import Sequence

import numpy as np

from featscope.claims import SHARE
from featscope.figures import Curve, Curves, Panel
from featscope.studies.base import Runs
from featscope.studies.summaries import chart, curve

_OF_MODELS = ("larger-is-better-without-flips", "larger-falls-faster", "small-is-flat", "large-falls-below-chance")
SHARE_RIGHT = "share of answers that are right"


def panel(title: str, y_label: str, runs: Runs, series: str, arms: Sequence[str], flips: Sequence[float]) -> Panel:
    """A series over the share of inverted labels."""
    rates = 100 * np.asarray(flips)
    of_what_was_right = series == "override"  # of a replica in which nothing was right there is none
    lines = [
        curve(runs[arm][series], runs[arm].attrs["label"], "flip", x=rates, within=SHARE, skipna=of_what_was_right)
        for arm in arms
    ]
    if series == "accuracy":
        lines.append(Curve("guessing", rates, np.full(len(rates), 0.5), dashed=True))
    return Panel(title, "labels of examples inverted (%)", y_label, lines)


def accuracy(runs: Runs, asked: str, models: Sequence[str], hand_set: Sequence[str], flips: Sequence[float]) -> Curves:
    """Accuracy as in Figures 5.1 and 5.2; ``asked`` is what was asked."""
    return chart(
        "accuracy",
        "Right answers over wrong examples",
        f"{asked}; what counts as right is never inverted. Left, language models (as in the paper's Figures 5.1 and "
        "5.2); right, hand-set learners whose curves are known.",
        panel("Language models", SHARE_RIGHT, runs, "accuracy", models, flips),
        panel("Hand-set learners", SHARE_RIGHT, runs, "accuracy", hand_set, flips),
        claims=(*_OF_MODELS, "follower-is-exact", "ignorer-is-exact", "frequency-mirrors"),
    )


def following(runs: Runs, models: Sequence[str], hand_set: Sequence[str], flips: Sequence[float]) -> Curves:
    """Who follows the exemplars, and what the labels are."""
    everybody = [*models, *hand_set]
    return chart(
        "following",
        "Who follows the examples",
        "Left, of the items that were right with no label inverted, the share that is wrong; the learner of frequent "
        "labels, which knows no item, is left out. Middle, the probability of the true label among the two. Right, how "
        "often the second label is said: a line at 0 or 1 is a model that says one word whatever it is shown.",
        panel("Given up", "share of what was right", runs, "override", everybody[:-1], flips),
        panel("Trust in the truth", "probability of the true label", runs, "likely", everybody, flips),
        panel("The second label is said", "share of answers", runs, "says_one", everybody, flips),
        claims=("follower-trusts-in-proportion",),
    )
