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
    bias=BiasSchedule(growth=0.2),
    steps=500,
)


def with_few_labels(arm: Arm) -> Arm:
    """``arm`` with linear heads that learn from 600 labels."""

    def cheap(assays: Sequence[Assay]) -> Sequence[Assay]:
        dear = (probes.readouts, probes.baselines)
        return [partial(assay, labels=600) if assay in dear else assay for assay in assays]

    return replace(arm, at_start=cheap(arm.at_start), at_end=cheap(arm.at_end))


TRIAL = Trial(STUDY, arms={arm.name: with_few_labels(arm) for arm in STUDY.arms()})
