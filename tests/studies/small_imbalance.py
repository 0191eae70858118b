"""The study of imbalance at a size that takes seconds, run once for all tests in this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import xarray as xr

from featscope.data import SparseTokens
from featscope.models import TokenMLP
from featscope.studies import Arm
from featscope.studies.imbalance import Imbalance, probes
from featscope.testing import Trial
from featscope.training import SGD, ContrastivePairs

STUDY = Imbalance(
    data=SparseTokens(features=12, input_dim=160, activity=0.4),
    learner=TokenMLP(width=24),
    objective=ContrastivePairs(pairs=512),
    optimizer=SGD(lr=0.0125, weight_decay=0.001),
    curve_steps=40,
    steps=300,
)
CHEAP = replace(
    STUDY,
    data=replace(STUDY.data, activity=0.2),
    objective=ContrastivePairs(pairs=64),
    optimizer=SGD(lr=0.05, weight_decay=0.001),
)
"""Outside of Stage 1 nothing is compared with a closed form of rates, so batches may be small."""

FEW = {"PULL_BLOCKS": 2, "CENSUS_NEURONS": 200_000, "CROWD_NEURONS": 20_000, "TRAIN_PAIRS": 400, "TEST_PAIRS": 1000}


@contextmanager
def few_samples() -> Iterator[None]:
    """Fewer samples where assays draw many."""
    with pytest.MonkeyPatch.context() as patch:
        for name, number in FEW.items():
            patch.setattr(probes, name, number)
        yield


class Small(Trial):
    """A trial with few samples."""

    def measure(self, arm: Arm, at_most: int | None = None) -> xr.Dataset:
        with few_samples():
            return super().measure(arm, at_most)


def arms() -> Iterator[Arm]:
    """Cheap ones in place of all but those of Stage 1, at the ends of the curves alone."""
    for arm in CHEAP.arms():
        if arm.over:
            eps, noise = arm.over
            arm = replace(arm, over=(replace(eps, values=(eps.values[0], eps.values[-1])), noise))
        if arm.name == "imbalanced":  # nothing is claimed of it
            arm = replace(arm, at_end=())
        if not arm.name.startswith("stage-one"):
            yield arm


TRIAL = Small(STUDY, arms={arm.name: arm for arm in arms()})
