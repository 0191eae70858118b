"""A step of every arm of every study, taken once for all tests that ask for no more."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import jaxtyping
import pytest
import xarray as xr

import featscope.check
from featscope.check import Checked
from featscope.registry import entries, find
from featscope.studies import Arm, Study
from featscope.testing import measure

NAMES = [name for name, entry in entries().items() if entry.target.startswith("featscope.")]
"""The studies of this package."""

SLOW = (
    "contrastive-fine-tuning",
    "decoupling",
    "fixed-features",
    "fourier-circuits",
    "gemfilter",
    "gradient-features",
    "icl-parity",
    "imbalance",
    "learned-filters",
    "nuclear-norm",
    "prediction-head",
    "pruning",
    "universality",
)
EACH = [pytest.param(name, marks=[pytest.mark.long] if name in SLOW else []) for name in NAMES]
"""The same for tests; those of which a step takes longest are left to --long."""

FLOWS = ("prediction-head",)
"""Some arms begin where a flow of hundreds of steps ends: types are checked in the tests of `featscope.training`."""


@cache
def checked(name: str) -> tuple[Checked, Study, dict[str, xr.Dataset]]:
    """What a check of the study found, the study at its smallest, and what the check measured of two replicas.

    Types are checked while it lasts, whichever test is the first to ask for it.
    """
    _, kind = find(name)
    runs: dict[str, xr.Dataset] = {}

    def remembered(study: Study, arm: Arm, replicas: Any, **rest: Any) -> xr.Dataset:
        found = measure(study, arm, replicas, **rest)
        return runs.setdefault(arm.name, found) if replicas == 2 else found

    left_out = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", name in FLOWS)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(featscope.check, "measure", remembered)
            found = featscope.check.check(kind())
    finally:
        jaxtyping.config.update("jaxtyping_disable", left_out)
    return found, kind().smallest(), runs


def one_step(name: str) -> tuple[Study, Mapping[str, xr.Dataset]]:
    """The study at its smallest, and what two replicas of each arm measure around a step."""
    _, study, runs = checked(name)
    return study, runs
