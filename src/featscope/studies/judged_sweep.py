"""A study's claims at every combination of one or two options' values: the phase diagram of a theorem."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from math import isfinite, prod
from typing import Any

import numpy as np
import xarray as xr

from featscope.axes import Axis, is_whole, numeric_options
from featscope.claims import LEVEL, Claim
from featscope.claims.digits import significant
from featscope.claims.statement import Test
from featscope.figures import Figure, VerdictPanel, Verdicts
from featscope.options import ConfigError
from featscope.studies.at_point import PLACE, AtPoint, at_end, at_start, moved, watch
from featscope.studies.base import Arm, Runs, Story, Study
from featscope.studies.refinement import Point, closer
from featscope.studies.summaries import counted
from featscope.studies.sweep import MOST_POINTS

VERDICTS = ("holds", "fails", "undecided")
_MOST_AXES = 2
_SCHEDULE = {"steps", "probe_every"}


@dataclass(frozen=True)
class JudgedSweep(Study):
    """All that claims of a study need, trained at every point of one or two axes, and judged there.

    Attributes:
        study: whose claims they are.
        axes: what varies; the first is drawn along x, the second along y.
        only: ids of the claims that are judged; all if empty. Arms that none of these needs are not trained.
        refine: points that may be added where verdicts change or are undecided.
        added: those that were, in rounds.
    """

    study: Study
    axes: tuple[Axis, ...]
    only: tuple[str, ...] = ()
    refine: int = 0
    added: tuple[tuple[Point, ...], ...] = ()

    def __post_init__(self) -> None:
        names = [axis.name for axis in self.axes]
        if not 1 <= len(names) <= _MOST_AXES or len(set(names)) < len(names):
            raise ConfigError(
                f"--axis is given for {', '.join(names) or 'nothing'}: allowed are one or two different ones, "
                "--axis NAME=SPEC; a diagram has no more"
            )
        if (count := prod(len(axis.values) for axis in self.axes) + self.refine) > MOST_POINTS:
            raise ConfigError(f"--axis and --refine make {count} points: allowed is at most {MOST_POINTS}. Take fewer.")
        if self.refine < 0:
            raise ConfigError(f"--refine = {self.refine} is out of range: allowed is >= 0 points")
        known = [test.statement.id for test in self.study.tests]
        if not known:
            raise ConfigError(f"{self.study.name} claims nothing: allowed are studies with claims; drop --judge")
        for name in self.only:
            if name not in known:
                raise ConfigError(f"--claim = {name!r} is unknown: allowed is one of {', '.join(known)}")
        # Making all recipes now refuses what is out of range before any work.
        start, *others = self.points
        for place, axis in enumerate(self.axes):
            elsewhere = [to for to in others if all(to[i] == start[i] for i in range(len(start)) if i != place)]
            if elsewhere and all(self._recipes(to) == self._recipes(start) for to in elsewhere):
                raise ConfigError(
                    f"--axis {axis.option}={axis} changes nothing in any arm that is run: allowed are "
                    "options that some arm does not set itself"
                )

    def _recipes(self, point: Point) -> dict[str, Any]:
        return {name: arm.recipe for name, arm in self._arms_at(point).items()}

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the study."""
        return self.study.name

    @property
    def asks(self) -> str:  # type: ignore[override]
        """What is asked of the study."""
        return f"Where along {' and '.join(axis.name for axis in self.axes)} does it hold?"

    @property
    def default_replicas(self) -> int:  # type: ignore[override]
        """As in the study."""
        return self.study.default_replicas

    @property
    def command(self) -> str:
        """The words after `featscope` that run it."""
        words = [f"--axis {axis.option}={axis}" for axis in self.axes] + [f"--claim {name}" for name in self.only]
        words += [f"--refine {self.refine}"] if self.refine else []
        return " ".join([f"sweep {self.name} --judge", *words])

    # --- Points -------------------------------------------------------------------------------------------------------

    @property
    def _grid(self) -> list[Point]:
        return list(product(*(axis.values for axis in self.axes)))

    @cached_property
    def points(self) -> list[Point]:
        """All points: the grid, then those that were added."""
        return [*self._grid, *(point for several in self.added for point in several)]

    @cached_property
    def whole(self) -> list[bool]:
        """Of each axis, whether its option takes whole numbers only."""
        return [is_whole(self.study, axis.option) for axis in self.axes]

    def at(self, point: Point) -> Study:
        """The study at a point.

        Raises:
            ConfigError: an option is out of its range there.
        """
        made = self.__dict__.setdefault("_studies", {})  # beside the fields, which are frozen
        if point not in made:
            made[point] = moved(self.study, [axis.option for axis in self.axes], point)
        return made[point]

    def _tests(self, study: Study) -> list[Test]:
        return [test for test in study.tests if not self.only or test.statement.id in self.only]

    def _arms_at(self, point: Point) -> dict[str, Arm]:
        """The arms that claims need there: those that they are about, and all where one looks at several."""
        study = self.at(point)
        arms = {arm.name: arm for arm in study.arms()}
        tests = self._tests(study)
        if any("runs" in test.wants for test in tests):
            return arms
        needed = {name for test in tests for name in test.arms(study)}
        return {name: arm for name, arm in arms.items() if name in needed}

    def _suffix(self, point: Point) -> str:
        return "@" + "+".join(f"{axis.name}={value:.12g}" for axis, value in zip(self.axes, point, strict=True))

    def _batches(self) -> Iterator[list[int]]:
        """Places of points that train together: of one round, and with equal whole numbers, as these change shapes."""
        first = 0
        for several in (self._grid, *self.added):
            batches: list[tuple[dict[tuple[str, str], Any], list[int]]] = []
            for place, point in enumerate(several, first):
                counts = self._counts_at(point)
                for known, places in batches:
                    if all(known.get(option, count) == count for option, count in counts.items()):
                        known |= counts
                        places.append(place)
                        break
                else:
                    batches.append((counts, [place]))
            first += len(several)
            yield from (places for _, places in batches)

    def _counts_at(self, point: Point) -> dict[tuple[str, str], Any]:
        """Whole numbers there, those of the axes and all that arms' recipes are made with but how long they go on."""
        of_axes = zip(self.axes, point, self.whole, strict=True)
        counts: dict[tuple[str, str], Any] = {("", axis.option): value for axis, value, whole in of_axes if whole}
        for name, arm in self._arms_at(point).items():
            numbers = numeric_options(arm.recipe)
            counts |= {(name, at): n for at, n in numbers.items() if at not in _SCHEDULE and is_whole(arm.recipe, at)}
        return counts

    def arms(self) -> Sequence[Arm]:
        """Each arm over the points of a batch, or, where it ranges over something itself, at each of them."""
        found = []
        options = tuple(axis.option for axis in self.axes)
        for number, places in enumerate(self._batches()):
            there = {place: self._arms_at(self.points[place]) for place in places}
            for name in dict.fromkeys(name for arms in there.values() for name in arms):
                own = {place: arms[name] for place, arms in there.items() if name in arms}
                if any(arm.over for arm in own.values()):
                    found += [self._alone(self.points[place], arm) for place, arm in own.items()]
                    continue
                arm = next(iter(own.values()))
                known = tuple(self.points[: max(own) + 1])  # those that come later must not change what is stored
                recipe = AtPoint(self.study, name, options, known, min(own))
                batch: Arm = Arm(
                    name + _of_batch(number),
                    recipe,
                    f"{arm.about}, at {len(own)} points",
                    arm.label,
                    arm.role,
                    stop_at=arm.stop_at,
                    at_start=(at_start,),
                    at_end=(at_end,),
                    over=(Axis(PLACE, tuple(map(float, own))),),
                    watch=watch,
                )
                found.append(batch)
        return found

    def shown_arms(self) -> list[Arm]:
        """The study's arms as they are at the first point."""
        return list(self._arms_at(self.points[0]).values())

    def _alone(self, point: Point, arm: Arm) -> Arm:
        suffix = self._suffix(point)
        own = arm.watch or self.at(point).watch
        return replace(arm, name=arm.name + suffix, label=f"{arm.label or arm.name}, {suffix[1:]}", watch=own)

    # --- Verdicts -----------------------------------------------------------------------------------------------------

    def claims(self, runs: Runs) -> Sequence[Claim]:
        """The claims at every point, as the study there judges them."""
        return [replace(claim, arm=claim.arm + self._suffix(self.points[place])) for place, claim in self._judged(runs)]

    def _judged(self, runs: Runs) -> Iterator[tuple[int, Claim]]:
        for number, places in enumerate(self._batches()):
            for place in places:
                study, own = self.at(self.points[place]), dict(self._runs_at(runs, place, number))
                for test in self._tests(study):
                    for claim in test.claims(study, own):
                        yield place, claim

    def _runs_at(self, runs: Runs, place: int, batch: int) -> Iterator[tuple[str, xr.Dataset]]:
        point = self.points[place]
        for name in self._arms_at(point):
            if (alone := name + self._suffix(point)) in runs:
                yield name, runs[alone]
                continue
            known = (runs.get(name + _of_batch(number)) for number in (batch, *range(batch)))  # once, fewer were apart
            if (run := next((run for run in known if run is not None and place in run[PLACE]), None)) is not None:
                yield name, _looked_at(run.sel(at=place, drop=True))

    def over_points(self, claims: Sequence[Claim]) -> dict[str, dict[Point, Claim]]:
        """ "id@arm" -> point -> the claim there, in the order of the claims."""
        places = {self._suffix(point): point for point in self.points}
        found: dict[str, dict[Point, Claim]] = {}
        for claim in claims:
            arm, _, at = claim.arm.rpartition("@")
            if f"@{at}" in places:
                found.setdefault(f"{claim.id}@{arm}", {})[places[f"@{at}"]] = claim
        return found

    def closer(self, claims: Sequence[Claim]) -> tuple[Point, ...]:
        """Points to look at next, within what may be added; none if that is used up or nothing is left to find."""
        found = self.over_points(claims).values()
        verdicts = {point: [of[point].verdict if point in of else "" for of in found] for point in self.points}
        left = self.refine - sum(map(len, self.added))
        return tuple(closer(self.axes, self.whole, verdicts, left, self._possible))

    def _possible(self, point: Point) -> bool:
        try:
            self._arms_at(point)
        except ConfigError:
            return False
        return True

    def grown(self, more: tuple[Point, ...]) -> "JudgedSweep":
        """With a further round of points."""
        return replace(self, added=(*self.added, more))

    # --- What is told -------------------------------------------------------------------------------------------------

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """A diagram for each claim, a panel for each of its arms; those whose verdict changes come first."""
        by_claim: dict[str, dict[str, dict[Point, Claim]]] = {}
        for key, of in self.over_points(self.claims(runs)).items():
            name, _, arm = key.partition("@")
            by_claim.setdefault(name, {})[arm] = of
        ranked = sorted(by_claim.items(), key=lambda named: -max(len(_verdicts(of)) for of in named[1].values()))
        for name, arms in ranked:
            yield self._figure(name, arms)

    def _figure(self, name: str, arms: Mapping[str, Mapping[Point, Claim]]) -> Verdicts:
        x, *rest = self.axes
        first = next(iter(next(iter(arms.values())).values()))
        said = f"{first.statement} " if first.title and first.statement != first.title else ""
        mark = "A circle: it holds; a cross: it fails; a ring: undecided. "
        area = "Areas are of the nearest point. " if rest else "Dashed: the bound. "
        lost = sum(not isfinite(claim.measured) for of in arms.values() for claim in of.values())
        foot = f"Points of which nothing was measured stand at the foot: {lost}. " if lost and not rest else ""
        by = "Verdicts by" if rest else "Bars and verdicts:"
        return Verdicts(
            f"where-{name}",
            f"Where it holds: {first.title or first.statement}",
            f"{said}{mark}{area}{foot}{self._same(arms)}{by} {100 * LEVEL:.3g} % intervals.",
            [self._panel(arm, of) for arm, of in arms.items()],
            _axis_label(x),
            _axis_label(rest[0]) if rest else "measured",
            log_x=x.logarithmic,
            log_y=bool(rest) and rest[0].logarithmic,
            areas=bool(rest),
            claims=(name,),
        )

    def _same(self, arms: Iterable[str]) -> str:
        """Which of ``arms`` train alike at all points."""
        recipes = [*map(self._recipes, self.points)]
        same = [arm for arm in arms if len(recipes) > 1 and all(one.get(arm) == recipes[0].get(arm) for one in recipes)]
        return f"One measurement at all points, as it sets what varies itself: {', '.join(same)}. " if same else ""

    def _panel(self, arm: str, of: Mapping[Point, Claim]) -> VerdictPanel:
        at = sorted(of)
        claims = [of[point] for point in at]
        said = [f"{self._suffix(point)[1:].replace('+', ', ')}: {_in_words(of[point])}" for point in at]
        places = np.array(at, dtype=float)
        verdicts = [claim.verdict for claim in claims]
        if len(self.axes) > 1:
            return VerdictPanel(arm, places[:, 0], places[:, 1], verdicts, said)
        measured = np.array([claim.measured for claim in claims])
        low, high = np.array([claim.interval for claim in claims]).T
        predicted, tolerance = (np.array([getattr(c, of) for c in claims]) for of in ("predicted", "tolerance"))
        edges = [predicted - tolerance, predicted + tolerance] if claims[0].relation == "=" else [predicted]
        return VerdictPanel(arm, places[:, 0], measured, verdicts, said, low, high, edges)

    def table(self, claims: Sequence[Claim]) -> tuple[list[str], list[list[str]]]:
        """Headings and rows: of each claim on each arm, at how many points it has each verdict, and where."""
        headings = ["claim", *VERDICTS, f"along {self.axes[0].name}" if len(self.axes) == 1 else "where it changes"]
        rows = []
        for key, of in self.over_points(claims).items():
            counts = [sum(claim.verdict == verdict for claim in of.values()) for verdict in VERDICTS]
            rows.append([key, *map(str, counts), self._where(of)])
        return headings, rows

    def _where(self, of: Mapping[Point, Claim]) -> str:
        """Along one axis, its verdicts in order with the points between which they change; along two, over which part
        of the axes they do."""
        if len(_verdicts(of)) < 2:
            return "the same everywhere"
        if len(self.axes) == 1:
            spans: list[tuple[str, float, float]] = []
            for (value,) in sorted(of):
                verdict = of[(value,)].verdict
                start = spans.pop()[1] if spans and spans[-1][0] == verdict else value
                spans.append((verdict, start, value))
            return "; ".join(f"{v} {a:.12g}" + ("" if a == b else f" to {b:.12g}") for v, a, b in spans)
        said = []
        for place, axis in enumerate(self.axes):
            lines: dict[Point, list[tuple[float, str]]] = {}
            for point in sorted(of):
                lines.setdefault((*point[:place], *point[place + 1 :]), []).append((point[place], of[point].verdict))
            steps = [(a, b) for line in lines.values() for (a, v), (b, w) in pairwise(line) if v != w]
            if steps:
                said.append(f"{axis.name} {min(a for a, _ in steps):.12g} to {max(b for _, b in steps):.12g}")
        return "; ".join(said)

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """At how many points each verdict was found."""
        over = self.over_points(claims)
        where = f"{len(self.points)} points over {' and '.join(axis.name for axis in self.axes)}"
        if len(over) == 1:
            ((key, of),) = over.items()
            counts = {v: sum(claim.verdict == v for claim in of.values()) for v in VERDICTS}
            told = f"holds at {counts['holds']}, fails at {counts['fails']} and is undecided at {counts['undecided']}"
            found = f"Of {where}, {key.partition('@')[0]} {told}."
        else:
            changing = sum(len(_verdicts(of)) > 1 for of in over.values())
            turn = "changes its" if changing == 1 else "change their"
            found = f"Of {len(over)} claims on their arms, {changing} {turn} verdict within {where}."
        added = f"{counted(extra := sum(map(len, self.added)), 'point')} {'was' if extra == 1 else 'were'}"
        closer_look = f" {added} added where verdicts change or are undecided." if extra else ""
        lede = (
            f"{'; '.join(f'{axis.name} = {axis}'.replace(',', ', ') for axis in self.axes)}; all else as in the "
            f"study.{closer_look} Replicas see the same random draws at every point, so neighbours err together."
        )
        return Story(found, lede, self._examples(over))

    def _examples(self, over: Mapping[str, Mapping[Point, Claim]]) -> dict[str, str]:
        """One point of each verdict, of the first claim that has most of them."""
        if not over:
            return {}
        key, of = max(over.items(), key=lambda named: len(_verdicts(named[1])))
        first = {of[point].verdict: point for point in sorted(of, reverse=True)}
        shown = {v: self._suffix(first[v]) for v in VERDICTS if v in first}
        return {f"{key}{at}": f"At {at[1:].replace('+', ', ')}." for at in shown.values()}


def _of_batch(number: int) -> str:
    return f"@{number}" if number else ""


def _looked_at(run: xr.Dataset) -> xr.Dataset:
    """Without the steps at which only other points of the batch were looked at."""
    series = [name for name, one in run.data_vars.items() if "step" in one.dims and one.dtype.kind == "f"]
    kept = run.dropna("step", how="all", subset=series) if series else run
    return kept if kept.sizes.get("step") else run


def _verdicts(of: Mapping[Point, Claim]) -> set[str]:
    return {claim.verdict for claim in of.values()}


def _axis_label(axis: Axis) -> str:
    return f"{axis.option.replace('_', ' ')}{' (logarithmic)' if axis.logarithmic else ''}"


def _in_words(claim: Claim) -> str:
    numbers, accepted = (claim.measured, *claim.interval), claim.tolerance if claim.relation == "=" else None
    digits, of_tolerance = significant(claim.predicted, numbers, accepted, 4)
    measured, low, high = (f"{value:.{digits}g}" for value in numbers)
    within = "" if accepted is None else f" ± {accepted:.{of_tolerance}g}"
    wanted = f"{claim.relation} {claim.predicted:.{digits}g}{within}"
    return f"{claim.verdict}, {measured} ({low} to {high}), wanted {wanted}"
