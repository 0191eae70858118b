"""What a study is."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import xarray as xr

from featscope.claims import Claim, Statement
from featscope.figures import Figure
from featscope.streams import Streams
from featscope.studies.axes import Axis
from featscope.studies.summaries import over_steps
from featscope.training import Experiment, Measurement

Assay = Callable[[Experiment], Mapping[str, Measurement]]
Runs = Mapping[str, xr.Dataset]
"""Arm name -> what was measured on it, with dimensions ``replica``, ``step`` and those of the measurements."""

S = TypeVar("S", bound="Study")


@dataclass(frozen=True)
class Arm(Generic[S]):
    """One way of training within a study.

    Attributes:
        name: short name.
        config: the study with this arm's own settings; it builds and watches the experiment.
        about: what is different here, in one sentence.
        control: whether claims must not hold here.
        stop_at: name of an event after which training may stop (in all replicas).
        at_start: measurements made once, before the first step.
        at_end: measurements made once, after the last step.
        over: options that take several values on this arm. Its measurements get an axis for each, named after
            the option; points that differ in numbers only are trained as one program.
    """

    name: str
    config: S
    about: str
    control: bool = False
    stop_at: str | None = None
    at_start: Sequence[Assay] = ()
    at_end: Sequence[Assay] = ()
    over: Sequence[Axis] = ()


class Study:
    """Base of all studies: a frozen dataclass whose fields are the study's options.

    A study says which arms it has, how to build one (`build`), what to measure on the way (`watch`), and what
    follows from the measurements (`claims`; `figures` and `headline` where the defaults do not do). It trains
    nothing itself.

    The field ``steps`` is the most steps that any arm trains, ``probe_every`` the spacing of measurements in steps.
    """

    name: ClassVar[str] = ""
    """The name that `featscope run` knows it by; the class's name if empty."""
    statements: ClassVar[Sequence[Statement]] = ()
    """What the study puts to the test; each appears in `claims` at least once."""
    steps: int
    probe_every: int
    default_replicas: ClassVar[int] = 8
    replica_axis: ClassVar[bool] = True
    """Whether learners carry a leading replica axis. If not, an experiment holds one replica, an ordinary module."""

    @property
    def command(self) -> str:
        """The words after `featscope` that run the study, without its options."""
        return f"run {self.name}"

    def at_defaults(self) -> "Study":
        """The study with all options at their defaults."""
        return type(self)()

    def arms(self) -> Iterable[Arm]:
        """The arms, in the order of the story."""
        raise NotImplementedError

    def build(self, streams: Streams) -> Experiment:
        """The experiment for the replicas of ``streams``, before its first step."""
        raise NotImplementedError

    def watch(self, experiment: Experiment) -> Mapping[str, Measurement]:
        """What to measure during training."""
        raise NotImplementedError

    def claims(self, runs: Runs) -> Iterable[Claim]:
        """The verdicts, by arithmetic on what was measured."""
        raise NotImplementedError

    def figures(self, runs: Runs, claims: Sequence[Claim]) -> Iterable[Figure]:
        """The figures, in the order of the story; the first is shown beside the verdicts.

        Unless a study says otherwise: all series with one value a replica, over steps.
        """
        return [over_steps(runs)]

    def headline(self, runs: Runs, claims: Sequence[Claim]) -> str:
        """What was found, in one sentence; unless a study says otherwise, how many claims hold."""
        verdicts = [claim.verdict for claim in claims if claim.expected]
        return f"{verdicts.count('holds')} of the {len(verdicts)} claims expected to hold at this size do."


def last(run: xr.Dataset, series: xr.DataArray) -> xr.DataArray:
    """The value of ``series`` at each replica's last step: ``[replica, ...]``.

    Shards of an arm may stop early at different steps; where one did not look, its ``run["loss"]`` is NaN.
    """
    return series.isel(step=run["loss"].notnull().cumsum("step").argmax("step"))
