"""The study of pruning at a size that takes seconds, run once for all tests in this process."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from featscope.data import SparseTokens
from featscope.studies import Arm, Axis
from featscope.studies.pruning import Pruning, probes
from featscope.studies.pruning.arms import JUDGED, LITTLE
from featscope.testing import Trial
from featscope.theory.pruning import stationary_energies
from featscope.training import ContrastivePairs

STUDY = Pruning(
    data=SparseTokens(features=8, input_dim=32, minority=3, eps_min=0.1, noise_std=0.05),
    objective=ContrastivePairs(pairs=128),
    settling_steps=400,
    steps=600,
)
REPLICAS = {"stationary": 16, "straight-through": 12, "one-step-noiseless": 16, "one-step": 8}
REPLICAS |= {"random-start": 10, "random-start-direction": 10, "too-much": 8, "tiers": 12}
"""Where claims are narrow; other arms have 6."""
NEEDED = {"stationary": (0.0, JUDGED), "random-start-direction": (LITTLE,)}
"""Ratios of what is run again."""


_KNOWN: dict[str, np.ndarray] = {}


def remembered(*numbers, **options) -> np.ndarray:
    """Where training settles in closed form, worked out once."""
    key = repr((numbers, options))
    if key not in _KNOWN:
        _KNOWN[key] = stationary_energies(*numbers, **options)
    return _KNOWN[key]


class Small(Trial):
    """A trial with few batches for what one step does, and few ratios where arms are run again."""

    def measure(self, arm: Arm, at_most: int | None = None) -> xr.Dataset:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(probes, "BATCHES", 20)
            return super().measure(arm, at_most)

    def run_again(self, *arms: str | Arm, steps: int | None = None) -> Mapping[str, xr.Dataset]:
        return super().run_again(*(self._at_few_ratios(arm) for arm in arms), steps=steps)

    def _at_few_ratios(self, arm: str | Arm) -> Arm:
        arm = self.arms[arm] if isinstance(arm, str) else arm
        over = (Axis("rules.pruning.ratio", NEEDED[arm.name]),) if arm.name in NEEDED else arm.over
        return replace(arm, over=over)


def without_the_largest_ratio(arm: Arm) -> Arm:
    """Nothing is claimed of α = 0.25."""
    (axis,) = arm.over
    return replace(arm, over=(replace(axis, values=axis.values[:-1]),))


SHORTER = ("stationary", "random-start", "random-start-direction")
TRIAL = Small(
    STUDY, replicas=6, more=REPLICAS, arms={name: without_the_largest_ratio(STUDY.arm(name)) for name in SHORTER}
)
