"""Means over replicas with their intervals, as figures show them."""

from collections.abc import Mapping

import numpy as np
import xarray as xr
from jaxtyping import Float

from featscope.claims import LEVEL, interval_of_mean
from featscope.figures import Curve, Curves, Panel

Ends = Float[np.ndarray, "*shape"]


def over_replicas(values: xr.DataArray) -> tuple[Ends, Ends, Ends]:
    """Mean over replicas and the ends of its interval, each with the other dimensions of ``values``.

    NaN where some replica has no value; the ends are NaN for a single replica, whose spread is unknown.
    """
    samples = values.transpose("replica", ...).values
    ends = np.apply_along_axis(interval_of_mean, 0, samples)
    mean = samples.mean(0)
    low, high = np.where(np.isfinite(ends) & np.isfinite(mean), ends, np.nan)
    return mean, low, high


def band(label: str, series: xr.DataArray, *, dashed: bool = False) -> Curve:
    """Mean and interval over replicas of ``series`` ``[replica, step]``.

    Steps at which some replica has no value (its shard stopped early) are left out.
    """
    mean, low, high = over_replicas(series)
    seen = np.isfinite(mean)
    steps, alone = series["step"].values[seen], series.sizes["replica"] < 2
    return Curve(label, steps, mean[seen], None if alone else low[seen], None if alone else high[seen], dashed)


def banded(label: str, x: np.ndarray, values: xr.DataArray, *, dashed: bool = False) -> Curve:
    """Mean and interval over replicas of ``values`` ``[replica, point]`` at ``x``."""
    middle, low, high = over_replicas(values)
    alone = values.sizes["replica"] < 2
    return Curve(label, x, middle, None if alone else low, None if alone else high, dashed)


def over_steps(runs: Mapping[str, xr.Dataset]) -> Curves:
    """A panel for each series that has one value a replica, with a curve for each arm that was watched so."""
    arms = {arm: run for arm, run in runs.items() if run.sizes["step"] > 1}
    series = {
        str(name): (variable.attrs.get("long_name") or str(name), variable.attrs.get("units", "1"))
        for run in arms.values()
        for name, variable in run.data_vars.items()
        if set(variable.dims) == {"replica", "step"}
    }
    panels = [
        Panel(
            title=about,
            x_label="training step",
            y_label=name.replace("_", " ") if units == "1" else f"{name.replace('_', ' ')} ({units})",
            curves=[band(arm, run[name]) for arm, run in arms.items() if name in run],
        )
        for name, (about, units) in series.items()
    ]
    caption = f"Means over replicas with {100 * LEVEL:.3g} % intervals; arms that were measured only once are left out."
    return Curves("over-steps", "Over the course of training", caption, panels)
