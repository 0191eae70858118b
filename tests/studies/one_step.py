"""A step of every arm of every study, taken once for all tests that ask for no more."""

from functools import cache

import xarray as xr

from featscope.registry import entries, find
from featscope.studies import Study
from featscope.testing import measure

NAMES = [name for name, entry in entries().items() if entry.target.startswith("featscope.")]
"""The studies of this package."""


@cache
def one_step(name: str) -> tuple[Study, dict[str, xr.Dataset]]:
    """The study at its smallest, and what two replicas of each arm measure around a step."""
    _, kind = find(name)
    study = kind().smallest()
    return study, {arm.name: measure(study, arm, 2, at_most=1) for arm in study.arms()}
