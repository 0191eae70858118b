"""A study along one of its ladders: every claim at every size, and what they foretell of larger ones."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import get_args

import numpy as np
import xarray as xr

from featscope.axes import typed
from featscope.claims import Claim
from featscope.figures import Curve, Curves, Figure, Panel
from featscope.options import ConfigError
from featscope.studies.base import Arm, Runs, Story, Study
from featscope.studies.ladder import Ladder
from featscope.studies.summaries import INTERVALS, over_replicas
from featscope.trends import FORETOLD, Bears, ClaimTrend, shared_range, trend_of

_ANY = (-np.inf, np.inf)
WITH_LADDERS = ("decoupling", "imbalance", "prediction-head", "tensor-power")
"""FeatScope's own studies that have."""
_LEAST_WEIGHT = 0.05  # of a family that is told


@dataclass(frozen=True)
class ScalingStudy(Study):
    """A study at every size of one of its ladders. An arm at a size is an arm of its own, ``augmented@d=64``.

    Attributes:
        study: what is run; its option that grows is set by the ladder.
        axis: the ladder, by its option or symbol; the study's first if empty.
        sizes: sizes in place of the ladder's own.
    """

    study: Study
    axis: str = ""
    sizes: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        sized = [self.at(size) for size in self.ladder.sizes]
        known = {test.statement.id: set(test.arms(sized[0])) for test in self.study.tests}
        names = [arm.name for arm in sized[0].arms()]
        if missing := set(self.ladder.arms) - set(names):
            raise ConfigError(f"Ladder.arms: {sorted(missing)[0]!r} is no arm: allowed is one of {', '.join(names)}")
        run = self.ladder.arms or names
        for key, bears in self.ladder.claims.items():
            claim, _, arm = key.partition("@")
            if claim not in known or (arm and arm not in known[claim]):
                raise ConfigError(f"Ladder.claims: {key!r} is no claim of {self.study.name}: see featscope show")
            if not ({arm} if arm else known[claim]).intersection(run):
                raise ConfigError(
                    f"Ladder.claims: {key!r} is of no arm that is run: allowed is one of {', '.join(run)}. Add its arm "
                    "to Ladder.arms, or leave the claim out"
                )
            if bears not in get_args(Bears):
                allowed = ", ".join(map(repr, get_args(Bears)))
                raise ConfigError(f"Ladder.claims: {key!r} bears {bears!r}: allowed is one of {allowed}")

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the study."""
        return self.study.name

    @property
    def default_replicas(self) -> int:  # type: ignore[override]
        """As in the study."""
        return self.study.default_replicas

    @property
    def command(self) -> str:
        """The words after `featscope` that run it."""
        sizes = f" --sizes {' '.join(map(typed, self.sizes))}" if self.sizes else ""
        return f"trend {self.name}{f' --axis {self.axis}' if self.axis else ''}{sizes}"

    @cached_property
    def ladder(self) -> Ladder:
        """The ladder, with the sizes that are asked for."""
        wanted = self.axis.replace("-", "_")
        named = [one for one in self.study.ladders if not wanted or wanted in (one.axis, one.name)]
        if not self.study.ladders:
            raise ConfigError(
                f"{self.study.name} declares no ladder to climb: allowed are {', '.join(WITH_LADDERS)}, and studies of "
                "yours that have `ladders`"
            )
        if not named:
            known = ", ".join(one.name for one in self.study.ladders)
            raise ConfigError(f"--axis = {self.axis!r} is no ladder of {self.study.name}: allowed is one of {known}")
        return replace(named[0], sizes=self.sizes) if self.sizes else named[0]

    def at(self, size: float) -> Study:
        """The study at a size.

        Raises:
            ConfigError: an option is out of its range there.
        """
        try:
            return self.ladder.climb(self.study, size)
        except ConfigError as error:
            wrong = ConfigError(
                f"{'--sizes' if self.sizes else 'the ladder'} at {self.ladder.name} = {size:.12g}: {error}"
            )
            wrong.owner, wrong.field = error.owner, error.field
            raise wrong from None

    def arms(self) -> Sequence[Arm]:
        """The arms of every size that claims need."""
        found = []
        for size in self.ladder.sizes:
            study = self.at(size)
            for arm in study.arms():
                if not self.ladder.arms or arm.name in self.ladder.arms:
                    suffix = self._suffix(size)
                    label = f"{arm.label or arm.name}, {suffix[1:]}"
                    found.append(replace(arm, name=arm.name + suffix, label=label, watch=arm.watch or study.watch))
        return found

    def claims(self, runs: Runs) -> Sequence[Claim]:
        """The ladder's claims at every size, as the study of that size judges them."""
        return [replace(claim, arm=claim.arm + self._suffix(size)) for size, claim in self._judged(runs)]

    def _judged(self, runs: Runs) -> Iterator[tuple[float, Claim]]:
        for size in self.ladder.sizes:
            study, suffix = self.at(size), self._suffix(size)
            own = {name.removesuffix(suffix): run for name, run in runs.items() if name.endswith(suffix)}
            for test in study.tests:
                for arm in test.arms(study):
                    if arm not in own or self.ladder.bears(test.statement.id, arm) is None:
                        continue
                    try:
                        claim = test.judge(study, arm, own)
                    except KeyError as error:
                        left_out = {one.name for one in study.arms()} - own.keys()
                        if not (asked := left_out.intersection(error.args)):
                            raise
                        raise LookupError(
                            f"{test.statement.id!r} looks at the arm {asked.pop()!r}, which is not run: add it to "
                            f"Ladder.arms = {self.ladder.arms}, and go on with --resume"
                        ) from None
                    if claim is not None:
                        yield size, claim

    def _suffix(self, size: float) -> str:
        return f"@{self.ladder.name}={size:.12g}"

    def trends(self, claims: Sequence[Claim]) -> dict[str, ClaimTrend]:
        """ "id@arm" -> its trend, for every claim that was judged at all sizes."""
        ladder = self.ladder
        trends = {}
        for key, by_size in self._by_size(claims).items():
            name, _, arm = key.partition("@")
            bears = ladder.bears(name, arm)
            if bears is None or len(by_size) < len(ladder.sizes):
                continue
            trends[key] = trend_of([by_size[size] for size in ladder.sizes], ladder.sizes, bears)
        return trends

    def _by_size(self, claims: Sequence[Claim]) -> dict[str, dict[float, Claim]]:
        """ "id@arm" -> size -> the claim there."""
        found: dict[str, dict[float, Claim]] = {}
        for claim in claims:
            for size in self.ladder.sizes:
                if claim.arm.endswith(suffix := self._suffix(size)):
                    found.setdefault(f"{claim.id}@{claim.arm.removesuffix(suffix)}", {})[size] = claim
        return found

    def _without_a_trend(self, runs: Runs, claims: Sequence[Claim]) -> str:
        """Which of the ladder's claims are not judged at some size at which their arm was run, in sentences."""
        found, lacking = self._by_size(claims), dict[str, list[str]]()
        for size in self.ladder.sizes:
            study = self.at(size)
            for test in study.tests:
                for arm in test.arms(study):
                    key = f"{test.statement.id}@{arm}"
                    wanted = self.ladder.bears(test.statement.id, arm) is not None and arm + self._suffix(size) in runs
                    if wanted and size not in found.get(key, {}):
                        lacking.setdefault(key, []).append(f"{size:.12g}")
        name = self.ladder.name
        return "".join(
            f" {key} has no trend: it is not judged at {name} = {', '.join(at)}." for key, at in lacking.items()
        )

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """Every claim over the size, with what is foretold."""
        for key, trend in self.trends(self.claims(runs)).items():
            yield self._figure(key, trend)

    def _figure(self, key: str, found: ClaimTrend) -> Curves:
        name, _, arm = key.partition("@")
        first, at, replicas = found.claims[0], np.array(found.sizes), found.samples.shape[1]
        within = shared_range(found.claims) if self.ladder.bears(name, arm) == "value" else _ANY
        middle, low, high = self._measured(found, within)
        below, above = (None, None) if replicas < 2 else (low, high)
        curves = [Curve("measured", at, middle, below, above, samples=found.samples.T)]
        if found.trend is not None:
            trend = found.trend
            if not found.silent:
                curves.append(Curve("foretold", trend.sizes, *trend.band(), dashed=True))
            ends = np.array([at[0], at[-1] if found.silent else trend.sizes[-1]])
            edges = [trend.predicted - trend.tolerance, trend.predicted + trend.tolerance]
            for edge in edges if first.relation == "=" else [trend.predicted]:
                curves.append(Curve("bound", ends, np.full(2, edge), dashed=True))
        more = _how_many(found) if found.silent else "The dashed band holds 90 % of what is foretold."
        return Curves(
            f"trend-{name}-{arm}",
            f"{first.title or first.id} ({arm})",
            " ".join(filter(None, (trend_in_words(found, self.ladder.name), laws_of(found), INTERVALS, more))),
            [Panel(first.title or first.id, self.ladder.name, found.compared, curves, log_x=True)],
            claims=(first.id,),
        )

    @staticmethod
    def _measured(found: ClaimTrend, within: tuple[float, float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What was measured at each size and the ends of its interval: of the replicas that measured it at every size,
        as the trend is."""
        sound = found.sound
        if not sound.size:
            nothing = np.full(len(found.sizes), np.nan)
            return nothing, nothing, nothing
        if sound.shape == found.samples.shape:
            low, high = np.where(np.isfinite(found.intervals), found.intervals, np.nan).T
            return sound.mean(axis=1), low, high
        return over_replicas(xr.DataArray(sound, dims=("size", "replica")), within)

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """How many claims are foretold to hold."""
        trends, name = self.trends(claims), self.ladder.name
        said = [found.trend for found in trends.values() if found.trend is not None and not found.silent]
        last = [trend.at(FORETOLD[-1]).verdict for trend in said]
        of_none = f"; nothing is said of {len(trends) - len(said)}" if len(said) < len(trends) else ""
        largest = FORETOLD[-1] * self.ladder.sizes[-1]
        sizes = ", ".join(f"{size:.12g}" for size in self.ladder.sizes)
        return Story(
            f"Of {len(trends)} claims over {len(self.ladder.sizes)} sizes, {last.count('holds')} are foretold to hold "
            f"at {name} = {largest:.12g}{of_none}.{self._without_a_trend(runs, claims)}",
            f"The study at {name} = {sizes}. {self.ladder.about} All laws that fit the sizes run are followed, by "
            "weight; nothing is said beyond 16 times the largest.",
        )


def trend_in_words(found: ClaimTrend, name: str) -> str:
    """What a trend says, in a sentence or two; ``name`` is the size's."""
    if found.trend is None or found.silent:
        return f"Nothing is said of larger {name}: {found.silent}."
    trend, direction, crossing = found.trend, found.trend.direction(), found.trend.crossing()
    moves = {"toward": "It moves toward holding", "away": "It moves away from holding"}
    words = [f"{moves.get(direction.word, 'Whether it moves toward holding cannot be told')}, up to {name} = "]
    words.append(f"{direction.up_to:.12g}. ")
    for factor in FORETOLD:
        foretold = trend.at(factor)
        low, high = foretold.interval
        words.append(f"At {foretold.size:.12g}: {foretold.verdict} ({low:.3g} to {high:.3g}). ")
    if crossing is not None and np.isfinite(crossing.interval[0]):
        does = "crosses" if np.isfinite(crossing.median) else "may cross"
        words.append(f"It {does} its bound at {_size(crossing.interval[0])} to {_size(crossing.interval[1])}. ")
    words.append(_how_many(found))
    return "".join(words).strip()


def laws_of(found: ClaimTrend) -> str:
    """Which laws a trend follows, by weight, in a sentence; empty where it has none."""
    if found.trend is None:
        return ""
    weights = sorted(found.trend.families.items(), key=lambda one: -one[1])
    told = ", ".join(f"{name} {weight:.2f}" for name, weight in weights if weight >= _LEAST_WEIGHT)
    return f"Laws by weight: {told}."


def _how_many(found: ClaimTrend) -> str:
    """Of how many replicas it is, where that is not all of them."""
    count, replicas = found.sound.shape[1], found.samples.shape[1]
    if count == replicas:
        return ""
    return f"Of {count} of {replicas} replicas: the others did not measure it at every size."


def _size(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "beyond what is foretold"
