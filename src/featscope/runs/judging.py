"""Judging a stored run again, without training: after a claim was mended, or by another version of its study."""

from collections.abc import Sequence
from contextlib import suppress
from math import isclose, isfinite
from pathlib import Path

from featscope.claims import Claim
from featscope.options import ConfigError
from featscope.runs.diverged import how_many_diverged
from featscope.runs.environment import mixed
from featscope.runs.execute import Outcome, UnjudgedError
from featscope.runs.folder import RunFolder
from featscope.runs.lock import locked
from featscope.runs.older import as_far_as_measured
from featscope.runs.stored import read_claims, read_environment, read_plan, read_trajectory
from featscope.studies import Study

_DIGITS = 1e-9  # another machine may round otherwise
_NOTHING = 1e-15  # what is left of numbers near 1 that cancel


def judge_again(directory: Path, study: Study) -> tuple[Outcome, list[str] | None]:
    """Judge what ``directory`` has of a run by the claims that ``study`` has now, and write ``claims.json`` anew.

    Args:
        directory: the folder of a run that has trained to its end; verdicts need not be there.
        study: what was run, with its options.

    Returns:
        the run with its new claims, and how they differ from those that were stored, a line each; None where none were.

    Raises:
        ConfigError: there is no such run, a file is damaged, or a run holds the folder.
        UnjudgedError: a claim's own code raised.
    """
    plan = read_plan(directory)
    with locked(directory, "DIR"):
        runs, environment = read_trajectory(directory), read_environment(directory)
        before: list[Claim] = []
        with suppress(ConfigError):  # missing, or damaged: it is written anew
            before = read_claims(directory)
        try:
            with as_far_as_measured(study, before, environment) as newer:
                claims = list(study.claims(runs))
        except Exception as error:
            raise UnjudgedError(str(directory)) from error
        RunFolder(directory).write_claims(
            plan["study"], plan["seed"], plan["replicas"], plan["config"], claims, how_many_diverged(runs)
        )
    return Outcome(directory, runs, claims, mixed(environment), newer), changes(before, claims) if before else None


def changes(before: Sequence[Claim], after: Sequence[Claim]) -> list[str]:
    """How the claims ``after`` differ from those ``before`` in what is asked, measured or found, a line each."""
    old, new = ({f"{claim.id}@{claim.arm}": claim for claim in claims} for claims in (before, after))
    found = [f"{key} is new: {claim.verdict}" for key, claim in new.items() if key not in old]
    found += [f"{key} is gone, it was: {claim.verdict}" for key, claim in old.items() if key not in new]
    for key in old.keys() & new.keys():
        was, now = old[key], new[key]
        if was.verdict != now.verdict:
            found.append(f"{key}: {was.verdict}, now {now.verdict}")
        elif (was.relation, was.law, was.expected) != (now.relation, now.law, now.expected) or not (
            _alike(was.predicted, now.predicted)
            and _alike(was.tolerance, now.tolerance)
            and _alike(was.measured, now.measured)
        ):
            found.append(f"{key}: {now.verdict} as before, by another measure or bound")
        elif not all(map(_alike, was.interval, now.interval)):
            found.append(f"{key}: {now.verdict} as before, by another interval")
    return sorted(found)


def _alike(one: float, other: float) -> bool:
    neither = not (isfinite(one) or isfinite(other))  # whichever they are: all are stored as none
    return neither or isclose(one, other, rel_tol=_DIGITS, abs_tol=_NOTHING)
