"""What a claim takes of many values, where one that is missing must not be passed over.

xarray leaves NaN out of extremes and means, and compares it as False: a program that answers NaN nearly everywhere
would pass for one that is right everywhere. Here the replica is NaN then, and its claim undecided. What is missing for
a reason (an event that never came, a neuron that never fires) is left out by name, with ``where`` or ``skipna=True``.
"""

from collections.abc import Collection, Hashable

import xarray as xr


def largest(values: xr.DataArray) -> xr.DataArray:
    """Over everything but the replica; NaN if any is."""
    return values.max(_things(values), skipna=False)


def smallest(values: xr.DataArray) -> xr.DataArray:
    """Over everything but the replica; NaN if any is."""
    return values.min(_things(values), skipna=False)


def mean(values: xr.DataArray) -> xr.DataArray:
    """Over everything but the replica; NaN if any is."""
    return values.mean(_things(values), skipna=False)


def mean_of(values: xr.DataArray, chosen: xr.DataArray, over: str | Collection[Hashable]) -> xr.DataArray:
    """Mean along ``over`` of the ``chosen``; NaN if one of them is, or if there is none."""
    return values.where(chosen, 0.0).sum(over, skipna=False) / chosen.broadcast_like(values).sum(over)


def at_all(so: xr.DataArray, chosen: xr.DataArray) -> xr.DataArray:
    """Whether it is ``so``, 0 or 1, at all ``chosen`` steps; NaN if one of them is, or if there is none."""
    return so.where(chosen, 1.0).min("step", skipna=False).where(chosen.any("step"))


def known(values: xr.DataArray, *of: xr.DataArray) -> xr.DataArray:
    """``values``, as numbers where they say whether something is so; NaN where some of what they are ``of`` is.

    Axes that ``values`` does not have were summed over: all along them must be there.
    """
    for one in of:
        values = values.where(one.notnull().all([dim for dim in one.dims if dim not in values.dims]))
    return values.astype(float)


def _things(values: xr.DataArray) -> list[Hashable]:
    return [dim for dim in values.dims if dim != "replica"]
