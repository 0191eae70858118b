"""How long it takes from the points to train on to the others, where some never come so far.

A replica that has not generalised when its run ends would have taken longer: its time is a lower bound. Differences of
times are then bounds, too; where they say nothing, they are NaN, which leaves a claim undecided.
"""

from typing import NamedTuple

import numpy as np
import xarray as xr

from featscope.studies.base import looked
from featscope.studies.grokking.probes import LEARNED

BEYOND = "_beyond_chance"


class Between(NamedTuple):
    """A quantity that lies between two ends, replica by replica ``[replica]``; the upper one may be inf."""

    low: xr.DataArray
    high: xr.DataArray


def times(run: xr.Dataset, suffix: str = "") -> tuple[xr.DataArray, Between]:
    """Steps until the points to train on are fitted, NaN if they never are, and until others are right."""
    fitted, right = run[f"fitted{suffix}"].astype(float), run[f"generalised{suffix}"].astype(float)
    end = run["last_step"].astype(float)
    known = right >= 0
    return fitted.where(fitted >= 0), Between(right.where(known, end), right.where(known, np.inf))


def at_own_end(run: xr.Dataset, series: xr.DataArray) -> xr.DataArray:
    """``series`` when a replica had learned, on straight lines between looks; at its last look where it never did;
    NaN if a look is missing.

    A program goes on until all of its replicas have learned, so what it ends with depends on how many are together.
    """
    at = run[LEARNED].where(run[LEARNED] >= 0, run["last_step"])
    steps = run["step"].values

    def of_one(values: np.ndarray, seen: np.ndarray, step: np.ndarray) -> float:
        return float(np.interp(step, steps[seen], values[seen])) if np.isfinite(values[seen]).all() else np.nan

    return xr.apply_ufunc(of_one, series, looked(run), at, input_core_dims=[["step"], ["step"], []], vectorize=True)


def gap(run: xr.Dataset, suffix: str = "") -> Between:
    """Steps from the one to the other."""
    fitted, right = times(run, suffix)
    return Between(right.low - fitted, right.high - fitted)


def log_ratio(run: xr.Dataset, suffix: str = "") -> Between:
    """Natural log of the one over the other."""
    fitted, right = times(run, suffix)
    low, high = (xr.DataArray(np.log(end / fitted)) for end in right)
    return Between(low, high)


def at_least(one: Between, value: float) -> xr.DataArray:
    """``one``, for a claim that it is ``value`` at least.

    What is only a lower bound counts if the mean is above, which it can only raise; if not it is NaN.
    """
    return one.low if float(one.low.mean()) > value else one.low.where(one.low == one.high)


def more(one: Between, other: Between) -> xr.DataArray:
    """How much more ``one`` is than ``other``, at least, for a claim that it is; see `at_least`.

    NaN where ``other`` has no upper end, so that nothing is known.
    """
    least = one.low - other.high
    least = least.where(np.isfinite(least))
    return at_least(Between(least, least + (one.high - one.low)), 0.0)


def reached(run: xr.Dataset, event: str) -> str:
    """How many replicas came so far, in words."""
    count = int((run[event] >= 0).sum())
    return f"{count} of {run.sizes['replica']}"


def in_a_sentence(run: xr.Dataset) -> str:
    """When the points to train on are fitted and when others are right, as far as the run goes."""
    return f"are {_when(run, 'fitted', 'fitted')}, the others {_when(run, 'generalised', 'right')}"


def _when(run: xr.Dataset, event: str, what: str) -> str:
    came = run[event].where(run[event] >= 0)
    if not bool(came.notnull().any()):
        return f"not {what} in {int(run.last_step.max())} steps"
    some = f" in {reached(run, event)} replicas" if bool(came.isnull().any()) else ""
    return f"{what} after {float(came.mean()):.0f} steps{some}"
