"""The study of the prediction head at a size that takes seconds; each arm is trained once for all tests here."""

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

import jaxtyping
import xarray as xr

from featscope.claims import Claim
from featscope.runs.execute import _join
from featscope.runs.folder import RunFolder
from featscope.runs.shard import Shard
from featscope.studies.base import Arm
from featscope.studies.prediction_head import PredictionHead

STUDY = PredictionHead(starts=16, duration=1e5, steps=2500)
REPLICAS, MORE_REPLICAS = 4, {"batches": 8, "batches-flow": 8}
FEW_STEPS = 20  # where the whole way would take minutes


@cache
def arms() -> Mapping[str, Arm]:
    """By name."""
    found = {arm.name: arm for arm in STUDY.arms()}
    for name in ("random-batches", "random-batches-no-head"):
        found[name] = replace(found[name], config=replace(found[name].config, steps=FEW_STEPS))
    return found


@contextmanager
def unchecked():
    """Types and shapes are not checked: there are thousands of steps, and other tests check each part of one."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def train(arm: Arm) -> xr.Dataset:
    """What is measured on ``arm``, seed 0."""
    with TemporaryDirectory() as place, unchecked():
        folder = RunFolder.create(Path(place) / "run")
        shard = Shard(arm, range(MORE_REPLICAS.get(arm.name, REPLICAS)), 0, "cpu")
        return _join([shard.run(folder, lambda: False, lambda steps, status: None)], arm)


@cache
def healthy(name: str) -> xr.Dataset:
    """What is measured on the arm ``name``."""
    return train(arms()[name])


def trained(instead: Mapping[str, xr.Dataset] = MappingProxyType({})) -> dict[str, xr.Dataset]:
    """All arms; those in ``instead`` are taken from there."""
    return {name: instead[name] if name in instead else healthy(name) for name in arms()}


def verdict(found: list[Claim], claim: str, arm: str) -> str:
    """Of one claim on one arm."""
    (one,) = (c for c in found if (c.id, c.arm) == (claim, arm))
    return one.verdict
