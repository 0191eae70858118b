"""What the stored trajectory of a network says: series over steps of its neurons' cosines and norms.

A trajectory has ``alignment`` ``[replica, step, neuron, feature]``, the cosines of neurons and features, and ``norm``
``[replica, step, neuron]``.
"""

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float

from featscope.probes.alignment import rank_correlation


def growth(run: xr.Dataset) -> xr.DataArray:
    """A_j(t) along A_j(0) over neurons, A_ij = <w_i, M_j>: ``[replica, step, feature]``, 1 at the start."""
    along = run.alignment * run.norm
    start = along.isel(step=0)
    return (along * start).sum("neuron") / (start**2).sum("neuron")


def energy(run: xr.Dataset) -> xr.DataArray:
    """Share of feature energy ||Mᵀw_i||²/||w_i||², mean over neurons: ``[replica, step]``."""
    return (run.alignment**2).sum("feature", skipna=False).mean("neuron")


def energies(run: xr.Dataset) -> xr.DataArray:
    """Share of feature energy of each neuron: ``[replica, step, neuron]``."""
    return (run.alignment**2).sum("feature", skipna=False)


def lucky(run: xr.Dataset, constant: float) -> xr.DataArray:
    """Which neurons start lucky for which features, see `alignment.lucky`: ``[replica, neuron, feature]``."""
    share = (run.alignment**2 / energies(run)).isel(step=0, drop=True)
    return share >= constant * np.log(share.sizes["feature"]) / share.sizes["feature"]


def lucky_alone(run: xr.Dataset, constant: float, sure: float) -> xr.DataArray:
    """The same of those that are lucky by the constant ``sure`` for one feature, and by ``constant`` for no other."""
    chosen = lucky(run, constant)
    return lucky(run, sure) & (chosen.sum("feature") == 1)


def along_features(run: xr.Dataset) -> xr.DataArray:
    """Σ_i ||Mᵀw_i||²: ``[replica, step]``."""
    return ((run.alignment**2).sum("feature", skipna=False) * run.norm**2).sum("neuron", skipna=False)


def off_features(run: xr.Dataset) -> xr.DataArray:
    """Root mean square over neurons of the norm off the features, over its start: ``[replica, step]``."""
    off = (run.norm**2 * (1 - (run.alignment**2).sum("feature"))).sum("neuron") ** 0.5
    return off / off.isel(step=0)


def common_and_rare(values: xr.DataArray, minority: int) -> tuple[xr.DataArray, xr.DataArray]:
    """``values`` of the common features, and of the rare ones: the last ``minority``."""
    split = values.sizes["feature"] - minority
    return values.isel(feature=slice(split)), values.isel(feature=slice(split, None))


def sorted_by_feature(values: xr.DataArray, steps: np.ndarray) -> Float[np.ndarray, "replica look neuron feature"]:
    """Frames of a movie: ``values`` at ``steps``, neurons sorted by the feature of which they have most at the end.

    Args:
        values: ``[replica, step, neuron, feature]`` in any order; a replica that stopped early keeps its last look.
        steps: steps at which to look.
    """
    frames = []
    for one in values.transpose("replica", "step", "neuron", "feature"):
        looks = one.dropna("step").sel(step=steps, method="ffill").values
        frames.append(looks[:, np.lexsort((-looks[-1].max(-1), looks[-1].argmax(-1)))])
    return np.stack(frames)


def order_kept(run: xr.Dataset, event: xr.DataArray) -> xr.DataArray:
    """Rank correlation of neurons' |alignments| between the start and the last look until an event, mean over neurons.

    NaN where it has not happened.
    """
    until = xr.apply_ufunc(lambda step: run["step"].values.searchsorted(step, "right") - 1, event).clip(min=0)
    start, end = (run.alignment.isel(step=at).transpose("replica", "neuron", "feature").values for at in (0, until))
    kept = rank_correlation(torch.from_numpy(start), torch.from_numpy(end)).numpy().mean(-1)
    return event.copy(data=kept).where(event >= 0)


def first_look(run: xr.Dataset, series: xr.DataArray, event: xr.DataArray) -> xr.DataArray:
    """``series`` when each replica was first looked at after an event: ``[replica, ...]``; NaN where there was none."""
    steps = run["step"].values
    place = xr.apply_ufunc(lambda step: steps.searchsorted(step), event)
    return series.isel(step=place.clip(max=steps.size - 1)).where((event >= 0) & (place < steps.size))


def last_look(run: xr.Dataset, until: float) -> int:
    """The last step at which there was a look, up to ``until``."""
    steps = run["step"].values
    return int(steps[steps <= until][-1])


def reached(event: xr.DataArray) -> xr.DataArray:
    """The step of an event; NaN where it has not happened, or had from the start."""
    return event.where(event > 0)


def event_in_words(event: xr.DataArray) -> str:
    """When an event happened, mean over replicas."""
    return f"{float(event.mean()):.0f} steps" if (event >= 0).all() else "not reached in all networks"
