"""The study of attention circuits, small: arms other than that of three numbers, and its control, take two steps."""

from dataclasses import replace

from featscope.studies.attention_circuits import AttentionCircuits
from featscope.testing import Trial

STUDY = AttentionCircuits(
    moduli=(13, 5, 5),
    heads=(16, 8, 8),
    hidden=(32, 16, 16),
    decay=(0.4, 0.3, 0.1),
    steps=300,
    batch=192,
    lr=1e-2,
)
SHORT = ("four-inputs", "five-inputs", "read-at-equals")


def two_steps(arm):
    return replace(arm, recipe=replace(arm.recipe, steps=2))


TRIAL = Trial(STUDY, replicas=4, arms={name: two_steps(STUDY.arm(name)) for name in SHORT})
