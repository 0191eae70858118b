"""Checking a study in seconds: a step of every arm at its smallest size, then every claim, figure and headline."""

import json
import time
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr

from featscope.axes import numeric_options
from featscope.claims import Claim
from featscope.claims.soundness import never
from featscope.claims.statement import Test
from featscope.figures import Figure
from featscope.options import ConfigError, alike
from featscope.own_code import nearest, said
from featscope.runs.checked_json import Place
from featscope.studies import Arm, Study
from featscope.studies.base import Assay
from featscope.studies.summaries import identities
from featscope.testing import measure
from featscope.training import Experiment

_REPLICAS = 2
_ROUNDING = 1e-6
_BITS, _NOISE = 1e-3, 1e-5  # by which the order of sums may change a number, of itself and of the largest beside it
_LEAST = {2: 1e-3, 4: 1e-7}  # below which all may be rounding of numbers around 1, by bytes of a number; 1e-9 of more
_TIMES = {"s", "ms"}  # no two runs take the same
_CAPITALS = ", which are one in names of files on machines that know no capitals"


@dataclass(frozen=True)
class Checked:
    """What a check found.

    Attributes:
        arms: arms that took a step.
        claims: claims that could be judged, whatever their verdict.
        figures: figures that could be described.
        seconds: how long it took.
        problems: what is wrong, a sentence each.
    """

    arms: int
    claims: int
    figures: int
    seconds: float
    problems: Sequence[str]


def check(study: Study) -> Checked:
    """Take one step of every arm of ``study`` at its smallest size, and judge and describe what was measured.

    Verdicts mean nothing here. What shows is a claim on an arm that does not exist, a series that nobody measures, a
    measurement outside the range that its claim declares, a bound that none can miss or reach, looking that changes
    what it looks at, chance that is not drawn from the streams, a figure whose values do not fit together or that names
    an unknown claim. Errors of the study's own code are given with the line that raised them.
    """
    began = time.monotonic()
    small = study.smallest()
    arms = list(small.arms())
    on, problems = _arms_of_claims(small)
    problems += _names(small, arms, on)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # after a single step much is 0 or missing
        runs, found = _step(small, arms)
        problems += found
        if len(runs) < len(arms) or not arms:
            return Checked(len(runs), 0, 0, time.monotonic() - began, problems)
        claims, found = _judge(small, runs, on)
        problems += found
        figures: list[Figure] = []
        headlines: list[str] = []
        try:
            drawn: list[Any] = [*(small.figures(runs) or ()), *identities(claims)]
            if others := [one for one in drawn if not isinstance(one, Figure)]:
                raise TypeError(f"figures gives {others[0]!r}: expected descriptions from featscope.figures")
            figures = drawn
            headlines = [*small.story(runs, claims).headlines]
        except Exception as error:
            problems.append(f"figures or story: {said(error, runs)}")
    problems += [f"two figures have the id {twice}" for twice in _alike(figure.id for figure in figures)]
    known = [test.statement.id for test in small.tests]
    named = [(f"the figure {figure.id!r} shows", name) for figure in figures for name in figure.claims]
    named += [("the story's headlines have", name.partition("@")[0]) for name in headlines]
    judged_on = {test.statement.id: list(arms) for test, arms in on.items()}
    problems += [
        f"{where} {name!r}, which is no claim{nearest(name, known)}" for where, name in named if name not in known
    ]
    for name, at, arm in (headline.partition("@") for headline in headlines):
        if at and name in judged_on and arm not in judged_on[name]:
            where = f"the story's headlines have '{name}@{arm}', and {name!r} is not judged on {arm!r}"
            problems.append(where + nearest(arm, judged_on[name]))
    return Checked(len(runs), len(claims), len(figures), time.monotonic() - began, problems)


def _step(study: Study, arms: Sequence[Arm]) -> tuple[dict[str, xr.Dataset], list[str]]:
    """What each arm measures around one step, and what went wrong; the same trouble of several arms is said once."""
    runs: dict[str, xr.Dataset] = {}
    failed: dict[str, list[str]] = {}
    by_chance: list[str] = []
    mixed: dict[str, list[str]] = {}
    changed: dict[str, list[str]] = {}
    for arm in (arm for arm in arms if not _unknown_options(arm)):
        before, seen = _global_chance(), _Seen({}, {})
        try:
            runs[arm.name] = measure(study, _noting(study, arm, seen), _REPLICAS, at_most=1)
            if _global_chance() != before and not _repeats(study, arm, runs[arm.name]):
                by_chance.append(arm.name)
            elif arm.recipe.replica_axis and (name := _not_alone(study, arm, seen.start, runs[arm.name])):
                mixed.setdefault(name, []).append(arm.name)
        except Exception as error:
            failed.setdefault(said(error), []).append(arm.name)
        for assay, name in seen.changes.items():
            changed.setdefault(f"{assay} changes {name!r}", []).append(arm.name)
    problems = [f"{_arms(names)} cannot take a step: {trouble}" for trouble, names in failed.items()]
    if by_chance:
        problems.append(
            f"{_arms(by_chance)} cannot be repeated: chance comes from a global generator of torch or numpy. Take all "
            "of it from the streams, as the `draws` that parts are given"
        )
    for change, names in changed.items():
        problems.append(
            f"{_arms(names)}: {change} of the experiment, so that looking changes what is looked at. Measure a copy, "
            "`.clone()`, without operations in place"
        )
    for name, names in mixed.items():
        problems.append(
            f"{_arms(names)}: replica 1 has another {name!r} alone than beside replica 0. Replicas must not meet: no "
            "sum, mean, roll or index over the first axis, and nothing drawn for one of them used for all"
        )
    return runs, problems


@dataclass
class _Seen:
    """Of an arm as it is measured: what an assay changed, by its name, and the state before the first step."""

    changes: dict[str, str]
    start: dict[str, Any]


def _noting(study: Study, arm: Arm, seen: _Seen) -> Arm:
    """``arm``, whose assays put what is to be known of it into ``seen``."""

    def noting(assay: Assay) -> Assay:
        def look(experiment: Experiment) -> Any:
            before = _state(experiment)
            seen.start = seen.start or before
            found = assay(experiment)
            after = _state(experiment)
            for name in sorted(before.keys() | after.keys()):
                if name not in before or name not in after or not _same(before[name], after[name]):
                    seen.changes.setdefault(getattr(assay, "__name__", "an assay"), name)
            return found

        return look

    return replace(
        arm,
        watch=noting(arm.watch or study.watch),
        at_start=[noting(assay) for assay in arm.at_start],
        at_end=[noting(assay) for assay in arm.at_end],
    )


def _state(experiment: Experiment) -> dict[str, Any]:
    tensors, numbers = experiment.state()
    return {**numbers, **{name: values.detach().clone() for name, values in tensors.items()}}


def _same(one: Any, other: Any) -> bool:
    """Whether two are alike, NaN where the other is NaN."""
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return bool(one == other)
    return one.shape == other.shape and bool(((one == other) | ((one != one) & (other != other))).all())


def _global_chance() -> tuple[bytes, str]:
    return torch.get_rng_state().numpy().tobytes(), repr(np.random.get_state(legacy=False))  # noqa: NPY002


def _repeats(study: Study, arm: Arm, run: xr.Dataset) -> bool:
    """Whether the arm measures the same again, now that global generators have moved on.

    They also move where a layer is made whose weights are then drawn from the streams, which is in order.
    """
    again = measure(study, arm, _REPLICAS, at_most=1)
    return all(run[name].equals(again[name]) for name in _not_times(run))


def _not_alone(study: Study, arm: Arm, start: Mapping[str, Any], run: xr.Dataset) -> str:
    """What is not the same of replica 1 where it is run alone: of its state before the first step, or a series."""
    seen = _Seen({}, {})
    alone = measure(study, _noting(study, arm, seen), range(1, 2), at_most=1)
    for name, beside in start.items():
        by_itself = seen.start.get(name)
        if (
            isinstance(beside, torch.Tensor)
            and isinstance(by_itself, torch.Tensor)
            and (_REPLICAS, *by_itself.shape[1:]) == beside.shape != by_itself.shape
            and not _close(_plain(beside[1]), _plain(by_itself[0]))
        ):
            return name
    for series in _not_times(run):
        if not _close(run[series].isel(replica=1).values, alone[series].isel(replica=0).values):
            return str(series)
    return ""


def _plain(values: torch.Tensor) -> np.ndarray:
    """For NumPy, which does not know bfloat16."""
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy()


def _close(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two are alike but for the order of sums; words always are."""
    if one.dtype.kind in "biu":
        return np.array_equal(one, other)
    if one.dtype.kind != "f":
        return True
    largest = np.abs(one[np.isfinite(one)]).max(initial=0)
    room = max(_NOISE * largest, _LEAST.get(one.dtype.itemsize, 1e-9))
    return np.allclose(one, other, rtol=_BITS, atol=room, equal_nan=True)


def _not_times(run: xr.Dataset) -> list[Hashable]:
    return [name for name, one in run.data_vars.items() if one.attrs.get("units") not in _TIMES]


def _arms(names: Sequence[str]) -> str:
    several = ", ".join(map(repr, names[:-1]))
    return f"the arms {several} and {names[-1]!r}" if several else f"the arm {names[0]!r}"


def _arms_of_claims(study: Study) -> tuple[dict[Test, list[str]], list[str]]:
    """The arms of each claim, and what went wrong."""
    on: dict[Test, list[str]] = {}
    problems: list[str] = []
    for test in study.tests:
        try:
            on[test] = list(test.arms(study))
        except Exception as error:
            problems.append(f"the claim {test.statement.id!r}: {said(error)}")
    return on, problems


def _judge(
    study: Study, runs: Mapping[str, xr.Dataset], on: Mapping[Test, Sequence[str]]
) -> tuple[list[Claim], list[str]]:
    """The claims that could be judged, and what went wrong."""
    claims: list[Claim] = []
    problems: list[str] = []
    foregone: list[str] = []
    for test, names in on.items():
        for name in names:
            try:
                found = test.judge(study, name, runs) if name in runs or not test.of_runs else None
            except Exception as error:
                problems.append(f"the claim {test.statement.id!r} on {name!r}: {said(error, runs, name)}")
                continue
            if found is None:
                continue
            claims.append(found)
            problems += _unreadable(found)
            foregone += _foregone(found) if found.predicted == test.bound else ()
    problems += dict.fromkeys(foregone)
    return claims, problems + [line for claim in claims for line in _out_of_range(claim)]


def _unreadable(claim: Claim) -> Iterator[str]:
    """What of a claim cannot be read again from what a run stores."""
    try:
        plain = json.loads(json.dumps(claim.to_json(), allow_nan=False))
        Place(Path("claims.json")).check(plain, Claim)
        Claim.from_json(plain)
    except (TypeError, ValueError, ConfigError) as error:
        wrong = str(error).partition(" To mend it:")[0]
        yield f"the claim {claim.id!r} on {claim.arm!r} cannot be stored: {wrong}"


def _foregone(claim: Claim) -> Iterator[str]:
    """Whether its verdict is known before anything is measured."""
    wanted = f"{claim.relation} {claim.predicted:g}" + (f" ± {claim.tolerance:g}" if claim.relation == "=" else "")
    ends = " to ".join(f"{end:g}" for end in claim.range)
    match never(claim.relation, claim.predicted, claim.tolerance, claim.law, claim.range):
        case "fail":
            yield f"the claim {claim.id!r} cannot fail: all that can be measured, {ends}, is {wanted}"
        case "hold":
            cure = ', or law="exact" where no chance enters' if claim.chance else ""
            yield (
                f"the claim {claim.id!r} cannot hold: of what can be measured, {ends}, no interval is {wanted}. Take "
                f"another bound{cure}"
            )


def _names(study: Study, arms: Sequence[Arm], on: Mapping[Test, Sequence[str]]) -> Iterator[str]:
    if not arms:
        yield "the study has no arms: `arms` gives none"
    known = [arm.name for arm in arms]
    for twice in _alike(known):
        yield f"two arms are called {twice}"
    labels = list({arm.name: arm.label or arm.name for arm in arms}.values())
    for label in dict.fromkeys(label for label in labels if labels.count(label) > 1):
        yield f"two arms are labelled {label!r}"
    for test, names in on.items():
        for name in names:
            if name not in known and test.of_runs:
                yield f"the claim {test.statement.id!r} names the arm {name!r}{nearest(name, known)}"
    stated = [test.statement.id for test in study.tests]
    for test in study.tests:
        for other in test.statement.corrects:
            if other not in stated:
                yield f"the claim {test.statement.id!r} corrects {other!r}, which is no claim{nearest(other, stated)}"
    for arm in arms:
        options = list(numeric_options(arm.recipe))
        for option in _unknown_options(arm):
            yield f"the arm {arm.name!r} is over {option!r}, which its recipe does not have{nearest(option, options)}"
        if arm.label and not 1 <= len(arm.label.split()) <= 4:
            yield f"the arm {arm.name!r} is labelled {arm.label!r}: allowed are 1 to 4 words"
        if not arm.label and set("-=") & set(arm.name):
            yield f"the arm {arm.name!r} has no label, and figures would show its name: give it 1 to 4 words"


def _alike(names: Iterable[str]) -> list[str]:
    """What is there twice, in words."""
    return [repr(one) if one == other else f"{one!r} and {other!r}{_CAPITALS}" for one, other in alike(names)]


def _unknown_options(arm: Arm) -> list[str]:
    return [axis.option for axis in arm.over if axis.option not in numeric_options(arm.recipe)]


def _out_of_range(claim: Claim) -> Iterator[str]:
    low, high = claim.range
    room = _ROUNDING * max(1.0, *(abs(end) for end in (low, high) if isfinite(end)), 1.0)
    for value in claim.values or (claim.measured,):
        if isfinite(value) and not low - room <= value <= high + room:
            where = f"the claim {claim.id!r} on {claim.arm!r}"
            yield f"{where} measured {value:g}, outside of its range [{low:g}, {high:g}]"
            return
