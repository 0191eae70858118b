"""From measurements to verdicts."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from featscope.claims import Claim
from featscope.language.longbench.published import PUBLISHED, same_keep_differences
from featscope.studies.base import Runs
from featscope.studies.longbench.statements import MARGIN, STATEMENTS

if TYPE_CHECKING:
    from featscope.studies.longbench.study import LongBench

THE = {statement.id: statement for statement in STATEMENTS}

COMPRESSION, AT_KEEP = 0.08, 1024
TABLE_9_1 = ("llama-3.1-8b", "mistral-nemo-12b", "phi-3.5-mini")
TABLES = {"Table 9.1": TABLE_9_1, "Table 9.2": ("llama-3.1-8b-layers",), "Table G.1": ("llama-3.1-8b-chat",)}
_PAPER_SAYS_NOTHING = "Made-up data: M says nothing of it, so that nothing is expected."


def claims(study: "LongBench", runs: Runs) -> Iterator[Claim]:
    """All claims, in the order of the story."""
    real = not study.is_made_up
    why = "" if real else _PAPER_SAYS_NOTHING
    telling = bool(examples(study, runs["full"], "mean_score").mean() >= 2 * MARGIN)
    for arm in ("gemfilter", "middle-row"):
        yield THE["gemfilter-is-comparable-to-snapkv"].equals(
            _where(telling, difference(study, runs, arm, "snapkv")),
            0.0,
            MARGIN,
            arm=arm,
            why=why,
            expected=real and arm == "gemfilter",
        )
        yield THE["gemfilter-is-no-worse-than-h2o"].at_least(
            _where(telling, difference(study, runs, arm, "h2o")),
            0.0,
            arm=arm,
            why=why,
            expected=real and arm == "gemfilter",
        )
    full = runs["full"]
    yield THE["something-to-lose"].at_least(
        spread_evenly(examples(study, full, "score"), _tasks(study, full)), 2 * MARGIN, arm="full"
    )
    predicted = COMPRESSION * study.keep / AT_KEEP
    yield THE["compression"].equals(
        ratio(examples(study, runs["gemfilter"], "kept"), examples(study, runs["gemfilter"], "tokens"), predicted),
        predicted,
        predicted / 10,
        arm="gemfilter",
        why=f"k = {study.keep}." + (f" {why}" if why else ""),
        expected=real and study.is_whole,
    )
    for arm in ("snapkv", "h2o", "gemfilter", "middle-row"):
        tokens, kept = (examples(study, runs[arm], name) for name in ("tokens", "kept"))
        yield THE["kept-is-k"].equals(
            float(np.abs(kept - np.minimum(tokens, study.keep)).max()), 0.0, 0.0, arm=arm, why=f"k = {study.keep}."
        )
    yield from _published()


def difference(study: "LongBench", runs: Runs, one: str, other: str) -> Float[np.ndarray, " example"]:
    """Score on ``one`` arm less that on the ``other``, `spread_evenly`."""
    tasks = _tasks(study, runs[one])
    return spread_evenly(examples(study, runs[one], "score") - examples(study, runs[other], "score"), tasks)


def spread_evenly(
    values: Float[np.ndarray, " example"], tasks: Int[np.ndarray, " example"]
) -> Float[np.ndarray, " example"]:
    """Values scaled so that their mean is the mean over tasks of the mean over a task's examples.

    With as many examples of each task (almost so in LongBench) they are the values. The interval of their mean takes
    examples for independent draws from all tasks alike; what tasks differ by widens it.
    """
    sizes = np.bincount(tasks)
    present = (sizes > 0).sum()
    return values * len(values) / (present * sizes[tasks])


def ratio(
    above: Float[np.ndarray, " example"], below: Float[np.ndarray, " example"], near: float
) -> Float[np.ndarray, " example"]:
    """One value an example, whose mean is the ratio of the means; spread to first order around ``near``."""
    return near + (above - near * below) / below.mean()


def examples(study: "LongBench", run: xr.Dataset, name: str) -> Float[np.ndarray, " example"]:
    """Of all examples. On data that are the same in every replica the first replica alone: copies are no evidence."""
    values = run[name].transpose("replica", ...).values.astype(np.float64)
    return (values if study.is_made_up else values[:1]).reshape(-1)


def _tasks(study: "LongBench", run: xr.Dataset) -> Int[np.ndarray, " example"]:
    return examples(study, run, "task_of").astype(np.int64)


def _where(condition: bool, values: Float[np.ndarray, " example"]) -> Float[np.ndarray, " example"]:
    return values if condition else np.full_like(values, np.nan)


def _published() -> Iterator[Claim]:
    for name, tables in TABLES.items():
        yield THE["published-averages-are-means"].at_most(_farthest_average(tables), 0.005 + 1e-9, arm=name)
    for name in ("Table 9.1", "Table G.1"):
        differences = np.concatenate([same_keep_differences(table) for table in TABLES[name]])
        yield THE["published-scores-are-comparable"].at_most(float(np.abs(differences).max()), MARGIN, arm=name)


def _farthest_average(tables: Sequence[str]) -> float:
    rows = [row for table in tables for row in PUBLISHED[table].values()]
    return max(abs(float(np.mean(row.scores)) - row.average) for row in rows)
