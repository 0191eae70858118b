"""The page that lays runs beside each other."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from shlex import quote

import numpy as np
from jaxtyping import Float

from featscope.catalogue import OWN_TRAINING
from featscope.claims import LEVEL
from featscope.figures import Curve, Curves, Panel, Table
from featscope.report.folder import write_report
from featscope.report.numbers import decimals_for, number
from featscope.report.page import Content
from featscope.runs.compared import Pair, StoredRun, after_holm, environments, options, pairs, shift
from featscope.studies.summaries import INTERVALS, counted, over_steps

_FIRST, _AT_MOST = 4, 40  # panels at the top of the page, and in all
_ROUNDING = 1e-9
_OF_OWN = "Of how these trainings of your own were set up, what `about=` told is all that is known."


def write_comparison(runs: Sequence[StoredRun], out: Path) -> Path:
    """Write ``report.html`` and its figures into ``out``; the page's path.

    Args:
        runs: see `featscope.runs.compared.read_runs`; the others are compared with the first.
        out: a folder, which is made.
    """
    first, *others = runs
    found = {other.name: pairs(first, other) for other in others}
    names = [run.name for run in runs]
    curves = _curves(runs)
    content = Content(
        title=first.plan["study"],
        question=f"What is different between {', '.join(names[:-1])} and {names[-1]}?",
        found=headline(runs, found),
        lede=_lede(runs),
        tables=[
            *_set_otherwise(runs),
            *(_claims(first, other, found[other.name]) for other in others if found[other.name]),
            *_alone(runs),
        ],
        figures=curves,
        replicas=max(run.plan["replicas"] for run in runs),
        replicas_of=_replicas(runs),
        command=f"featscope compare {' '.join(quote(str(run.folder)) for run in runs)}",
    )
    out.mkdir(parents=True, exist_ok=True)
    return write_report(out, content)


def set_otherwise(runs: Sequence[StoredRun]) -> list[tuple[str, Mapping[str, Sequence[str]]]]:
    """Options, then versions and machines, with what those that are not the same in all are in each."""
    known = "options that are known" if known_alone(runs) else "options"
    return [(known, options(runs)), ("versions and machines", environments(runs))]


def known_alone(runs: Sequence[StoredRun]) -> str:
    """Of trainings of one's own, that not all of their options are known; else nothing."""
    return _OF_OWN if runs[0].plan["study"] == OWN_TRAINING.name else ""


def headline(runs: Sequence[StoredRun], found: Mapping[str, Mapping[str, Pair]]) -> str:
    """What differs, in a sentence or two."""
    if not any(run.claims for run in runs):
        return "Nothing is claimed of these runs; their curves are laid over each other."
    said = []
    for name, of in found.items():
        changed = sum(pair.changed for pair in of.values())
        sure = len(after_holm(of))
        verdicts = "no verdict is another one" if not changed else f"{changed} verdicts are others"
        verdicts = "1 verdict is another one" if changed == 1 else verdicts
        apart = "no measurement with an interval differs" if not sure else f"{sure} measurements differ"
        apart = "1 measurement differs" if sure == 1 else apart
        against = "" if len(found) == 1 else f"{name}: "
        said.append(f"{against}Of {counted(len(of), 'claim')} that both judge, {verdicts}; {apart} by more than chance")
    return ". ".join(said) + "."


def _lede(runs: Sequence[StoredRun]) -> str:
    if not any(run.claims for run in runs):
        return known_alone(runs)
    first, *others = runs
    same = [run for run in others if run.draws == first.draws]
    apart = [run for run in others if run.draws != first.draws]
    how = []
    if same:
        of = f" of {' and '.join(run.name for run in (first, *same))}" if apart else ""
        how.append(
            f"Replicas of one number{of} began from the same draws and are compared with each other, "
            "where there are as many."
        )
    if apart:
        what = "seeds" if any(run.draws[0] != first.draws[0] for run in apart) else "random numbers"
        of = f", as those of {' and '.join(run.name for run in apart)}," if same else ""
        alone = min(run.plan["replicas"] for run in (first, *apart)) < 2
        welch = "with Welch's interval, which is wider where one run has few"
        interval = "which has no interval where a run has one replica" if alone else welch
        how.append(f"Replicas of different {what}{of} are independent: their means are compared, {interval}.")
    how.append(f"A difference is the later run less {first.name}. It counts where it survives Holm's correction.")
    return " ".join(how)


def _replicas(runs: Sequence[StoredRun]) -> str:
    """How many each run has, in words; nothing where all have as many."""
    counts = {run.name: run.plan["replicas"] for run in runs}
    if len({*counts.values()}) == 1:
        return ""
    return ", ".join(f"{name} has {n} replica{'s' if n > 1 else ''}" for name, n in counts.items())


def _set_otherwise(runs: Sequence[StoredRun]) -> list[Table]:
    names = [run.name for run in runs]
    found = []
    for title, rows in set_otherwise(runs):
        if rows:
            found.append(
                Table(
                    f"{title.capitalize()} that differ",
                    ["", *names],
                    [[name, *values] for name, values in rows.items()],
                )
            )
        else:
            found.append(Table(f"{title.capitalize()}: all the same", [], []))
    return found


def _claims(first: StoredRun, other: StoredRun, found: Mapping[str, Pair]) -> Table:
    sure = after_holm(found)
    rows = [_row(key, pair, key in sure) for key, pair in found.items()]
    rows.sort(key=lambda row: (row[-1] == "", not row[-1].startswith("another verdict")))
    headings = ["claim", first.name, other.name, "difference", f"{100 * LEVEL:.3g} % interval", ""]
    return Table(f"{other.name} beside {first.name}, claim by claim", headings, rows)


def _row(key: str, pair: Pair, sure: bool) -> list[str]:
    claim, _, arm = key.partition("@")
    values = [f"{number(one.measured)}, {one.verdict}" for one in (pair.one, pair.other)]
    interval = "" if pair.one.chance and pair.other.chance else "none: no chance enters within a run"
    if pair.difference is not None:
        low, high = pair.difference.interval
        decimals = decimals_for(low, high)
        interval = f"{number(low, decimals)} to {number(high, decimals)}" + (", paired" if pair.paired else "")
    said = "another verdict" if pair.changed else ("differs" if sure else "")
    if pair.asked_otherwise:
        said = f"{said}, another bound".removeprefix(", ")
    title = pair.one.title or pair.one.statement
    return [f"{title} ({claim}, {arm})", *values, number(shift(pair)), interval, said]


def _alone(runs: Sequence[StoredRun]) -> list[Table]:
    """Claims that some of the runs do not judge."""
    everywhere = set.intersection(*(set(run.claims) for run in runs))
    keys = dict.fromkeys(key for run in runs for key in run.claims if key not in everywhere)
    rows = [[key, *(run.claims[key].verdict if key in run.claims else "-" for run in runs)] for key in keys]
    return [Table("Claims that not all of them judge", ["claim", *(run.name for run in runs)], rows)] if rows else []


def _curves(runs: Sequence[StoredRun]) -> list[Curves]:
    """What all of them measured over steps: a panel for each series and arm, with a curve a run."""
    shared = set.intersection(*(set(run.runs) for run in runs))
    of_one_arm = all(len(run.runs) == 1 for run in runs)  # as trainings of one's own: its name says nothing
    panels: dict[tuple[str, str], Panel] = {}
    for run in runs:
        for figure in over_steps({arm: data for arm, data in run.runs.items() if arm in shared}):
            for panel in figure.panels:
                for curve in panel.curves:
                    title = panel.title if of_one_arm else f"{panel.title}, {curve.label}"
                    new = replace(panel, title=title, curves=[])
                    series = panel.y_label, curve.label  # titles describe, and versions may differ in that
                    known = panels.setdefault(series, new)
                    more = [*known.curves, replace(curve, label=run.name)]
                    panels[series] = replace(known, curves=more)
    several = [panel for panel in panels.values() if len(panel.curves) > 1]
    several.sort(key=_apart, reverse=True)
    figures = [
        ("furthest", "Where the runs are furthest apart", several[:_FIRST]),
        ("others", "All else that they share", several[_FIRST:_AT_MOST]),
    ]
    left = f"{len(several) - _AT_MOST} more are not drawn." if len(several) > _AT_MOST else ""
    caption = "A panel for each series and arm, a curve a run."
    found = []
    for id, title, drawn in figures:
        own = _units(drawn) if id == "furthest" else left
        means = INTERVALS if any(_half_widths(panel.curves) for panel in drawn) else ""
        if drawn:
            found.append(Curves(id, title, " ".join(filter(None, (caption, own, means))), drawn))
    return found


def _units(panels: Sequence[Panel]) -> str:
    """What `_apart` measured in, of these panels."""
    pairs = [(panel.curves[0], curve) for panel in panels for curve in panel.curves[1:]]
    by_intervals = {len(_half_widths(pair)) == 2 for pair in pairs}
    if by_intervals == {True, False}:
        return "In units of their intervals; where not both curves have these, as shares of the range that both have."
    return "In units of their intervals." if True in by_intervals else "As shares of the range that both curves have."


def _half_widths(curves: Sequence[Curve]) -> list[Float[np.ndarray, " point"]]:
    """Of the curves that have intervals."""
    found = [(one.high - one.low) / 2 for one in curves if one.high is not None and one.low is not None]
    return [width for width in found if np.isfinite(width).any()]


def _apart(panel: Panel) -> float:
    """How far the curves after the first are from it at most, in units of both half intervals.

    Where there are no intervals, as of single replicas, it is in units of the range that both curves have.
    """
    first, *others = panel.curves
    found = [0.0]
    for curve in others:
        _, here, there = np.intersect1d(first.x, curve.x, return_indices=True)
        gap = np.abs(first.y[here] - curve.y[there])
        widths = _half_widths([first, curve])
        if len(widths) == 2:
            room = np.hypot(widths[0][here], widths[1][there])
        else:
            both = np.concatenate([first.y[here], curve.y[there]])
            both = both[np.isfinite(both)]
            room = np.full(gap.shape, np.ptp(both) if both.size else 0.0)
        size = np.abs(first.y[here]).max(initial=_ROUNDING, where=np.isfinite(first.y[here]))
        found += (gap / np.maximum(room, _ROUNDING * size)).tolist()
    finite = [value for value in found if isfinite(value)]
    return max(finite)
