"""The figures of the study."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from featscope.claims import LEVEL
from featscope.figures import Curve, Curves, Figure, Panel
from featscope.studies.base import Runs
from featscope.studies.icl_flipped_labels.judge import HAND_SET, models
from featscope.studies.summaries import over_replicas

if TYPE_CHECKING:
    from featscope.studies.icl_flipped_labels.study import IclFlippedLabels


def figures(study: "IclFlippedLabels", runs: Runs) -> Iterator[Figure]:
    """Accuracy as in Figures 5.1 and 5.2, beside it who follows, and what the labels are."""
    names, rates = models(study, runs), 100 * np.asarray(study.flips)

    def panel(title: str, y_label: str, series: str, arms: list[str], *, chance: bool = False) -> Panel:
        curves = []
        for arm in arms:
            mean, low, high = over_replicas(runs[arm][series])
            alone = runs[arm].sizes["replica"] < 2
            curves.append(Curve(arm, rates, mean, None if alone else low, None if alone else high))
        if chance:
            curves.append(Curve("chance", rates, np.full(len(rates), 0.5), dashed=True))
        return Panel(title, "exemplar labels inverted (%)", y_label, curves)

    task = f"{study.task}, {study.data}" if study.data == "made-up" else study.task
    yield Curves(
        "accuracy",
        "Accuracy over inverted exemplar labels",
        f"Task {task}, {study.shots} exemplars, {study.items} items a replica; labels of items are never inverted. "
        "Left, language models (as in the paper's Figures 5.1 and 5.2); right, hand-set learners whose curves are "
        f"known. Bands are {100 * LEVEL:.3g} % intervals over replicas.",
        [
            panel("Language models", "accuracy", "accuracy", names, chance=True),
            panel("Hand-set learners", "accuracy", "accuracy", list(HAND_SET), chance=True),
        ],
    )
    yield Curves(
        "following",
        "Who follows the exemplars",
        "Left, of the items that were right with no label inverted, the share that is wrong. Middle, the probability "
        "of the true label among the two. Right, how often label 1 is said: a line at 0 or 1 is a model that says "
        f"one word whatever it is shown. Bands are {100 * LEVEL:.3g} % intervals over replicas.",
        [
            panel("Overridden", "share", "override", [*names, *HAND_SET[:2]]),
            panel("Trust in the truth", "probability", "likely", [*names, *HAND_SET]),
            panel("Label 1 is said", "share", "says_one", [*names, *HAND_SET]),
        ],
    )
