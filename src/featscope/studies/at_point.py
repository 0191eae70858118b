"""One arm of a study where some options have other values: built, and measured, as the study does there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from featscope.axes import with_options
from featscope.streams import Streams
from featscope.studies.base import Arm, Assay, Study
from featscope.studies.refinement import Point
from featscope.training import Experiment, Measurement
from featscope.training.record import require_other_names

PLACE = "at"
"""The axis of a judged sweep over its points; no series may be called so."""
_measured_by: WeakKeyDictionary[Experiment, tuple[Study, Arm]] = WeakKeyDictionary()


@dataclass(frozen=True)
class AtPoint:
    """The recipe of one arm of a study at one of several points.

    Attributes:
        study: whose arm is meant.
        arm: its name.
        options: paths of the options that vary.
        points: their values at each point.
        at: which point.
    """

    study: Study
    arm: str
    options: tuple[str, ...]
    points: tuple[Point, ...]
    at: int = 0

    @property
    def _there(self) -> tuple[Study, Arm]:
        study = moved(self.study, self.options, self.points[self.at])
        return study, study.arm(self.arm)

    @property
    def replica_axis(self) -> bool:
        """As in the arm's recipe."""
        return self._there[1].recipe.replica_axis

    @property
    def steps(self) -> int:
        """As in the arm's recipe."""
        return self._there[1].recipe.steps

    @property
    def probe_every(self) -> int:
        """As in the arm's recipe."""
        return self._there[1].recipe.probe_every

    def build(self, streams: Streams) -> Experiment:
        """What the arm's recipe builds there. It is measured as the study measures it there."""
        return built(*self._there, streams)


def built(study: Study, arm: Arm, streams: Streams) -> Experiment:
    """What the recipe of a study's arm builds, to be measured by `watch`, `at_start` and `at_end`."""
    experiment = arm.recipe.build(streams)
    _measured_by[experiment] = study, arm
    return experiment


def moved(study: Study, options: Sequence[str], point: Point) -> Study:
    """``study`` with other values of its options.

    Raises:
        ConfigError: one is out of its range.
    """
    return with_options(study, dict(zip(options, point, strict=True)))


def watch(experiment: Any) -> Mapping[str, Measurement]:
    """What the study watches where the experiment is."""
    study, arm = _measured_by[experiment]
    return (arm.watch or study.watch)(experiment)


def at_start(experiment: Any) -> Mapping[str, Measurement]:
    """What its arm measures before the first step."""
    return _all(_measured_by[experiment][1].at_start, experiment)


def at_end(experiment: Any) -> Mapping[str, Measurement]:
    """What its arm measures after the last step."""
    return _all(_measured_by[experiment][1].at_end, experiment)


def _all(assays: Sequence[Assay], experiment: Any) -> dict[str, Measurement]:
    found: dict[str, Measurement] = {}
    for assay in assays:
        measured = assay(experiment)
        require_other_names(measured, found)
        found |= measured
    return found
