"""The study of fixed features, small: arms that seconds are too short for take few steps."""

from dataclasses import replace

from featscope.studies.fixed_features import FixedFeatures
from featscope.studies.fixed_features.arms import (
    COHERENT,
    GENERAL_RANDOM,
    HIDDEN,
    INTERVAL,
    INTERVAL_TANGENT,
    INTERVAL_TANGENT_WITHOUT,
    INTERVAL_TWO,
    INTERVAL_WITHOUT,
    NOTHING_TO_FIND,
    ONE,
    RANDOM_WITHOUT,
    RARE,
    RARE_RANDOM,
    TANGENT_WITHOUT,
)
from featscope.studies.fixed_features.mixtures import FIRST, NO_THRESHOLDS, SECOND, THIRD
from featscope.testing import Trial

STUDY = FixedFeatures().smallest()
SHORT = {
    NOTHING_TO_FIND: 2,
    ONE: 20,
    RANDOM_WITHOUT: 40,
    TANGENT_WITHOUT: 20,
    INTERVAL: 2,
    INTERVAL_TWO: 80,
    INTERVAL_TANGENT: 2,
    INTERVAL_WITHOUT: 40,
    INTERVAL_TANGENT_WITHOUT: 2,
    HIDDEN: 2,
    **dict.fromkeys(RARE.values(), 40),
    **dict.fromkeys(RARE_RANDOM.values(), 80),
    GENERAL_RANDOM: 80,
    COHERENT: 80,
    FIRST: 200,
    SECOND: 2,
    THIRD: 2,
    NO_THRESHOLDS: 2,
}
"""Arms whose claims say something of the start, or of what never learns, and arms that seconds are too short for."""
TRIAL = Trial(
    STUDY,
    arms={name: replace(STUDY.arm(name), recipe=STUDY.arm(name).recipe.shortened(n)) for name, n in SHORT.items()},
)
