"""`featscope sweep`: a study over options, measured or judged."""

import sys
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Literal

import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from featscope.axes import Axis, find_option, is_whole, numeric_options, points
from featscope.commands.again import stored_study
from featscope.commands.parsing import as_typed, name_and_options, typed_options
from featscope.commands.run import execute, study_options, trainer
from featscope.options import ConfigError
from featscope.runs import Settings
from featscope.runs.execute import Outcome
from featscope.runs.growing import grow
from featscope.runs.stored import read_plan
from featscope.runs.workers import InterruptedRunError, in_worker
from featscope.streams import Streams
from featscope.studies import Study
from featscope.studies.base import Arm
from featscope.studies.judged_sweep import VERDICTS, JudgedSweep
from featscope.studies.sweep import MOST_POINTS, Sweep
from featscope.training.stack import apart, together


@dataclass(frozen=True)
class _SweepArgs:
    axis: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """NAME=SPEC, once for each option that varies. SPEC is first:last:count, first:last:count:log, or values with
    commas between."""
    judge: bool = False
    """Train every arm that claims need, and judge them at every point of one or two axes."""
    claim: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """With --judge: the claim to judge, once for each; all if none is named."""
    refine: int = 0
    """With --judge: points that may be added where a verdict changes between neighbours or is undecided."""
    engine: Literal["local", "ray"] = "local"
    """Train on this machine, or on a Ray cluster (extra 'cluster')."""
    address: str | None = None
    """The Ray cluster to use; a new one on this machine if not given."""


def sweep(words: list[str]) -> int:
    """Run the first arm of a study over options; or judge its claims there."""
    name, options = name_and_options(words, "sweep", "STUDY")
    chosen, out, again = study_options("sweep", name, options, ("sweep", _SweepArgs))
    if not chosen.sweep.judge and (chosen.sweep.claim or chosen.sweep.refine):
        wrong = "--claim" if chosen.sweep.claim else "--refine"
        raise ConfigError(f"{wrong} needs --judge: a sweep that judges nothing has no verdicts")
    axes = []
    for axis in chosen.sweep.axis:
        option, _, spec = axis.partition("=")
        path, values = find_option(chosen.study, option, name), axis_values(axis, spec)
        if spec.endswith(":log") and is_whole(chosen.study, path):
            values = tuple(dict.fromkeys(float(round(value)) for value in values))
        typed, given = f"--{path.replace('_', '-')}", typed_options(options)
        if typed in given and numeric_options(chosen.study)[path] not in values:
            raise ConfigError(
                f"{typed} = {given[typed]} would be lost: --axis {axis} sets it at every point. Leave it out, or "
                "give one of these values"
            )
        axes.append(Axis(path, values))
    train = trainer(chosen.sweep.engine, chosen.sweep.address, chosen.telling.show)
    with chosen.telling.refusals(), as_typed(type(chosen), chosen.study):
        study: Study
        if chosen.sweep.judge:
            study = JudgedSweep(chosen.study, tuple(axes), chosen.sweep.claim, chosen.sweep.refine)
            study = _as_it_grew(study, out) if chosen.resume else study
        else:
            study = Sweep(chosen.study, tuple(axes))
        if chosen.telling.show == "bar" and isinstance(study, Sweep):
            print(_how_many_programs(study, chosen.settings), file=sys.stderr)
        code, _ = execute(
            study,
            chosen.settings,
            out,
            again,
            chosen.resume,
            chosen.overwrite,
            train,
            tell=tell_points if chosen.sweep.judge else None,
            telling=chosen.telling,
            then=_closer if chosen.sweep.judge else None,
        )
    return code


def axis_values(axis: str, spec: str) -> tuple[float, ...]:
    """The values that ``spec`` stands for: those that are typed, and between two ends rounded to 12 digits."""
    try:
        if ":" not in spec:
            return tuple(float(word) for word in spec.split(","))
        first, last, count, *scale = spec.split(":")
        ends, n = (float(first), float(last)), int(count)
        if n < 2 or scale not in ([], ["log"]) or (scale and min(ends) <= 0):
            raise ValueError(spec)
        if n > MOST_POINTS:
            raise ConfigError(f"--axis {axis!r} has {n} values: allowed is 2 to {MOST_POINTS}. Take fewer.")
        begin, end = ends
        shares = [i / (n - 1) for i in range(1, n - 1)]
        between = [begin * (end / begin) ** share if scale else begin + (end - begin) * share for share in shares]
        return (begin, *(float(f"{value:.12g}") for value in between), end)
    except (ValueError, OverflowError):
        raise ConfigError(
            f"--axis {axis!r} cannot be read: allowed is NAME=first:last:count with count >= 2, the same with :log "
            "behind it and ends above 0, or NAME=value,value,..."
        ) from None


def tell_points(study: Study, outcome: Outcome) -> None:
    """Print at how many points each claim has each verdict, and where it changes."""
    assert isinstance(study, JudgedSweep)
    headings, rows = study.table(outcome.claims)
    table = Table(title=f"{study.name}: verdicts at {len(study.points)} points", box=box.SIMPLE, padding=(0, 1))
    for heading in headings:
        right = heading in VERDICTS
        table.add_column(heading, no_wrap=right, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 120, highlight=False).print(table)
    print(study.story(outcome.runs, outcome.claims).found)


def programs(arm: Arm, settings: Settings) -> str:
    """How many programs the points of an arm run as, and why: those that differ in numbers are one, others apart.

    Args:
        arm: an arm with axes. Each of its points is built, for one replica; networks without a replica axis, which may
            be large, are not.
        settings: seed and device.
    """
    count = prod(len(axis.values) for axis in arm.over)
    if count == 1:
        return "1 point runs as one program."
    if not arm.recipe.replica_axis:
        return f"{count} points run as {count} programs: each is a network of its own, without a replica axis."
    built = [
        (at, recipe, recipe.build(Streams(settings.seed, range(1), settings.device)))
        for at, recipe in points(arm.recipe, arm.over)
    ]
    experiments = [experiment for *_, experiment in built]
    schedules = [(recipe.steps, recipe.probe_every) for _, recipe, _ in built]
    groups = together(experiments, schedules)
    if len(groups) == 1:
        return f"{count} points run as one program."
    program_of = {place: n for n, group in enumerate(groups) for place in group}
    reasons: dict[str, str] = {}
    for axis in arm.over:
        for one, (at, _, _) in enumerate(built):
            others = (two for two in range(one) if _differ_only_in(axis.name, at, built[two][0]))
            split = next((two for two in others if program_of[one] != program_of[two]), None)
            if split is not None:
                same_schedule = schedules[one] == schedules[split]
                why = apart(experiments[one], experiments[split]) if same_schedule else "changes how long it goes on"
                reasons.setdefault(axis.name, why)
                break
    return (
        f"{count} points run as {len(groups)} programs: "
        + "; ".join(f"{name} {why}" for name, why in reasons.items())
        + "."
    )


def _closer(study: Study, outcome: Outcome) -> Study | None:
    """The sweep with the points at which to look next; None where nothing more is to be found, or may be."""
    assert isinstance(study, JudgedSweep)
    more = study.closer(outcome.claims)
    if not more:
        return None
    larger = study.grown(more)
    grow(outcome.folder, larger)
    return larger


def _as_it_grew(study: JudgedSweep, out: Path) -> JudgedSweep:
    """What the run in ``out`` has grown to, if it began as ``study``."""
    try:
        stored = stored_study(read_plan(out))
    except ConfigError:  # which `run` says with more words
        return study
    return stored if isinstance(stored, JudgedSweep) and replace(stored, added=()) == study else study


def _how_many_programs(study: Sweep, settings: Settings) -> str:
    """What runs as how many programs, found out in a worker: this process must stay fit for forking."""

    def say() -> str:
        return programs(next(iter(study.arms())), settings)

    try:
        return in_worker(say) if settings.device == "cpu" else say()
    except InterruptedRunError:
        raise KeyboardInterrupt from None


def _differ_only_in(name: str, one: dict[str, float], other: dict[str, float]) -> bool:
    return {key for key in one if one[key] != other[key]} == {name}
