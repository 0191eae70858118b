"""A sweep: one way of training at every combination of some options' values."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

import xarray as xr

from featscope.axes import Axis, points
from featscope.claims import LEVEL, Claim
from featscope.figures import Curves, Figure, Panel
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.studies import at_point
from featscope.studies.base import ABOUT_THE_RUN, Arm, Runs, Story, Study, last
from featscope.studies.summaries import counted, curve
from featscope.training import Experiment, Measurement

ARM = "sweep"
SHARE = "share of replicas"
MOST_POINTS = 10_000
"""Points that a sweep may have: a recipe is made of each before any work."""


@dataclass(frozen=True)
class Point:
    """The recipe of a study's first arm, where options of the study may vary.

    Attributes:
        study: whose first arm is meant.
    """

    study: Study

    @property
    def first(self) -> Arm:
        """The study's first arm."""
        return next(iter(self.study.arms()))

    @property
    def replica_axis(self) -> bool:
        """As in the arm's recipe."""
        return self.first.recipe.replica_axis

    @property
    def steps(self) -> int:
        """As in the arm's recipe."""
        return self.first.recipe.steps

    @property
    def probe_every(self) -> int:
        """As in the arm's recipe."""
        return self.first.recipe.probe_every

    def build(self, streams: Streams) -> Experiment:
        """What the arm's recipe builds. It is measured as the study measures it there."""
        return at_point.built(self.study, self.first, streams)


@dataclass(frozen=True)
class Sweep(Study):
    """The first arm of a study over axes. It keeps measurements that are one number a replica, and judges nothing.

    Attributes:
        study: whose first arm is run.
        axes: what varies; the first is drawn along x.
    """

    study: Study
    axes: tuple[Axis, ...]

    def __post_init__(self) -> None:
        if not self.axes:
            raise ConfigError("--axis is missing: allowed is at least one axis, --axis NAME=SPEC")
        names = [axis.name for axis in self.axes]
        if len(set(names)) < len(names):
            raise ConfigError(f"--axis is given for {', '.join(names)}: allowed are different ones; leave one out")
        if (count := prod(len(axis.values) for axis in self.axes)) > MOST_POINTS:
            raise ConfigError(f"--axis makes {count} points: allowed is at most {MOST_POINTS}. Take fewer values.")
        # Making all recipes now refuses what is out of range before any work.
        arms = {tuple(at.values()): next(iter(study.arms())) for at, study in points(self.study, self.axes)}
        start, *_ = arms
        for place, axis in enumerate(self.axes):
            moved = [(*start[:place], value, *start[place + 1 :]) for value in axis.values[1:]]
            if any(arms[to].recipe == arms[start].recipe for to in moved):
                raise ConfigError(
                    f"--axis {axis.option}={axis} changes nothing in the arm {arms[start].name!r}, which sets "
                    "it: allowed are options that the study's first arm does not set itself"
                )

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the study swept."""
        return self.study.name

    @property
    def default_replicas(self) -> int:  # type: ignore[override]
        """As in the study."""
        return self.study.default_replicas

    @property
    def _first(self) -> Arm:
        return Point(self.study).first

    @property
    def _arm(self) -> str:
        """The arm in words. Axes of its own are left out, so their options stay as they are."""
        first, swept = self._first, {axis.name for axis in self.axes}
        still = " and ".join(axis.name for axis in first.over if axis.name not in swept)
        return f"{first.name} ({first.about}{f'; here {still} as the options say' if still else ''})"

    def arms(self) -> Sequence[Arm]:
        """One arm over the axes."""
        return [
            Arm(
                ARM,
                Point(self.study),
                f"{self._arm} over {', '.join(axis.name for axis in self.axes)}",
                stop_at=self._first.stop_at,
                at_start=[lambda experiment: _scalars(at_point.at_start(experiment))],
                at_end=[lambda experiment: _scalars(at_point.at_end(experiment))],
                over=[replace(axis, option=f"study.{axis.option}") for axis in self.axes],
            )
        ]

    def watch(self, experiment: Any) -> Mapping[str, Measurement]:
        """The measurements of the study at the experiment's point that are one number a replica."""
        return _scalars(at_point.watch(experiment))

    @property
    def command(self) -> str:
        """The words after `featscope` that run it."""
        return f"sweep {self.name}{''.join(f' --axis {axis.option}={axis}' for axis in self.axes)}"

    @property
    def about(self) -> str:
        """What was trained, for the report."""
        count = prod(len(axis.values) for axis in self.axes)
        over = "; ".join(f"{axis.name} = {str(axis).replace(',', ', ')}" for axis in self.axes)
        return (
            f"A sweep of the arm {self._arm} over {count} points: {over}. A replica of a given number "
            "sees the same random draws at every point, so that points can be compared replica by replica."
        )

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """Every measurement over the first axis, a line for each value of the others."""
        run = runs[ARM]
        first, *others = (axis.name for axis in self.axes)
        given_up = run["diverged"] >= 0
        along: list[Panel] = []
        once: list[Panel] = []
        if given_up.any():
            share = given_up.astype(float).mean("replica").expand_dims("replica")
            along.append(self._panel("runs that diverged", SHARE, share))
        when: list[Panel] = []
        for name, variable in run.data_vars.items():
            units = variable.attrs.get("units", "1")
            if set(variable.dims) - {"replica", "step", first, *others} or name in ABOUT_THE_RUN:
                continue  # not one number a replica, or told above
            if units == "step" and "step" not in variable.dims:
                when += self._first_steps(variable.where(~given_up), given_up)
                continue
            sampled = "step" in variable.dims
            values = (last(run, variable) if sampled else variable).where(~given_up)
            y_label = str(name) if units == "1" else f"{name} ({units})"
            panel = self._panel(variable.attrs.get("long_name") or str(name), y_label, values)
            (along if sampled else once).append(panel)
        caption = f"A line for each {' and '.join(others)}. " if others else ""
        caption += f"Means over replicas with {100 * LEVEL:.3g} % intervals." + (
            " Runs that diverged are left out; where some did, the others are a selection." if given_up.any() else ""
        )
        if along:
            yield Curves("at-the-last-step", f"At the last step, over {first}", caption, along)
        if once:
            yield Curves("measured-once", f"Measured once, over {first}", caption, once)
        if when:
            some = any(panel.y_label == SHARE for panel in when)
            caption += " They are drawn where it came in all replicas; in how many it came is beside." * some
            yield Curves("first-steps", f"First steps of events, over {first}", caption, when)

    def _first_steps(self, event: xr.DataArray, given_up: xr.DataArray) -> Iterable[Panel]:
        """When it came, at points where no replica lacks it: a mean of the others would be of the early ones."""
        came, name = event >= 0, str(event.name).replace("_", " ")
        none_lacks_it = (came | given_up).all("replica")
        first_step = event.where(came & none_lacks_it)
        if first_step.notnull().any():
            yield self._panel(name, "first step", first_step)
        if not none_lacks_it.all():
            share = came.astype(float).where(~given_up).mean("replica").expand_dims("replica")
            yield self._panel(f"{name}: in how many", SHARE, share)

    def _panel(self, title: str, y_label: str, values: xr.DataArray) -> Panel:
        first, *others = self.axes
        lines = []
        for at in product(*(values[axis.name].values for axis in others)):
            labels = {axis.name: value for axis, value in zip(others, at, strict=True)}
            label = ", ".join(f"{name} = {value:.12g}" for name, value in labels.items()) or "all runs"
            lines.append(curve(values.sel(labels), label, first.name, skipna=True))
        return Panel(title, first.name, y_label, lines, log_x=first.logarithmic)

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """How much was run, and how much of it diverged."""
        sizes = [len(axis.values) for axis in self.axes]
        replicas, lost = runs[ARM].sizes["replica"], int((runs[ARM]["diverged"] >= 0).sum())
        points = (
            f"{prod(sizes)} point{'s' if prod(sizes) > 1 else ''} over {' and '.join(axis.name for axis in self.axes)}"
        )
        of = f"{points}, {counted(replicas, 'replica')} each"
        diverged = f"{lost} of {prod(sizes) * replicas} runs diverged" if lost else "none diverged"
        return Story(f"{of}; {diverged}.", self.about)


def _scalars(measurements: Mapping[str, Measurement]) -> dict[str, Measurement]:
    return {name: one for name, one in measurements.items() if not one.dims}
