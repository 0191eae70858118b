"""What is made of recorded series, for claims and for figures."""

from collections.abc import Mapping

import torch
import xarray as xr

from featscope.probes import rank_correlation


def energy(run: xr.Dataset) -> xr.DataArray:
    """Share of feature energy ||Mᵀw_i||²/||w_i||², mean over neurons: ``[replica, step]``."""
    return (run.alignment**2).sum("feature", skipna=False).mean("neuron")


def along_features(run: xr.Dataset) -> xr.DataArray:
    """Σ_i ||Mᵀw_i||²: ``[replica, step]``."""
    return ((run.alignment**2).sum("feature", skipna=False) * run.norm**2).sum("neuron", skipna=False)


def order_kept(run: xr.Dataset) -> xr.DataArray:
    """Rank correlation of neurons' |alignments| between the start and the last look before T1, mean over neurons.

    NaN where Stage I did not end.
    """
    ended = run.stage1_end
    until = xr.apply_ufunc(lambda end: run["step"].values.searchsorted(end, "right") - 1, ended).clip(min=0)
    start, end = (run.alignment.isel(step=at).transpose("replica", "neuron", "feature").values for at in (0, until))
    kept = rank_correlation(torch.from_numpy(start), torch.from_numpy(end)).numpy().mean(-1)
    return ended.copy(data=kept).where(ended >= 0)


def numbered(runs: Mapping[str, xr.Dataset], prefix: str) -> dict[float, xr.Dataset]:
    """Number -> run of the arms called ``prefix`` and a number, in the order of numbers."""
    found = {float(name.removeprefix(prefix)): run for name, run in runs.items() if name.startswith(prefix)}
    return dict(sorted(found.items()))
