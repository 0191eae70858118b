"""Sums of an arm beside what the lemmas say of them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import xarray as xr

from featscope.models.power_sequences import LEVEL
from featscope.theory import tensor_power as theory

DELTAS = (0.01, 0.1, 0.5, 1.0)
_DELTA = xr.DataArray(list(DELTAS), dims="delta")


class Sums(NamedTuple):
    """An arm as its sums are judged.

    Attributes:
        run: what was measured.
        step_size: η, along the arm's axis where it has one; as A = 1, it is the printed η A^q too.
        power: q that the lemmas are told.
        weight: q' likewise.
    """

    run: xr.Dataset
    step_size: xr.DataArray | float
    power: int
    weight: int

    def limit(self, weight: int = 0) -> xr.DataArray:
        """Σ η C_t x_t^q' as η goes to 0, without ``weight`` Σ η C_t."""
        return xr.apply_ufunc(theory.sum_limit, self.run["leader_start"], LEVEL, self.power, weight)

    @property
    def which(self) -> str:
        """What a bound on the weighted sum is looked at for."""
        return f"δ in {DELTAS}, q = {self.power}, q' = {self.weight}."

    def over(self, bound: Callable[..., Any], step: xr.DataArray | float, *weight: int, **words: bool) -> xr.DataArray:
        """The sum less a printed ``bound`` with every δ, over the limit; with ``weight`` the weighted sum."""
        printed = xr.apply_ufunc(
            bound, self.run["leader_start"], LEVEL, self.power, *weight, _DELTA, step, kwargs=words
        )
        return (self.run["weighted" if weight else "total"] - printed) / self.limit(*weight)


def clearest(run: xr.Dataset) -> xr.Dataset:
    """Where sums are closest to their limit: at the smallest η, or at the largest x_0."""
    return run.isel({"step_size": 0, "start": -1}, missing_dims="ignore")


def mean(values: xr.DataArray) -> xr.DataArray:
    """Over sequences; NaN if any is."""
    return values.mean("sequence", skipna=False)


def rival_growth(run: xr.Dataset) -> xr.DataArray:
    """y/y_0 at the last t with x_t <= A."""
    return run["rival_before"] / run["rival_start"]
