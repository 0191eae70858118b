"""The page of a run that is not done: what is there so far, with claims as they would be judged now.

It is written beside where the report will stand, never in its place, and has no pictures in files, so that nothing of
it is taken for a finished run's. Whatever a study cannot say of so little it leaves out.
"""

import shlex
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from featscope.claims import Claim
from featscope.figures import Curves, Figure, MatrixMovie, Table
from featscope.options import ConfigError
from featscope.registry import entries, find, find_of_run
from featscope.report.arm_table import arm_tables
from featscope.report.figure_data import figure_data
from featscope.report.page import Content, write_page
from featscope.report.provenance import command
from featscope.runs.diverged import divergence_in_words, how_many_diverged
from featscope.runs.plain import from_plain
from featscope.runs.program import FOREIGN
from featscope.runs.stored import read_plan
from featscope.runs.unfinished import SoFar, so_far
from featscope.studies import Runs, Story, Study
from featscope.studies.base import ABOUT_THE_RUN
from featscope.studies.summaries import over_steps

NAME = "unfinished.html"
_LARGEST = 600  # rows or columns of a matrix that is drawn
_ROUNDING = 1e-3

T = TypeVar("T")


@dataclass(frozen=True)
class Judged:
    """The claims of a run on its way, and when they were judged."""

    claims: Sequence[Claim]
    at: datetime


def report_unfinished(directory: Path, study: Study | None = None) -> Path:
    """Write the page of a run that was killed or goes on; its path.

    Raises:
        ConfigError: there is no run, or its study cannot read it.
        OSError: the folder cannot be written.
    """
    page = directory / NAME
    if page.is_dir():
        raise ConfigError(f"{page} is a folder: allowed is a file; move the folder away")
    write_page(page, unfinished_content(directory, study))
    return page


def unfinished_content(directory: Path, study: Study | None = None, judged: Judged | None = None) -> Content:
    """What can be said of the run in ``directory`` so far.

    Args:
        directory: the run folder.
        study: what is run; needed only for a study that no package registers.
        judged: claims as they were judged before, which takes most of the time; None to judge them now.

    Raises:
        ConfigError: there is no run, or its study cannot read it.
    """
    plan = read_plan(directory)
    name = plan["study"]
    entry = None
    if study is None:
        entry, _ = find_of_run(plan)  # loads the classes of its config
        try:
            study = from_plain(plan["config"])
        except FOREIGN as error:
            raise ConfigError(f"config.json does not fit {name} as it is installed: {error}") from None
    elif name in entries():
        entry, _ = find(name)
    if not isinstance(study, Study):
        raise ConfigError(f"config.json: config = {type(study).__name__} is out of range: allowed is a Study's options")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # means of nothing, and other things that are there only in the end
        found = so_far(directory, study, plan)
        claims = claims_so_far(study, found.runs) if judged is None else judged.claims
        story = _or(lambda: study.story(found.runs, claims), Story(""))
        figures = figures_so_far(study, found.runs)
    if claims:
        when = "would be judged now" if judged is None else f"would have been judged at {judged.at:%H:%M:%S}"
        note = f"Unfinished: {len(claims)} of its claims can be judged so far, and are shown in grey as they {when}."
    else:
        note = "Unfinished: no claim can be judged yet; those that can be will be shown in grey."
    return Content(
        title=name,
        source=entry.source if entry else "",
        question=study.asks or (entry.summary if entry else ""),
        found=f"Unfinished: {found}.",
        lede=story.lede if figures and found.runs else "",
        warnings=[told] if (told := divergence_in_words(how_many_diverged(found.runs))) else [],
        unfinished=note,
        headlines=dict.fromkeys(story.headlines, ""),
        summary=entry.summary if entry else "",
        claims=claims,
        arms=arm_tables(list(study.arms())),
        tables=[_standings(found), *_events(found)],
        tables_are="How far it is",
        figures=figures,
        replicas=min((run.sizes["replica"] for run in found.runs.values()), default=plan["replicas"]),
        command=command(study, plan).replace(" --seed", f" --out {shlex.quote(str(directory))} --resume --seed", 1)
        if entry
        else "",
    )


def claims_so_far(study: Study, runs: Runs) -> list[Claim]:
    """The claims that can be judged by what is measured: each by itself, and those that raise are left out."""
    if type(study).claims is not Study.claims:
        return [*_or(lambda: list(study.claims(runs)), list[Claim]())]
    found = []
    for test in study.tests:
        for arm in _or(partial(test.arms, study), dict[str, tuple[bool, str]]()):
            claim = _or(partial(test.judge, study, arm, runs), None) if arm in runs else None
            found += [] if claim is None or claim.n == 0 else [claim]
    return found


def figures_so_far(study: Study, runs: Runs) -> list[Figure]:
    """The figures of the report as far as they can be drawn; where that is none of them, every series over steps."""
    if not runs:
        return []
    found: list[Figure] = []
    try:
        for figure in study.figures(runs):
            if _or(partial(figure_data, figure), None) is not None:
                found.append(figure)
    except Exception:  # whatever a study's own code raises where an arm is missing
        pass
    labelled = _or(lambda: study.labelled(runs), runs)
    series = _or(lambda: over_steps(labelled), list[Curves]())
    if not found:
        return [*_or(lambda: matrices_so_far(labelled), list[MatrixMovie]()), *series]
    return found if any(isinstance(figure, Curves) for figure in found) else [*found, *series]


def matrices_so_far(runs: Runs) -> list[MatrixMovie]:
    """The first series of matrices between -1 and 1, such as alignments, on the arm that began last: their sizes over
    steps, rows in the order of where they are largest by now."""
    for arm, run in reversed(list(runs.items())):
        for name, series in run.data_vars.items():
            rows_columns = [str(dim) for dim in series.dims if dim not in ("replica", "step")]
            if set(series.dims) != {"replica", "step", *rows_columns} or len(rows_columns) != 2:
                continue
            frames = abs(series.transpose("replica", "step", *rows_columns).values.astype(float))
            seen = np.isfinite(frames).all((0, 2, 3))
            frames = frames[:, seen]
            if max(frames.shape[2:]) > _LARGEST or frames.shape[1] < 2 or frames.max() > 1 + _ROUNDING:
                continue
            order = frames[:, -1].argmax(-1).argsort(-1, kind="stable")
            about = series.attrs.get("long_name") or str(name)
            movie = MatrixMovie(
                "so-far",
                f"{about[:1].upper()}{about[1:]}: {arm}",
                "Sizes, in rows sorted by where they are largest by now.",
                steps=[int(step) for step in run["step"].values[seen]],
                frames={arm: np.take_along_axis(frames, order[:, None, :, None], 2)},
                row_label=f"{rows_columns[0].replace('_', ' ')}s, sorted",
                column_label=f"{rows_columns[1].replace('_', ' ')}s",
                value_label=f"size of {str(name).replace('_', ' ')}",
            )
            return [movie]
    return []


def _or(find_out: Callable[[], T], otherwise: T) -> T:
    """What is found out, unless a study's own code raises, as it may where arms are missing."""
    try:
        return find_out()
    except Exception:
        return otherwise


def _standings(found: SoFar) -> Table:
    def state(done: bool, begun: bool) -> str:
        return "done" if done else "on its way" if begun else "to come"

    rows = [[arm.label, state(arm.done, arm.begun), f"{arm.step:,}", f"{arm.steps:,}"] for arm in found.arms]
    return Table("Arms in the order of the story", ["arm", "", "step", "of"], rows)


def _events(found: SoFar) -> Iterable[Table]:
    rows = []
    for name, run in found.runs.items():
        for event, at in run.data_vars.items():
            if at.attrs.get("units") == "step" and event not in ABOUT_THE_RUN and at.dtype.kind in "iu":
                happened = at.values[at.values >= 0]
                if happened.size:
                    steps = f"{happened.min():,}" + (f" to {happened.max():,}" if happened.size > 1 else "")
                    rows.append([name, str(event).replace("_", " "), f"{happened.size} of {at.size}", steps])
    return [Table("Events", ["arm", "event", "replicas", "at step"], rows)] if rows else []
