"""The study of imbalance at a size that takes seconds, run once for all tests in this process."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pytest
import xarray as xr

from featscope.data import SparseTokens
from featscope.models import TokenMLP
from featscope.studies import Arm
from featscope.studies.imbalance import Imbalance, probes, samples
from featscope.testing import Trial
from featscope.training import SGD, ContrastivePairs

STUDY = Imbalance(
    data=SparseTokens(features=12, input_dim=160, activity=0.4),
    learner=TokenMLP(width=24),
    objective=ContrastivePairs(pairs=512, noise="projected"),
    optimizer=SGD(lr=0.0125, weight_decay=0.001),
    curve_steps=40,
    steps=200,
)
CHEAP = replace(
    STUDY,
    data=replace(STUDY.data, activity=0.2),
    objective=ContrastivePairs(pairs=64),
    optimizer=SGD(lr=0.05, weight_decay=0.001),
)
"""Outside of Stage 1 nothing is compared with a closed form of rates, so batches may be small."""

FEW = {
    "PULL_PAIRS": 10_000,
    "PULL_BLOCKS": 2,
    "CENSUS_NEURONS": 200_000,
    "CROWD_NEURONS": 20_000,
    "TRAIN_PAIRS": 400,
    "TEST_PAIRS": 1000,
    "ASSUMED_PAIRS": 20_000,
    "FEW_PAIRS": 500,
    "BATCHES": 8,
}
HARDLY_ANY = dict.fromkeys(FEW, 100) | {"PULL_BLOCKS": 1, "BATCHES": 1}


@contextmanager
def sampling(numbers: Mapping[str, int]) -> Iterator[None]:
    """Other numbers of samples where assays draw many."""
    with pytest.MonkeyPatch.context() as patch:
        for name, number in numbers.items():
            patch.setattr(probes if hasattr(probes, name) else samples, name, number)
        yield


class Small(Trial):
    """A trial with few samples."""

    def measure(self, arm: Arm, at_most: int | None = None) -> xr.Dataset:
        with sampling(FEW):
            return super().measure(arm, at_most)


def arms() -> Iterator[Arm]:
    """Those of Stage 1 until it is over for every neuron; cheap ones for all others, at the ends of curves alone."""
    for arm in STUDY.arms():
        cheap = CHEAP.arm(arm.name)
        if arm.name.startswith("stage-one"):
            yield replace(arm, recipe=arm.recipe.shortened(45))
        elif arm.name in ("lottery", "few-neurons", "token-masking"):
            yield arm
        elif arm.name.endswith("-attention"):
            yield replace(arm, recipe=replace(arm.recipe, objective=ContrastivePairs(pairs=512)))
        elif arm.over:
            eps, noise = arm.over
            yield replace(cheap, over=(replace(eps, values=(eps.values[0], eps.values[-1])), noise))
        elif arm.name == "imbalanced":  # nothing is claimed of what heads read there
            yield replace(cheap, at_end=())
        else:
            yield cheap


TRIAL = Small(
    STUDY,
    more={"stage-one": 12, "stage-one-narrow": 12, "linear-attention": 12},
    arms={arm.name: arm for arm in arms()},
)
