"""What the stored trajectory of a network says: series over steps of its neurons' cosines and norms.

A trajectory has ``alignment`` ``[replica, step, neuron, feature]``, the cosines of neurons and features, and ``norm``
``[replica, step, neuron]``.
"""

import xarray as xr


def growth(run: xr.Dataset) -> xr.DataArray:
    """A_j(t) along A_j(0) over neurons, A_ij = <w_i, M_j>: ``[replica, step, feature]``, 1 at the start."""
    along = run.alignment * run.norm
    start = along.isel(step=0)
    return (along * start).sum("neuron") / (start**2).sum("neuron")


def off_features(run: xr.Dataset) -> xr.DataArray:
    """Root mean square over neurons of the norm off the features, over its start: ``[replica, step]``."""
    off = (run.norm**2 * (1 - (run.alignment**2).sum("feature"))).sum("neuron") ** 0.5
    return off / off.isel(step=0)


def common_and_rare(values: xr.DataArray, minority: int) -> tuple[xr.DataArray, xr.DataArray]:
    """``values`` of the common features, and of the rare ones: the last ``minority``."""
    split = values.sizes["feature"] - minority
    return values.isel(feature=slice(split)), values.isel(feature=slice(split, None))


def reached(event: xr.DataArray) -> xr.DataArray:
    """The step of an event; NaN where it has not happened, or had from the start."""
    return event.where(event > 0)


def in_words(event: xr.DataArray) -> str:
    """When an event happened, mean over replicas."""
    return f"{float(event.mean()):.0f} steps" if (event >= 0).all() else "not reached in all networks"
