"""Every arm of every study takes a step on a GPU, and measures there what it measures on the processor."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from featscope.registry import entries, find
from featscope.runs.execute import join
from featscope.runs.folder import RunFolder
from featscope.runs.shard import Shard
from featscope.studies import Arm, Study

ARMS = [
    (name, arm.name)
    for name, entry in entries().items()
    if entry.target.startswith("featscope.")
    for arm in find(name)[1]().smallest().arms()
]
TIMES = {"s", "ms"}


def measured(study: Study, arm: Arm, device: str, place: Path) -> xr.Dataset:
    replicas = [range(2)] if arm.recipe.replica_axis else [range(1)]
    folder = RunFolder.create(place / device)
    shards = [Shard(study, arm, those, 0, device, 1) for those in replicas]
    return join([shard.run(folder, lambda: False, lambda steps, status: None) for shard in shards], arm)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # after one step much is missing
@pytest.mark.parametrize(("name", "arm"), ARMS)
def test_a_step_measures_what_it_does_on_the_processor(name, arm, tmp_path):
    study = find(name)[1]().smallest()
    here, there = (measured(study, study.arm(arm), device, tmp_path) for device in ("cpu", "cuda"))
    assert set(there.variables) == set(here.variables)
    wrong = {
        variable: found
        for variable in here.data_vars
        if here[variable].attrs.get("units") not in TIMES
        if (found := _apart(here[variable].values, there[variable].values)) > 2e-3
    }
    assert not wrong


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
