"""What studies draw and say in the same way: means over replicas with intervals, series over steps, identities."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from featscope.claims import LEVEL, Claim, interval_of_mean
from featscope.figures import Agreement, Bars, Curve, Curves, Heatmaps, Panel, Table
from featscope.tex import raised

INTERVALS = f"Means over replicas with {100 * LEVEL:.3g} % intervals, where replicas differ."
"""What stands under every figure with intervals."""

Ends = Float[np.ndarray, "*shape"]
_UNKNOWN = "an unknown amount"
_SHOWN = 5  # questions whose answers are shown
_LETTERS = 120  # of an answer that are
_ROUNDING = 1e-3  # a share in percent that is none


def over_replicas(
    values: xr.DataArray, within: tuple[float, float] = (-np.inf, np.inf), skipna: bool = False
) -> tuple[Ends, Ends, Ends]:
    """Mean over replicas and the ends of its interval, each with the other dimensions of ``values``.

    NaN where some replica has no value; the ends are NaN for a single replica, whose spread is unknown.

    Args:
        values: ``[replica, ...]`` in any order.
        within: what values can be, as claims take it into account.
        skipna: whether replicas without a value are left out instead.
    """
    values = values.transpose("replica", ...)
    samples = values.values if values.dtype.kind == "f" else values.values.astype(np.float64)  # whole numbers, truths

    def ends_of(one: Float[np.ndarray, " replica"]) -> Float[np.ndarray, "2"]:
        one = one[np.isfinite(one)] if skipna else one
        known = one.size > 1 and np.isfinite(one).all()
        return np.array(interval_of_mean(one, within=within) if known else (np.nan, np.nan), dtype=np.float64)

    ends = np.apply_along_axis(ends_of, 0, samples)
    mean = values.mean("replica", skipna=True).values if skipna else samples.mean(0)
    low, high = np.where(np.isfinite(ends) & np.isfinite(mean), ends, np.nan)
    return mean, low, high


def curve(
    values: xr.DataArray,
    label: str,
    along: str = "step",
    *,
    x: np.ndarray | None = None,
    dashed: bool = False,
    within: tuple[float, float] = (-np.inf, np.inf),
    skipna: bool = False,
) -> Curve:
    """Mean and interval over replicas of ``values`` ``[replica, along]``.

    Args:
        values: what is drawn. Steps at which no replica has a value are left out; where some have none, as they stopped
            early or diverged, the mean has a gap.
        label: legend entry.
        along: the dimension along x.
        x: abscissae; the dimension's own labels if not given.
        dashed: for predictions.
        within: what values can be.
        skipna: whether replicas without a value are left out.
    """
    mean, low, high = over_replicas(values.transpose("replica", along), within, skipna)
    at = values[along].values if x is None else x
    samples = values.transpose("replica", along).values.astype(float)
    seen = np.isfinite(samples).any(0) if along == "step" else np.full(mean.shape, True)
    alone = values.sizes["replica"] < 2
    below, above = (None, None) if alone else (low[seen], high[seen])
    return Curve(label, at[seen], mean[seen], below, above, dashed, samples[:, seen])


def curves(
    values: xr.DataArray,
    each: str,
    label: Callable[[Any], str] = str,
    along: str = "step",
    *,
    within: tuple[float, float] = (-np.inf, np.inf),
) -> list[Curve]:
    """A curve for every value of the dimension ``each``; ``label`` names it."""
    return [
        curve(values.sel({each: part}, drop=True), label(part), along, within=within) for part in values[each].values
    ]


def chart(id: str, title: str, caption: str, *panels: Panel, claims: Sequence[str] = ()) -> Curves:
    """Panels of curves with bands; what bands are is said here. ``claims`` are the ids of those it shows."""
    return Curves(id, title, f"{caption} {INTERVALS}".strip(), panels, claims=claims)


def bars(
    id: str,
    title: str,
    caption: str,
    groups: Sequence[str],
    series: Mapping[str, xr.DataArray],
    y_label: str,
    *,
    within: tuple[float, float] = (-np.inf, np.inf),
    references: Sequence[tuple[float, str]] = (),
    claims: Sequence[str] = (),
) -> Bars:
    """Bars with intervals of ``series``, each ``[replica, group]`` and ``within`` some range; what their lines are is
    said here. ``references`` are (value, label) of horizontal lines."""
    heights = {label: over_replicas(values, within) for label, values in series.items()}
    samples = {label: values.transpose("replica", ...).values.astype(float) for label, values in series.items()}
    caption = f"{caption} {INTERVALS}".strip()
    return Bars(id, title, caption, groups, heights, y_label, references, samples, claims=claims)


def side_by_side(values: Sequence[xr.DataArray]) -> xr.DataArray:
    """Values of several groups, each ``[replica]``, as `bars` takes them: ``[replica, group]``."""
    return xr.concat(values, "group").transpose("replica", "group")


def without_intervals(heights: ArrayLike) -> tuple[Ends, Ends, Ends]:
    """Numbers of which no spread is known, such as printed ones, as series of `Bars`."""
    found = np.asarray(heights, dtype=float)
    return found, np.full_like(found, np.nan), np.full_like(found, np.nan)


def heatmaps(
    id: str,
    title: str,
    caption: str,
    panels: Mapping[str, xr.DataArray],
    rows: tuple[str, str],
    columns: tuple[str, str],
    value_label: str,
    ends: tuple[float, float] | None = None,
    claims: Sequence[str] = (),
) -> Heatmaps:
    """Matrices of means over all dimensions but two, whose coordinates name rows and columns, the same in all panels.

    A cell that some replica has no value of has none.

    Args:
        id: file name and anchor.
        title: what is seen, in a few words.
        caption: how to read it.
        panels: panel label -> values.
        rows: the dimension that goes down, and what it is.
        columns: the dimension that goes across, and what it is.
        value_label: what the colours are, with units.
        ends: of the colour scale; those of the values if not given.
        claims: ids of the claims that it shows.

    Raises:
        ValueError: panels have other rows or columns than the first.
    """
    (down, row_label), (across, column_label) = rows, columns
    each = {
        label: one.mean([d for d in one.dims if d not in (down, across)], skipna=False).transpose(down, across)
        for label, one in panels.items()
    }
    first = next(iter(each.values()))
    for label, one in each.items():
        if not all(np.array_equal(one[axis].values, first[axis].values) for axis in (down, across)):
            raise ValueError(
                f"the panel {label!r} of {id!r} has other rows or columns than the first: expected the same"
            )
    several = any(one.sizes.get("replica", 1) > 1 for one in panels.values())
    return Heatmaps(
        id,
        title,
        f"{caption} Means over replicas." if several else caption,
        {label: mean.values for label, mean in each.items()},
        row_label,
        column_label,
        value_label,
        [f"{place:.12g}" for place in first[down].values],
        [f"{place:.12g}" for place in first[across].values],
        ends,
        claims=claims,
    )


def over_steps(runs: Mapping[str, xr.Dataset], claims: Sequence[str] = ()) -> list[Curves]:
    """A panel for each series that has one value a replica, with a curve for each arm that was watched so.

    A series that is not of the same in all arms, as its description and its units say, has several. No figure where
    there is none.

    Args:
        runs: arm, as it is called -> what was measured on it.
        claims: ids of the claims that it shows.
    """
    of_steps = {"replica", "step"}
    arms = {arm: run for arm, run in runs.items() if run.sizes.get("step", 0) > 1}
    series = dict.fromkeys(
        (str(name), *_about(variable))
        for run in arms.values()
        for name, variable in run.data_vars.items()
        if set(variable.dims) == of_steps
    )
    panels = [
        Panel(
            title=about,
            x_label="training step",
            y_label=name.replace("_", " ") if units == "1" else f"{name.replace('_', ' ')} ({units})",
            curves=[
                curve(run[name], arm)
                for arm, run in arms.items()
                if name in run and set(run[name].dims) == of_steps and _about(run[name]) == (about, units)
            ],
        )
        for name, about, units in series
    ]
    caption = "Arms that were measured only once are left out." if len(arms) < len(runs) else ""
    return [chart("over-steps", "Over the course of training", caption, *panels, claims=claims)] if panels else []


def _about(series: xr.DataArray) -> tuple[str, str]:
    """What it is, and its units."""
    return str(series.attrs.get("long_name") or series.name), str(series.attrs.get("units", "1"))


def identities(claims: Sequence[Claim]) -> list[Agreement]:
    """Every identity and exponent against its prediction; no figure where there is none."""
    every = [c for c in claims if c.relation == "="]
    rows = [c for c in every if np.isfinite([c.measured, c.predicted, *c.interval]).all()]
    if not rows:
        return []
    lost = len(every) - len(rows)
    but = f" but {lost}, of which no value or no interval is known" if lost else ""
    low, high = np.array([c.interval for c in rows]).T
    figure = Agreement(
        "identities",
        "Predictions against measurements",
        f"Every identity and exponent{but}, measured (dot, with its {100 * LEVEL:.3g} % interval) against its "
        "prediction (line) and the accepted range (bar).",
        labels=[f"{c.id} ({c.arm})" for c in rows],
        predicted=np.array([c.predicted for c in rows]),
        measured=np.array([c.measured for c in rows]),
        low=low,
        high=high,
        tolerance=np.array([c.tolerance for c in rows]),
        verdicts=[c.verdict for c in rows],
        claims=tuple(dict.fromkeys(c.id for c in rows)),
    )
    return [figure]


def stored_answers(
    runs: Mapping[str, xr.Dataset],
    score: str,
    shown: tuple[str, str],
    called: Callable[[int], str],
    groups: Int[np.ndarray, " question"],
) -> Iterator[Table]:
    """What was said in the first replica, if it is stored, to five questions of as many groups on which a score
    differs most.

    Args:
        runs: label -> what was measured; all were asked the same.
        score: the measurement.
        shown: what stands above its column, and how a value is written.
        called: number of a question -> what its title calls it.
        groups: of each question; one of a group is shown.
    """
    said = {label: run.isel(replica=0) for label, run in runs.items() if "said" in run}
    if not said:
        return
    scores = {label: run[score].values.ravel() for label, run in said.items()}
    order = np.argsort(-np.ptp(np.stack([*scores.values()]), axis=0), kind="stable")
    first = np.sort(np.unique(groups[order], return_index=True)[1])
    wanted = next(iter(said.values()))["wanted"].values.ravel()
    heading, form = shown
    for question in order[first][:_SHOWN].tolist():
        yield Table(
            f"{called(question)}: “{_shortened(wanted[question])}” is wanted",
            ["method", heading, "answer"],
            [
                [label, form.format(scores[label][question]), _shortened(run["said"].values.ravel()[question])]
                for label, run in said.items()
            ],
        )


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LETTERS else f"{line[: _LETTERS - 1]}…"


def verdict(claims: Sequence[Claim], key: str) -> str:
    """The verdict of the claim "id@arm"; "undecided" where nothing was judged."""
    return next((claim.verdict for claim in claims if f"{claim.id}@{claim.arm}" == key), "undecided")


def of_all(verdicts: Iterable[str]) -> str:
    """The verdict of all together: "holds" if each does, "fails" if one does, "undecided" otherwise, as of none."""
    found = {*verdicts}
    return "fails" if "fails" in found else "holds" if found == {"holds"} else "undecided"


def in_case(claims: Sequence[Claim], key: str, holds: str, fails: str) -> str:
    """What is said where the claim "id@arm" holds, or where it fails; nothing where it is undecided."""
    return {"holds": holds, "fails": fails}.get(verdict(claims, key), "")


def in_words(values: xr.DataArray | float, form: str = "{:.2f}") -> str:
    """The mean of ``values`` for a sentence, as ``form`` has it; words where one of them is missing."""
    mean = _mean(values)
    return form.format(mean) if np.isfinite(mean) else _UNKNOWN


def _mean(values: xr.DataArray | float) -> float:
    """NaN where one is missing, of which xarray's own would be the mean of the others, and of none."""
    found = np.asarray(values, dtype=np.float64)
    return float(found.mean()) if found.size else np.nan


def order(value: float) -> str:
    """A small number by its first digit and its power of ten: 8·10⁻¹⁵; words where there is none."""
    if not np.isfinite(value):
        return _UNKNOWN
    digit, _, power = f"{value:.0e}".partition("e")
    return f"{digit}·10{raised(int(power))}" if value else "0"


def percent(values: xr.DataArray | float) -> str:
    """The mean of shares for a sentence, in percent, with a digit that tells it from 0 or 100; words where one is
    missing."""
    share = 100 * _mean(values)
    if _ROUNDING < share < 1:
        return f"{float(f'{share:.1g}'):g} %"
    return in_words(share, "{:.1f} %" if 99.5 <= share < 99.95 else "{:.0f} %")


def counted(number: int, one: str) -> str:
    """How many: 1 text, 2 texts."""
    return f"{number} {one}{'' if number == 1 else 's'}"
