"""The study of Fourier circuits, small: arms whose claims are of other sizes take two steps."""

from dataclasses import replace

from featscope.studies.fourier_circuits import FourierCircuits
from featscope.testing import Trial

STUDY = FourierCircuits(modulus=5, penalty=0.1, steps=900, lr=1.5e-2, restarts=8, points=16)
LONG = {"two-inputs", "two-tight", "four-inputs", "five-inputs", "penalties", "half-data-31", "large-start"}


def two_steps(arm):
    return replace(arm, recipe=replace(arm.recipe, steps=2))


FEW = dict.fromkeys(["trained", "half-data", "weight-decay", "small-start"], 4)
TRIAL = Trial(STUDY, more=FEW, arms={name: two_steps(STUDY.arm(name)) for name in LONG})
