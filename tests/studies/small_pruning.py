"""The study of pruning at a size that takes seconds, trained once for all tests in this process."""

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
from featscope.runs.folder import RunFolder
from featscope.runs.shard import Shard
from featscope.studies.axes import Axis
from featscope.studies.base import Arm
from featscope.studies.pruning import Pruning, measures
from featscope.studies.pruning.judge import JUDGED, LITTLE
from featscope.training import ContrastivePairs

STUDY = Pruning(
    data=SparseTokens(features=8, input_dim=32, minority=3, eps_min=0.1, noise_std=0.05),
    objective=ContrastivePairs(pairs=128),
    settling_steps=400,
    steps=700,
)
MORE_REPLICAS = {"stationary": 16, "straight-through": 16, "one-step-noiseless": 16}
"""Where claims are narrow; other arms have 8."""


@contextmanager
def few_batches():
    """Fewer batches for what one step does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measures, "BATCHES", 40)
        yield


def arms() -> Mapping[str, Arm]:
    """By name."""
    return {arm.name: arm for arm in STUDY.arms()}


def train(arm: Arm) -> xr.Dataset:
    """What is measured on ``arm``, seed 0."""
    replicas = range(MORE_REPLICAS.get(arm.name, 8))
    with TemporaryDirectory() as place, few_batches():
        folder = RunFolder.create(Path(place) / "run")
        points = Shard(arm, replicas, 0, "cpu").run(folder, lambda: False, lambda steps, status: None).data
    return xr.concat(points, "ratio", join="outer") if arm.over else points[0]


@cache
def runs() -> Mapping[str, xr.Dataset]:
    """All arms."""
    return {name: train(arm) for name, arm in arms().items()}


def judged(measured: Mapping[str, xr.Dataset]) -> Mapping[tuple[str, str], Claim]:
    """(id, arm) -> claim."""
    return {(claim.id, claim.arm): claim for claim in STUDY.claims(measured)}


@cache
def healthy() -> Mapping[tuple[str, str], Claim]:
    """The claims of `runs`."""
    return judged(runs())


def retrained(name: str, steps: int) -> Mapping[tuple[str, str], Claim]:
    """The claims after one arm was trained anew, for at most ``steps`` and at few ratios."""
    arm = arms()[name]
    kept = {"stationary": (0.0, JUDGED), "random-start-direction": (LITTLE,)}.get(name)
    over = (Axis("pruning.ratio", kept),) if kept else arm.over
    return judged({**runs(), name: train(replace(arm, config=arm.config.shortened(steps), over=over))})
