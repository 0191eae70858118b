"""From measurements to verdicts."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from featscope.claims import Claim
from featscope.studies.base import Runs
from featscope.studies.icl_flipped_labels.statements import STATEMENTS

if TYPE_CHECKING:
    from featscope.studies.icl_flipped_labels.study import IclFlippedLabels

THE = {statement.id: statement for statement in STATEMENTS}

FOLLOWS, IGNORES, FREQUENCY = "follows", "ignores", "frequency"
HAND_SET = (FOLLOWS, IGNORES, FREQUENCY)
FLAT = -0.25
BETTER, FASTER = 0.01, -0.1
LARGE, SMALL = 1e9, 1e10
"""Parameters from which a model may be expected to fall, and below which one may be expected to stay flat. P has 3, 7,
13 and 70 billion; below 1 billion not even a large model is expected to follow exemplars."""
ROUNDING = 1e-6
FLOATS = "Tolerance: rounding of log-probabilities in float32."


def models(study: "IclFlippedLabels", runs: Runs) -> list[str]:
    """Names of the models' arms, smallest first by what was counted."""
    names = [name for name in runs if name not in HAND_SET]
    return sorted(names, key=lambda name: float(runs[name]["parameters"][0]))


def claims(study: "IclFlippedLabels", runs: Runs) -> Iterator[Claim]:
    """Models first, then the learners whose curves are known."""
    names = models(study, runs)
    smallest, largest = names[0], names[-1]
    large = float(runs[largest]["parameters"][0]) >= LARGE
    size = f"Expected to hold from {LARGE:.0e} parameters on; this model has {_count(runs[largest])}."
    if len(names) > 1:
        yield from _pair(runs, smallest, largest, expected=large, why=size)
    yield _flat(runs, smallest, expected=float(runs[smallest]["parameters"][0]) < SMALL)
    if len(names) > 1 or large:
        yield _below(runs, largest, expected=large, why=size)
    yield from _pair(runs, IGNORES, FOLLOWS, expected=True, why="Hand-set learners.")
    yield _flat(runs, IGNORES, expected=True)
    yield _flat(runs, FOLLOWS, expected=False)
    yield _below(runs, FOLLOWS, expected=True, why="A hand-set learner.")
    yield _below(runs, IGNORES, expected=False, why="A hand-set learner.")
    yield from _exact(study, runs)


def _count(run: xr.Dataset) -> str:
    return f"{float(run['parameters'][0]):.2g}"


def _pair(runs: Runs, small: str, large: str, *, expected: bool, why: str) -> Iterator[Claim]:
    better = runs[large]["accuracy"].isel(flip=0) - runs[small]["accuracy"].isel(flip=0)
    where = f"Compared with {small}."
    yield THE["larger-is-better-without-flips"].at_least(
        better.values, BETTER, arm=large, why=f"{where} {why}", expected=expected
    )
    faster = runs[large]["slope"] - runs[small]["slope"]
    yield THE["larger-falls-faster"].at_most(faster.values, FASTER, arm=large, why=f"{where} {why}", expected=expected)


def _flat(runs: Runs, arm: str, *, expected: bool) -> Claim:
    return THE["small-is-flat"].at_least(runs[arm]["slope"].values, FLAT, arm=arm, expected=expected)


def _below(runs: Runs, arm: str, *, expected: bool, why: str) -> Claim:
    last = runs[arm]["accuracy"].isel(flip=-1)
    return THE["large-falls-below-chance"].at_most(last.values, 0.5, arm=arm, why=why, expected=expected)


def follower(inverted: Sequence[int], shots: int) -> tuple[np.ndarray, np.ndarray]:
    """The follower's accuracy and the probability it gives to the truth ``[flip]``, with so many labels inverted."""
    k = np.asarray(inverted)
    return 0.5 + 0.5 * np.sign(shots - 2 * k), (shots - k + 0.5) / (shots + 1)


def _exact(study: "IclFlippedLabels", runs: Runs) -> Iterator[Claim]:
    accuracy, likely = follower([int(np.floor(rate * study.shots + 0.5)) for rate in study.flips], study.shots)

    def distance(arm: str, series: str, from_what: np.ndarray) -> np.ndarray:
        return np.abs(runs[arm][series].transpose("replica", "flip").values - from_what).max(1)

    yield THE["follower-is-exact"].equals(
        distance(FOLLOWS, "accuracy", accuracy), 0.0, ROUNDING, arm=FOLLOWS, why=FLOATS
    )
    yield THE["follower-trusts-in-proportion"].equals(
        distance(FOLLOWS, "likely", likely), 0.0, ROUNDING, arm=FOLLOWS, why=FLOATS
    )
    still = runs[IGNORES]["accuracy"].isel(flip=[0]).transpose("replica", "flip").values
    yield THE["ignorer-is-exact"].equals(distance(IGNORES, "accuracy", still), 0.0, ROUNDING, arm=IGNORES, why=FLOATS)
    ends = runs[FREQUENCY]["accuracy"].isel(flip=[0, -1]).sum("flip")
    yield THE["frequency-mirrors"].equals(ends.values, 1.0, ROUNDING, arm=FREQUENCY, why=FLOATS)


def headline(study: "IclFlippedLabels", runs: Runs, claims: Sequence[Claim]) -> str:
    """What was found, in one sentence a model."""
    parts = []
    for name in models(study, runs):
        accuracy = runs[name]["accuracy"].mean("replica").values
        override = float(runs[name]["override"].isel(flip=-1).mean("replica"))
        parts.append(
            f"{name} ({_count(runs[name])} parameters) is right on {accuracy[0]:.0%} with no label inverted and on "
            f"{accuracy[-1]:.0%} with all, and gives up {override:.0%} of what it had right"
        )
    ends = float(runs[FOLLOWS]["accuracy"].isel(flip=-1).mean())
    return f"{'; '.join(parts)}. A hand-set learner that follows the exemplars ends at {ends:.0%}."
