"""A sweep: one way of training at every combination of some options' values."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np
import xarray as xr

from featscope.claims import LEVEL, Claim
from featscope.figures import Curve, Curves, Figure, Panel
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.studies.axes import Axis
from featscope.studies.base import Arm, Runs, Study, last
from featscope.studies.summaries import over_replicas
from featscope.training import Experiment, Measurement

ARM = "sweep"


@dataclass(frozen=True)
class Sweep(Study):
    """The first arm of a study over axes. It keeps measurements that are one number a replica, and judges nothing.

    Attributes:
        study: whose first arm is trained.
        axes: what varies; the first is drawn along x.
    """

    study: Study
    axes: tuple[Axis, ...]

    def __post_init__(self) -> None:
        if not self.axes:
            raise ConfigError("Sweep.axes = () is out of range: allowed is at least one axis, --axis NAME=SPEC")
        names = [axis.name for axis in self.axes]
        if len(set(names)) < len(names):
            raise ConfigError(f"Sweep.axes = {', '.join(names)}: allowed are axes of different names")

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the study swept."""
        return self.study.name

    @property
    def _first(self) -> Arm:
        return next(iter(self.study.arms()))

    @property
    def steps(self) -> int:  # type: ignore[override]
        """Steps of the study."""
        return self._first.config.steps

    @property
    def probe_every(self) -> int:  # type: ignore[override]
        """Spacing of measurements in the study."""
        return self._first.config.probe_every

    @property
    def default_replicas(self) -> int:  # type: ignore[override]
        """As in the study."""
        return self.study.default_replicas

    @property
    def replica_axis(self) -> bool:  # type: ignore[override]
        """As in the study."""
        return self.study.replica_axis

    def arms(self) -> Sequence[Arm]:
        """One arm over the axes."""
        first = self._first
        return [
            Arm(
                ARM,
                self,
                f"{first.name} ({first.about}) over {', '.join(axis.name for axis in self.axes)}",
                at_start=[lambda experiment, assay=assay: _scalars(assay(experiment)) for assay in first.at_start],  # type: ignore[misc]
                at_end=[lambda experiment, assay=assay: _scalars(assay(experiment)) for assay in first.at_end],  # type: ignore[misc]
                over=[replace(axis, option=f"study.{axis.option}") for axis in self.axes],
            )
        ]

    def build(self, streams: Streams) -> Experiment:
        """The experiment of the study's first arm."""
        return self._first.config.build(streams)

    def watch(self, experiment: Experiment) -> Mapping[str, Measurement]:
        """The study's measurements that are one number a replica."""
        return _scalars(self._first.config.watch(experiment))

    def claims(self, runs: Runs) -> Iterable[Claim]:
        """None."""
        return []

    def at_defaults(self) -> "Sweep":
        """The same axes over the study at its defaults."""
        return replace(self, study=self.study.at_defaults())

    @property
    def command(self) -> str:
        """The words after `featscope` that run it."""
        axes = (f" --axis {axis.option}={','.join(f'{v:g}' for v in axis.values)}" for axis in self.axes)
        return f"sweep {self.name}{''.join(axes)}"

    def figures(self, runs: Runs, claims: Sequence[Claim]) -> Iterable[Figure]:
        """Every measurement at the end of training over the first axis, a line for each value of the others."""
        run = runs[ARM]
        first, *others = (axis.name for axis in self.axes)
        panels = []
        for name, variable in run.data_vars.items():
            if variable.dtype.kind != "f":
                continue
            final = last(run, variable) if "step" in variable.dims else variable
            units = variable.attrs.get("units", "1")
            y_label = str(name).replace("_", " ") + ("" if units == "1" else f" ({units})")
            title = variable.attrs.get("long_name") or str(name)
            panels.append(Panel(title, first.replace("_", " "), y_label, _lines(final, first, others)))
        caption = f"Means over replicas with {100 * LEVEL:.3g} % intervals. Replicas that diverged are left out."
        return [Curves("over-axes", f"At the end of training, over {first.replace('_', ' ')}", caption, panels)]

    def headline(self, runs: Runs, claims: Sequence[Claim]) -> str:
        """How much was run, and how much of it diverged."""
        run = runs[ARM]
        points, lost = prod(len(axis.values) for axis in self.axes), int((run["diverged"] >= 0).sum())
        of = f"{points} points, {run.sizes['replica']} replicas each"
        return f"{of}; {lost} of {points * run.sizes['replica']} runs diverged." if lost else f"{of}; none diverged."


def _scalars(measurements: Mapping[str, Measurement]) -> dict[str, Measurement]:
    return {name: one for name, one in measurements.items() if not one.dims}


def _lines(final: xr.DataArray, first: str, others: Sequence[str]) -> list[Curve]:
    lines = []
    for values in product(*(final[other].values for other in others)):
        at = dict(zip(others, values, strict=True))
        line = final.sel(at)
        ends = [_ends(line.sel({first: x}).dropna("replica")) for x in line[first].values]
        mean, low, high = np.array(ends).T
        label = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in at.items()) or "all runs"
        alone = line.sizes["replica"] < 2
        lines.append(Curve(label, line[first].values, mean, None if alone else low, None if alone else high))
    return lines


def _ends(samples: xr.DataArray) -> tuple[float, float, float]:
    """Mean and interval; NaN where no replica is left."""
    if not samples.size:
        return np.nan, np.nan, np.nan
    mean, low, high = over_replicas(samples)
    return float(mean), float(low), float(high)
