"""The study of parities under uniform signs, small: four signs take fewer looks and draws."""

from dataclasses import replace

from featscope.studies.uniform_parity import UniformParityStudy
from featscope.studies.uniform_parity.arms import FOUR, FOUR_ANGLES, FOUR_SAMPLED
from featscope.testing import Trial

STUDY = UniformParityStudy().smallest()


def _shorter(name, **of):
    arm = STUDY.arm(name)
    return replace(arm, recipe=replace(arm.recipe, **of))


TRIAL = Trial(
    STUDY,
    arms={
        FOUR: _shorter(FOUR, probe_every=100),
        FOUR_SAMPLED: _shorter(FOUR_SAMPLED, steps=40, probe_every=20),
        FOUR_ANGLES: _shorter(FOUR_ANGLES, repeats=1),
    },
)
