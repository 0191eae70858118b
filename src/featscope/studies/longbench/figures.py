"""The figures of the study, described for the report to draw."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import xarray as xr
from jaxtyping import Float

from featscope.claims import LEVEL
from featscope.claims.averages import group_means
from featscope.figures import Bars, Curve, Curves, Panel, Table
from featscope.language.longbench import SUITES
from featscope.language.longbench.published import PUBLISHED, PublishedRow, nearest_pair
from featscope.language.methods import listed
from featscope.studies.summaries import counted, stored_answers

Values = Float[np.ndarray, " group"]
Ends = tuple[Values, Values, Values]
Examples = Mapping[str, Mapping[str, Float[np.ndarray, " example"]]]
"""Arm -> answer -> its values of all examples."""

_HEADINGS = {name: task.heading for suite in SUITES.values() for name, task in suite.tasks.items()}
LENGTH, SCORE = "length of the prompt (tokens)", "score (points of 100)"
_BY_LAYER = ("gemfilter", "question-kept", "fastkv", "promptdistill", "middle-row")
ARMS = {name: listed(name).label for name in ("full", "snapkv", "adakv", "h2o", *_BY_LAYER)}
_FEWEST = 10
"""Texts of a task from which on its interval is drawn; that of two or four hides all else."""
_INTERVALS = f"Intervals are at {100 * LEVEL:.3g} %, over texts, of tasks with {_FEWEST} or more and of the mean."
_COMPARED = (
    "gemfilter-is-comparable-to-snapkv",
    "question-kept-is-comparable-to-snapkv",
    "gemfilter-is-no-worse-than-h2o",
)


def scores(found: Examples, tasks: Sequence[str], said: str, keep: int, layer: int) -> Bars:
    """Mean scores of each method on ``tasks``; ``said`` is what must be said of the data first."""
    chooses = f"; layer {layer} chooses, where one does" if {*found}.intersection(_BY_LAYER) else ""
    return Bars(
        "scores",
        "Scores per task" + (", on made-up data" if said else ""),
        f"{said}Mean scores{f' with {keep} tokens kept' if {*found} - {'full'} else ''}{chooses}. {_INTERVALS}",
        _groups(tasks),
        {label: _means(found, found[arm]["score"]) for arm, label in ARMS.items() if arm in found},
        SCORE,
        claims=("something-to-lose", *_COMPARED),
    )


def differences(found: Examples, tasks: Sequence[str], said: str, keep: int, published: str | None) -> Iterator[Bars]:
    """What GemFilter gains and loses; beside it what it does in the paper's table ``published``, if there is one.

    Nothing where no two of the methods were run.
    """
    series = {
        f"{ARMS[one]} less {ARMS[other]}": _means(found, found[one]["score"] - found[other]["score"], -100.0)
        for one, other in (("gemfilter", "snapkv"), ("gemfilter", "full"), ("question-kept", "snapkv"))
        if {one, other} <= found.keys()
    }
    if not series:
        return
    beside = ""
    if not said and published and (pair := nearest_pair(published, keep)):
        one, other = (PUBLISHED[published][method].of(tasks) for method in pair)
        series[f"{' less '.join(pair)}, printed"] = _printed(one - other)
        beside = f" Beside them, {published} in the paper."
    yield Bars(
        "differences",
        "What GemFilter gains and loses",
        f"{said}Differences of scores, paired by example.{beside} {_INTERVALS}",
        _groups(tasks),
        series,
        "difference (points)",
        references=[(0.0, "equal")],
        claims=_COMPARED,
    )


def printed(tasks: Sequence[str], published: str, keep: int) -> Bars:
    """What the paper reports in its table ``published``."""
    return Bars(
        "published",
        f"What the paper reports: {published}",
        "As printed, of the real LongBench and the paper's model; the average is over the tasks shown. To be compared "
        "with the scores above only where model and data are the paper's.",
        _groups(tasks),
        {row.method: _printed(row.of(tasks)) for row in _printed_rows(published, keep)},
        SCORE,
        claims=("published-averages-are-means", "published-scores-are-comparable"),
    )


def lengths(found: Examples, said: str, keep: int) -> Curves:
    """How long prompts are, and scores by their length."""
    one = next(iter(found.values()))  # prompts are the same for all
    tokens = one["tokens"]
    order = np.argsort(tokens, kind="stable")
    parts = [part for part in np.array_split(order, 6) if part.size]
    centres = np.array([tokens[part].mean() for part in parts])
    cut = int((one["cut"] > 0).sum())
    kept = [(float(keep), "kept (k)")] if {*found} - {"full"} else []
    wide = bool(tokens.max() > 4 * tokens.min())
    share = Curve("prompts", tokens[order], (1.0 + np.arange(len(order))) / len(order))
    means = [
        Curve(label, centres, np.array([found[arm]["score"][part].mean() for part in parts]))
        for arm, label in ARMS.items()
        if arm in found
    ]
    return Curves(
        "lengths",
        "By the prompt's length",
        f"{said}Left, how long prompts are{'; the line is what is kept' if kept else ''}. Cut to fit the context: "
        f"{cut} of {len(tokens)}. Right, mean scores of prompts sorted by length, in {counted(len(parts), 'group')} of "
        "all tasks.",
        [
            Panel("Prompts", LENGTH, "share of prompts no longer", [share], kept, log_x=wide),
            Panel("Score", LENGTH, SCORE, means, log_x=wide),
        ],
        claims=("compression", "kept-is-k"),
    )


def _means(found: Examples, values: Float[np.ndarray, " example"], least: float = 0.0) -> Ends:
    tasks, texts = (next(iter(found.values()))[of].astype(int) for of in ("task_of", "text_of"))
    mean, low, high = group_means(values, tasks, texts, _FEWEST)
    return mean, low.clip(least, 100.0), high.clip(least, 100.0)


def _groups(tasks: Sequence[str]) -> list[str]:
    return [*(_HEADINGS[task] for task in tasks), "Mean"]


def _printed(values: Values) -> Ends:
    return values, np.full_like(values, np.nan), np.full_like(values, np.nan)


def _printed_rows(published: str, keep: int) -> list[PublishedRow]:
    """Those of a table that figures show: at the k nearest to ``keep``, or all where it has no pair at one k."""
    rows, pair = PUBLISHED[published], nearest_pair(published, keep)
    shown = ("All-KV", pair[1], "H2O-4096", pair[0]) if pair else (*rows,)
    return [rows[name] for name in shown if name in rows]


def answers(runs: Mapping[str, xr.Dataset], tasks: Sequence[str]) -> Iterator[Table]:
    """What was answered in the first replica, if it is stored: of each task the example on which scores differ most."""
    task_of = next(iter(runs.values()))["task_of"].values[0].astype(int)
    of_its_task = [1 + int((task_of[:example] == task).sum()) for example, task in enumerate(task_of)]
    return stored_answers(
        {ARMS[arm]: run for arm, run in runs.items()},
        "score",
        ("points", "{:.0f}"),
        lambda example: f"{_HEADINGS[tasks[task_of[example]]]}, example {of_its_task[example]}",
        task_of,
    )


def beside_printed(found: Examples, tasks: Sequence[str], published: str, keep: int) -> Table:
    """Mean scores that were measured, above those that the paper's table ``published`` prints."""
    rows = [[ARMS[arm], *_points(_means(found, found[arm]["score"])[0])] for arm in found]
    for row in _printed_rows(published, keep):
        *each, mean = row.of(tasks)
        scores = np.array([*each, mean if np.isfinite(each).all() else np.nan])  # of other tasks it says nothing
        rows.append([f"{row.method}, {published}, printed", *_points(scores)])
    return Table("Measured, and as printed", ["method", *_groups(tasks)], rows)


def points_and_exact(found: Examples, tasks: Sequence[str], said: str) -> Iterator[Table]:
    """Mean scores and shares of answers that are right word for word; none of runs stored before these were."""
    rows = []
    for arm, of in found.items():
        if "exact" in of:
            points, exact = (_means(found, of[name])[0] for name in ("score", "exact"))
            rows.append([ARMS[arm], *(f"{p:.1f} / {e:.2f}" for p, e in zip(points, exact, strict=True))])
    if rows:
        title = f"{said}Points / share of answers that are right word for word"
        yield Table(title, ["method", *_groups(tasks)], rows)


def _points(values: Values) -> list[str]:
    return [f"{value:.1f}" if np.isfinite(value) else "" for value in values]
