"""What studies draw in the same way: means over replicas with their intervals, series over steps, identities."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from featscope.claims import LEVEL, Claim, interval_of_mean
from featscope.figures import Agreement, Curve, Curves, Panel

INTERVALS = f"Means over replicas with {100 * LEVEL:.3g} % intervals."
"""What stands under every figure with intervals."""

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


def curve(
    values: xr.DataArray,
    label: str,
    along: str = "step",
    *,
    x: np.ndarray | None = None,
    dashed: bool = False,
) -> Curve:
    """Mean and interval over replicas of ``values`` ``[replica, along]``.

    Args:
        values: what is drawn. Steps at which some replica has no value (its shard stopped early) are left out.
        label: legend entry.
        along: the dimension along x.
        x: abscissae; the dimension's own labels if not given.
        dashed: for predictions.
    """
    mean, low, high = over_replicas(values.transpose("replica", along))
    at = values[along].values if x is None else x
    seen = np.isfinite(mean) if along == "step" else np.full(mean.shape, True)
    alone = values.sizes["replica"] < 2
    return Curve(label, at[seen], mean[seen], None if alone else low[seen], None if alone else high[seen], dashed)


def curves(
    values: xr.DataArray, each: str, label: Callable[[Any], str] = str, along: str = "step", *, dashed: bool = False
) -> list[Curve]:
    """A curve for every value of the dimension ``each``; ``label`` names it."""
    return [
        curve(values.sel({each: part}, drop=True), label(part), along, dashed=dashed) for part in values[each].values
    ]


def chart(id: str, title: str, caption: str, *panels: Panel, claims: Sequence[str] = ()) -> Curves:
    """Panels of curves with bands; what bands are is said here. ``claims`` are the ids of those it shows."""
    return Curves(id, title, f"{caption} {INTERVALS}".strip(), panels, claims=claims)


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
            curves=[curve(run[name], arm) for arm, run in arms.items() if name in run],
        )
        for name, (about, units) in series.items()
    ]
    caption = "Arms that were measured only once are left out."
    return chart("over-steps", "Over the course of training", caption, *panels)


def identities(claims: Sequence[Claim]) -> list[Agreement]:
    """Every identity and exponent against its prediction; no figure where there is none."""
    rows = [c for c in claims if c.relation == "=" and np.isfinite([c.measured, c.predicted, *c.interval]).all()]
    if not rows:
        return []
    low, high = np.array([c.interval for c in rows]).T
    figure = Agreement(
        "identities",
        "Predictions against measurements",
        f"Every identity and exponent, measured (dot, with its {100 * LEVEL:.3g} % interval) against its prediction "
        "(line) and the accepted range (bar).",
        labels=[f"{c.id} ({c.arm})" for c in rows],
        predicted=np.array([c.predicted for c in rows]),
        measured=np.array([c.measured for c in rows]),
        low=low,
        high=high,
        tolerance=np.array([c.tolerance for c in rows]),
        claims=tuple(dict.fromkeys(c.id for c in rows)),
    )
    return [figure]
