"""The study of the tensor power method at a size that takes seconds, run once for all tests in this process."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import xarray as xr

from featscope.claims import Claim
from featscope.runs.folder import RunFolder
from featscope.runs.shard import Shard
from featscope.studies.axes import Axis
from featscope.studies.base import Arm
from featscope.studies.tensor_power import TensorPower

STUDY = TensorPower()
REPLICAS = 4
OVER = {
    "step-sizes": (Axis("step_size", (0.01, 0.03, 0.1)),),
    "starts": (Axis("start", (0.05, 0.1, 0.2)),),
}
"""Fewer and larger steps than by default."""


def arms() -> Mapping[str, Arm]:
    """By name."""
    return {arm.name: replace(arm, over=OVER.get(arm.name, arm.over)) for arm in STUDY.arms()}


def train(arm: Arm) -> xr.Dataset:
    """What is measured on ``arm``, seed 0."""
    with TemporaryDirectory() as place:
        folder = RunFolder.create(Path(place) / "run")
        points = Shard(arm, range(REPLICAS), 0, "cpu").run(folder, lambda: False, lambda steps, status: None).data
    return xr.concat(points, arm.over[0].name, join="outer") if arm.over else points[0]


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
