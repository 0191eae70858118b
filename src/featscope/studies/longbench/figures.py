"""The figures of the study, described for the report to draw."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from featscope.claims import LEVEL, interval_of_mean
from featscope.figures import Bars, Curve, Curves, Figure, Panel
from featscope.language.longbench import TASKS
from featscope.language.longbench.published import PUBLISHED
from featscope.studies.base import Runs
from featscope.studies.longbench.judge import examples, spread_evenly

if TYPE_CHECKING:
    from featscope.studies.longbench.study import LongBench

Ends = tuple[Float[np.ndarray, " group"], Float[np.ndarray, " group"], Float[np.ndarray, " group"]]

METHODS = {"full": "full cache", "snapkv": "SnapKV", "h2o": "H2O", "gemfilter": "GemFilter", "middle-row": "middle row"}
SHORT = {
    "narrativeqa": "Nrtv",
    "multifieldqa_en": "MF",
    "hotpotqa": "Hotpot",
    "2wikimqa": "2Wiki",
    "musique": "MuSi",
    "gov_report": "Gov",
    "multi_news": "News",
    "triviaqa": "Trivia",
    "samsum": "SAM",
}
"""Headings of the paper's tables that 15 groups of bars have no room for."""
_FEWEST = 10
"""Examples of a task from which on its interval is drawn; that of two or four hides all else."""
_INTERVALS = f"Intervals are at {100 * LEVEL:.3g} %, over examples, of tasks with {_FEWEST} or more and of the mean."
_MADE_UP = "MADE-UP DATA: these scores say nothing about LongBench. "


def figures(study: "LongBench", runs: Runs) -> Iterator[Figure]:
    """The figures, in the order of the story."""
    yield _scores(study, runs)
    yield _differences(study, runs)
    yield _published(study)
    yield _lengths(study, runs)


def _groups(study: "LongBench") -> list[str]:
    return [*(SHORT.get(name, TASKS[name].column) for name in study.names), "Mean"]


def _says(study: "LongBench") -> str:
    return _MADE_UP if study.is_made_up else ""


def means(values: Float[np.ndarray, " example"], tasks: Int[np.ndarray, " example"]) -> Ends:
    """Mean of each task and of all, with the ends of their intervals; NaN for tasks of few examples."""
    each = [values[tasks == task] for task in range(tasks.max() + 1)]
    each.append(spread_evenly(values, tasks))
    ends = np.array([interval_of_mean(one) for one in each])
    ends[:-1][np.array([len(one) < _FEWEST for one in each[:-1]])] = np.nan
    low, high = np.where(np.isfinite(ends), ends, np.nan).T
    return np.array([one.mean() for one in each]), low, high


def _scores(study: "LongBench", runs: Runs) -> Bars:
    series = {
        METHODS[arm]: means(examples(study, runs[arm], "score"), examples(study, runs[arm], "task_of").astype(int))
        for arm in METHODS
    }
    return Bars(
        "scores",
        "Scores per task" + (", on made-up data" if study.is_made_up else ""),
        f"{_says(study)}Mean scores of each method at k = {study.keep}, GemFilter's layer {study.layer}. {_INTERVALS}",
        _groups(study),
        series,
        "score (points)",
    )


def _differences(study: "LongBench", runs: Runs) -> Bars:
    tasks = examples(study, runs["full"], "task_of").astype(int)
    of = {arm: examples(study, run, "score") for arm, run in runs.items()}
    series = {
        f"{METHODS[one]} less {METHODS[other]}": means(of[one] - of[other], tasks)
        for one, other in (("gemfilter", "snapkv"), ("gemfilter", "full"))
    }
    beside = ""
    if not study.is_made_up and (pair := _published_pair(study)) is not None:
        one, other = pair
        gap = _with_average(study, one) - _with_average(study, other)
        nothing = np.full_like(gap, np.nan)
        series[f"{one} less {other}, printed"] = gap, nothing, nothing
        beside = f" Beside them, {study.published} in the paper."
    return Bars(
        "differences",
        "What GemFilter gains and loses",
        f"{_says(study)}Differences of scores, paired by example.{beside} {_INTERVALS}",
        _groups(study),
        series,
        "difference (points)",
        references=[(0.0, "equal")],
    )


def _published_pair(study: "LongBench") -> tuple[str, str] | None:
    """GemFilter's and SnapKV's row of the paper's table, at this k or at the nearest one."""
    rows = PUBLISHED[study.published]
    kept = [int(name.removeprefix("GemFilter-")) for name in rows if name.startswith("GemFilter-")]
    if not kept:
        return None
    nearest = min(kept, key=lambda k: abs(k - study.keep))
    return f"GemFilter-{nearest}", f"SnapKV-{nearest}"


def _with_average(study: "LongBench", method: str) -> Float[np.ndarray, " group"]:
    """The printed scores of the study's tasks, and their mean."""
    scores = PUBLISHED[study.published][method].per_task(study.names)
    known = scores[np.isfinite(scores)]
    return np.append(scores, known.mean() if known.size else np.nan)


def _published(study: "LongBench") -> Bars:
    series: dict[str, Ends] = {}
    for method in _shown(study):
        scores = _with_average(study, method)
        nothing = np.full_like(scores, np.nan)
        series[method] = scores, nothing, nothing
    return Bars(
        "published",
        f"What the paper reports: {study.published}",
        "As printed, of the real LongBench and another model; the average is over the tasks shown. To be compared with "
        "the scores above only where model and data are the paper's.",
        _groups(study),
        series,
        "score (points)",
    )


def _shown(study: "LongBench") -> Sequence[str]:
    rows, pair = PUBLISHED[study.published], _published_pair(study)
    if pair is None:
        return list(rows)
    return [method for method in ("All-KV", pair[1], "H2O-4096", pair[0]) if method in rows]


def _lengths(study: "LongBench", runs: Runs) -> Curves:
    run = runs["gemfilter"]
    tokens = examples(study, run, "tokens")
    order = np.argsort(tokens, kind="stable")
    parts = [part for part in np.array_split(order, 6) if part.size]
    centres = np.array([tokens[part].mean() for part in parts])
    cut = int((examples(study, run, "cut") > 0).sum())
    wide = bool(tokens.max() > 4 * tokens.min())

    def by_length(arm: str) -> Float[np.ndarray, " part"]:
        values = examples(study, runs[arm], "score")
        return np.array([values[part].mean() for part in parts])

    return Curves(
        "lengths",
        "By the prompt's length",
        f"{_says(study)}Left, how long prompts are; the line is k. {cut} of {len(tokens)} were cut to fit the context. "
        f"Right, mean scores of prompts sorted by length, in {len(parts)} groups of all tasks.",
        [
            Panel(
                "Prompts",
                "n (tokens)",
                "share of prompts with at most n",
                [Curve("prompts", tokens[order], (1.0 + np.arange(len(order))) / len(order))],
                marks=[(float(study.keep), "k")],
                log_x=wide,
            ),
            Panel(
                "Score",
                "n (tokens)",
                "score (points)",
                [Curve(label, centres, by_length(arm)) for arm, label in METHODS.items()],
                log_x=wide,
            ),
        ],
    )
