"""What a study is."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
import xarray as xr

from featscope.axes import Axis
from featscope.claims import Claim, Statement, how_many_hold
from featscope.claims.statement import Test, tests_of
from featscope.figures import Figure, Table
from featscope.options import ConfigError, alike, require, require_name, require_word
from featscope.studies.ladder import Ladder
from featscope.studies.summaries import over_steps
from featscope.training import Measurement
from featscope.training.experiment import Recipe

Assay = Callable[[Any], Mapping[str, Measurement]]
"""Measures an experiment."""
Runs = Mapping[str, xr.Dataset]
"""Arm name -> what was measured on it, with dimensions ``replica``, ``step`` and those of the measurements."""
ABOUT_THE_RUN = ("diverged", "last_step")
"""What is measured of how replicas ended."""
Role = Literal["arm", "control", "reference"]

R = TypeVar("R", bound=Recipe)


@dataclass(frozen=True)
class Arm(Generic[R]):
    """One of the ways that a study compares: a name, a recipe and a role.

    Attributes:
        name: short name, as it stands in results and in names of files: letters, digits, and of the rest - . _ @ = +.
        recipe: what is built and how long it goes on.
        about: what is different here, in one sentence.
        label: two or three words for figures and tables; the name if empty, which then is a word without - and =.
        role: "control": claims must not hold here, as what they depend on is taken away, and one of them at least is
            judged here; "reference": to compare with, such as what is set by hand; "arm": any other.
        stop_at: name of an event after which it may stop (in all replicas).
        at_start: measurements made once, before the first step.
        at_end: measurements made once, after the last step.
        over: options of the recipe that take several values on this arm. Its measurements get an axis for each, named
            after the option; points that differ in numbers only run as one program.
        watch: what is measured on the way, in place of the study's `watch`.
    """

    name: str
    recipe: R
    about: str
    label: str = ""
    role: Role = "arm"
    stop_at: str | None = None
    at_start: Sequence[Assay] = ()
    at_end: Sequence[Assay] = ()
    over: Sequence[Axis] = ()
    watch: Assay | None = None

    def __post_init__(self) -> None:
        require_name(self, "name")
        require_word(self, "role")
        recipe: Any = self.recipe
        options = is_dataclass(recipe) and not isinstance(recipe, type)
        require(self, "recipe", options, "a dataclass of options, such as a Training")
        if len({axis.name for axis in self.over}) < len(self.over):
            found = ", ".join(axis.option for axis in self.over)
            raise ConfigError(f"Arm.over = {found}: allowed are options whose last words differ. Rename an option.")


def require_different_names(arms: Iterable[Arm]) -> None:
    """Raise `ConfigError` where two of ``arms`` have one name: they would share files and measurements.

    Names that differ by capitals alone are one in names of files, on some machines.
    """
    arms = list(arms)
    for arm in arms:
        if not isinstance(arm, Arm):
            raise ConfigError(f"arms() gave {arm!r}: allowed are Arms. Make one of it: Arm(name, recipe, about)")
    for one, other in alike(arm.name for arm in arms):
        said = "is that of two arms" if one == other else f"differs by capitals alone from another arm's, {one!r}"
        raise ConfigError(
            f"Arm.name = {other!r} {said}: allowed are names that differ by more than capitals. Rename one."
        )


@dataclass(frozen=True)
class Story:
    """What a run has to say on the first screen of its page. It is computed from the run, so it turns with a verdict.

    Attributes:
        found: what was found, in one sentence without a word that needs explaining.
        lede: two or three sentences that a newcomer needs to read the first figure.
        headlines: the three to five claims that matter most, the first first, as "id" or "id@arm"; with each what was
            seen there, in a sentence, or nothing.
    """

    found: str
    lede: str = ""
    headlines: Mapping[str, str] = field(default_factory=dict)


class Study:
    """Base of all studies: a frozen dataclass whose fields are the study's options.

    A study says which arms it has (`arms`), what is measured on the way (`watch`), and what follows: its claims are
    methods under `identity`, `bound`, `ordering` or `scaling`, in the order of the paper. `figures` and `story` have
    defaults. It runs nothing itself.
    """

    name: ClassVar[str] = ""
    """The name that `featscope run` knows it by; the class's name if empty."""
    asks: ClassVar[str] = ""
    """What is asked, in a line; the first line of the class's docstring if empty."""
    default_replicas: ClassVar[int] = 8
    tests: ClassVar[Sequence[Test]] = ()
    """The claims, as they are declared."""
    data_options: ClassVar[Sequence[str]] = ()
    """Options that name the data, where claims are expected on any, or say themselves on which (``given``): a page does
    not call them away from their defaults."""
    ladders: ClassVar[Sequence[Ladder]] = ()
    """Along what its claims have a trend, for `featscope trend`."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.tests = tests_of(cls)

    @classmethod
    def statements(cls) -> Sequence[Statement]:
        """What the study puts to the test."""
        return [test.statement for test in cls.tests]

    @property
    def command(self) -> str:
        """The words after `featscope` that run the study, without its options."""
        return f"run {self.name}"

    def smallest(self) -> "Study":
        """The study at the smallest size at which everything can be measured, for `featscope check` and for tests."""
        return self

    def arms(self) -> Iterable[Arm]:
        """The arms, in the order of the story."""
        raise NotImplementedError

    def arm(self, name: str) -> Arm:
        """The arm called ``name``. Arms follow from the options, so they are made once."""
        made = self.__dict__.setdefault("_arms", {})  # beside the fields, which are frozen
        if not made:
            made.update((arm.name, arm) for arm in self.arms())
        return made[name]

    def placed(self, run: xr.Dataset, arm: str) -> xr.Dataset:
        """The answers on an arm that asks (a `Questionnaire`), with the values of its grid."""
        return run.assign_coords({axis: list(values) for axis, values in self.arm(arm).recipe.grid.items()})

    def labelled(self, runs: Runs) -> Runs:
        """``runs`` by the labels of their arms, as figures call them; by name where arms share a label."""
        labels = [self.arm(name).label or name for name in runs]
        called = [label if labels.count(label) == 1 else name for name, label in zip(runs, labels, strict=True)]
        called = called if len(set(called)) == len(called) else list(runs)  # a label may be the name of another arm
        return dict(zip(called, runs.values(), strict=True))

    def watch(self, experiment: Any) -> Mapping[str, Measurement]:
        """What to measure on the way, beside what an experiment measures of itself."""
        return {}

    def claims(self, runs: Runs) -> Sequence[Claim]:
        """The verdicts, by arithmetic on what was measured."""
        return [claim for test in self.tests for claim in test.claims(self, runs)]

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """The figures, in the order of the story. Unless a study says otherwise: all series over steps.

        The frame adds identities against their predictions.
        """
        return over_steps(runs)

    def tables(self, runs: Runs) -> Iterable[Table]:
        """Answers to be read; none unless a study says so. ``runs`` have the texts that `Questionnaire.texts` names."""
        return ()

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """What was found, in words. Unless a study says otherwise: how many claims hold."""
        return Story(how_many_hold(claims) or "Nothing is claimed; the figures show what was measured.")


def last(run: xr.Dataset, series: xr.DataArray) -> xr.DataArray:
    """The value of ``series`` when each replica was last looked at: ``[replica, ...]``.

    Shards of an arm may stop early at different steps, and a replica that diverged is looked at no more.
    """
    place = xr.apply_ufunc(run["step"].values.searchsorted, run["last_step"])
    return series.isel(step=place)


def looked(run: xr.Dataset) -> xr.DataArray:
    """At which steps each replica was looked at: ``[replica, step]``, and axes of the arm.

    Until it diverged or its shard stopped early; and not at a step at which another shard alone was, as it stopped
    there between two looks of this one.
    """
    steps, end = run["step"], run["last_step"]
    until_end, of_another = steps <= end, steps.isin(np.unique(end)) & (steps != end)
    if not of_another.any():
        return until_end
    own = {"step", *end.dims}
    series = [one for one in run.values() if own <= {*one.dims}]
    seen = sum(one.notnull().any({*one.dims} - own) for one in series) > 0
    return until_end & (seen | ~of_another)


def farthest(values: xr.DataArray, over: str, centre: float = 1.0) -> xr.DataArray:
    """The value that is farthest from ``centre`` along the axis ``over``."""
    away = values - centre
    low, high = away.min(over), away.max(over)
    return centre + xr.where(high >= -low, high, low)
