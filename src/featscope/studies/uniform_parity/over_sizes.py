"""What is read off series over sizes: where the angle opens, and powers of the dimension."""

import numpy as np
import xarray as xr

from featscope.claims import fitted_exponent


def opens_at(run: xr.Dataset) -> xr.DataArray:
    """The size of a sample from which on its gradients are within 45 degrees of D, between sizes on a log scale.

    NaN where they are so from the first size on, or at no size.
    """
    logs = np.log(run.tangent.transpose("replica", "samples"))
    sizes = np.log(run.samples.values.astype(float))
    found = []
    for one in logs.values:
        below = np.flatnonzero(one < 0)
        place = below[0] if below.size else 0
        if place == 0:
            found.append(np.nan)
            continue
        part = one[place - 1] / (one[place - 1] - one[place])
        found.append(float(np.exp(sizes[place - 1] + part * (sizes[place] - sizes[place - 1]))))
    return xr.DataArray(found, dims="replica")


def exponents(run: xr.Dataset) -> xr.DataArray:
    """Of ‖G‖ in d ``[replica, block]``."""
    d = run.dimension.values.astype(float)
    found = [fitted_exponent(d, run.length.sel(block=k).transpose("replica", "dimension").values) for k in run.block]
    return xr.DataArray(np.stack(found, 1), {"block": run.block}, ("replica", "block"))
