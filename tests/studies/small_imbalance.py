"""The study of imbalance at a size that takes seconds, trained once for all tests in this process."""

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import xarray as xr

from featscope.claims import Claim
from featscope.data import SparseTokens
from featscope.models import TokenMLP
from featscope.runs.folder import RunFolder
from featscope.runs.shard import Shard
from featscope.studies.base import Arm
from featscope.studies.imbalance import Imbalance, identities, measures
from featscope.training import SGD, ContrastivePairs

REPLICAS = 8
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


@contextmanager
def few_samples():
    """Fewer samples where assays draw many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(identities, "BLOCKS", 2)
        patch.setattr(measures, "CENSUS_NEURONS", 200_000)
        patch.setattr(measures, "CROWD_NEURONS", 40_000)
        patch.setattr(measures, "TRAIN_PAIRS", 400)
        patch.setattr(measures, "TEST_PAIRS", 1000)
        yield


def arms() -> Mapping[str, Arm]:
    """Those of Stage 1 with large batches, all others with small ones."""
    exact, cheap = ({arm.name: arm for arm in study.arms()} for study in (STUDY, CHEAP))
    return {name: exact[name] if name.startswith("stage-one") else cheap[name] for name in exact}


def train(arm: Arm, replicas: range = range(REPLICAS), seed: int = 0) -> xr.Dataset:
    """What is measured on ``arm``, its axes unrolled into a grid."""
    with TemporaryDirectory() as place, few_samples():
        folder = RunFolder.create(Path(place) / "run")
        points = Shard(arm, replicas, seed, "cpu").run(folder, lambda: False, lambda steps, status: None).data
    if not arm.over:
        return points[0]
    names = [axis.name for axis in arm.over]
    return xr.concat(points, "point", join="outer").set_index(point=names).unstack("point")


@cache
def runs(seed: int = 0) -> Mapping[str, xr.Dataset]:
    """All arms but the one that only sweeps use."""
    return {name: train(arm, seed=seed) for name, arm in arms().items() if name != "imbalanced"}


def judged(measured: Mapping[str, xr.Dataset]) -> Mapping[tuple[str, str], Claim]:
    """(id, arm) -> claim."""
    return {(claim.id, claim.arm): claim for claim in STUDY.claims(measured)}


@cache
def healthy() -> Mapping[tuple[str, str], Claim]:
    """The claims of the study as it is."""
    return judged(runs())


def retrained(name: str, steps: int) -> Mapping[tuple[str, str], Claim]:
    """The claims after an arm was trained anew for at most ``steps``.

    What is measured before the first step stays as it was, unless there is but one.
    """
    arm = arms()[name]
    new = train(replace(arm, config=arm.config.shortened(steps), at_start=arm.at_start if steps == 1 else ()))
    old = runs()[name]
    return judged({**runs(), name: new.assign({measure: old[measure] for measure in old if measure not in new})})
