"""The study of decoupling at a size that takes seconds, trained once for all tests in this process."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from featscope.data import SparseCoding
from featscope.models import SymmetricReLU
from featscope.studies import Arm
from featscope.studies.base import Assay
from featscope.studies.decoupling import Decoupling, probes
from featscope.testing import Trial
from featscope.training import SGD, BiasSchedule, Contrastive

STUDY = Decoupling(
    data=SparseCoding(features=12, input_dim=128),
    learner=SymmetricReLU(width=96),
    objective=Contrastive(anchors=256, negatives=128),
    optimizer=SGD(weight_decay=0.01),
    bias=BiasSchedule(growth=0.2, cap_ratio=0.65),
    steps=600,
)
STEPS = {
    "augmented": 500,
    "plain": 300,
    "thresholds-only": 600,
    "louder": 600,
    "louder-unmasked": 600,
    "canonical": 200,
    "supervised": 150,
    "one-label": 100,
    "stage-one": 130,
    "smaller": 200,
    "tau-0.5": 450,
    "tau-1": 450,
    "tau-2": 450,
    "masked-negatives": 450,
    "loud-start": 100,
    "plain-32": 200,
    "plain-64": 200,
}
"""Arms that have shown what they show by then."""


def cheaper(arm: Arm) -> Arm:
    """``arm`` with fewer steps, and with linear heads that learn from fewer labels."""

    def with_few_labels(assays: Sequence[Assay]) -> Sequence[Assay]:
        dear = (probes.readouts, probes.baselines)
        return [partial(assay, labels=600) if assay in dear else assay for assay in assays]

    recipe = arm.recipe.shortened(STEPS.get(arm.name, STUDY.steps))
    if "heads" in recipe.rules:
        recipe = replace(recipe, rules={**recipe.rules, "heads": replace(recipe.rules["heads"], labels=600)})
    return replace(arm, recipe=recipe, at_start=with_few_labels(arm.at_start), at_end=with_few_labels(arm.at_end))


TRIAL = Trial(
    STUDY,
    replicas=4,
    more={"augmented": 8, "plain": 8, "stage-one": 8, "supervised": 8, "smaller": 8},
    arms={arm.name: cheaper(arm) for arm in STUDY.arms()},
)
