"""Stored runs beside each other: what was set otherwise, what computed them, and which measurements differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot, inf, isfinite
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from featscope.axes import typed
from featscope.catalogue import OWN_TRAINING
from featscope.claims import Claim, Summary, not_after_holm
from featscope.claims.averages import ratio_of_means
from featscope.claims.intervals import COUNTED, LEVEL, PROBABILITIES, all_alike, quantile
from featscope.options import ConfigError
from featscope.runs.environment import mixed
from featscope.runs.lock import require_free
from featscope.runs.stored import read_claims, read_environment, read_plan, read_trajectory

_MOST = 6  # runs that a table holds side by side
_ROUNDING = 1e-12  # of a measurement: another machine may round otherwise, and all replicas alike


@dataclass(frozen=True)
class StoredRun:
    """A run as it is stored.

    Attributes:
        name: what tells it from the others: the end of its path.
        folder: where it is.
        plan: ``config.json``.
        environment: ``environment.json``.
        claims: "id@arm" -> claim.
        runs: arm -> what was measured.
    """

    name: str
    folder: Path
    plan: Mapping[str, Any]
    environment: Mapping[str, Any]
    claims: Mapping[str, Claim]
    runs: Mapping[str, xr.Dataset]

    @property
    def draws(self) -> tuple[int, str]:
        """Runs with the same have the same random numbers: the seed, and how they were drawn."""
        return self.plan["seed"], self.plan.get("draws") or "an earlier version's"


@dataclass(frozen=True)
class Pair:
    """A claim of two runs.

    Attributes:
        one: in the first run.
        other: in a later one.
        difference: the claim that nothing differs, measured as the later less the first: it fails where they do.
            None where chance has no part in the measurement, or nothing is known of its spread.
        paired: whether replicas of one number were compared with each other, as they began from the same draws.
    """

    one: Claim
    other: Claim
    difference: Claim | None
    paired: bool

    @property
    def changed(self) -> bool:
        """Whether the verdict is another one."""
        return self.one.verdict != self.other.verdict

    @property
    def apart(self) -> bool:
        """Whether they differ by more than chance."""
        return self.difference is not None and self.difference.verdict == "fails"

    @property
    def asked_otherwise(self) -> bool:
        """Whether something else is claimed: another bound, relation or tolerance, or of another law."""
        asked = [(one.relation, one.law, one.predicted, one.tolerance) for one in (self.one, self.other)]
        return asked[0] != asked[1]


def read_runs(folders: Sequence[Path]) -> list[StoredRun]:
    """The runs in ``folders``, in order.

    Raises:
        ConfigError: fewer than two folders or too many, one twice, one that holds no finished run or is still being
            written, or runs of different studies.
    """
    if not 2 <= len(folders) <= _MOST:
        raise ConfigError(f"compare takes 2 to {_MOST} run folders; {len(folders)} given")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise ConfigError("compare was given one folder twice: allowed are different ones")
    plans = [read_plan(folder) for folder in folders]
    for folder in folders:
        require_free(folder, "FOLDERS")
    studies = dict.fromkeys(plan["study"] for plan in plans)
    if len(studies) > 1:
        raise ConfigError(f"compare was given runs of {' and '.join(studies)}: allowed are runs of one study")
    measured = [read_trajectory(folder) for folder in folders]  # first: one that is unfinished has no claims either
    return [
        StoredRun(
            name,
            folder,
            plan,
            read_environment(folder),
            {f"{claim.id}@{claim.arm}": claim for claim in read_claims(folder)},
            runs,
        )
        for name, folder, plan, runs in zip(_names(folders), folders, plans, measured, strict=True)
    ]


def _names(folders: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that tell them apart."""
    parts = [folder.resolve().parts for folder in folders]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(one[-length:]) for one in parts]
        if len(set(names)) == len(names):
            break
    return names


def options(runs: Sequence[StoredRun]) -> dict[str, list[str]]:
    """Options that are not the same in all, as they are typed -> the value in each; "-" where there is none."""
    return _unlike([_settings(run.plan) | dict(_typed(run.plan["config"])) for run in runs])


def _settings(plan: Mapping[str, Any]) -> dict[str, str]:
    """Seed, replicas and device; of a training of one's own the seed is not known."""
    found = {"--replicas": str(plan["replicas"]), "--device": plan["device"]}
    return found if plan["study"] == OWN_TRAINING.name else {"--seed": str(plan["seed"])} | found


def environments(runs: Sequence[StoredRun]) -> dict[str, list[str]]:
    """Versions and machines that are not the same in all -> what it is in each."""
    flat = []
    for run in runs:
        found = {"revision" if k == "git_revision" else k: str(v) for k, v in run.environment.items() if _is_plain(k)}
        if own := run.environment.get("study"):
            found["the study's package"] = " ".join(str(part) for part in own.values() if part)
        if several := mixed(run.environment):
            found["computed in parts"] = several
        read = {f"what {option} names": digest for option, digest in run.environment.get("inputs", {}).items()}
        flat.append(found | read | dict(run.environment["packages"]) | {"random numbers": run.draws[1]})
    return _unlike(flat)


def _is_plain(name: str) -> bool:
    return name in ("python", "platform", "processor", "device", "git_revision", "cores", "products", "kernels")


_OF_SWEEPS = ("axes", "study", "added")
"""Of these the first two are told one by one; points that were added follow from the others."""


def _typed(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Options of a study; those of one that is swept stand for themselves, and axes one by one."""
    if not isinstance(config.get("study"), dict):
        return _flat(config, "")
    axes = [(f"--axis {axis['option']}", ",".join(map(typed, axis["values"]))) for axis in config.get("axes", ())]
    rest = {{"only": "claim"}.get(name, name): value for name, value in config.items() if name not in _OF_SWEEPS}
    return axes + _flat(rest, "") + _flat(config["study"], "")


def _flat(config: Any, prefix: str) -> list[tuple[str, str]]:
    if not isinstance(config, dict):
        several = isinstance(config, list)
        return [(f"--{prefix}", " ".join(map(str, config)) if several else str(config))]
    found = [(f"--{prefix}", config["type"].rpartition(":")[2])] if prefix and "type" in config else []
    for name, value in config.items():
        if name != "type":
            found += _flat(value, f"{prefix}.{name}".strip(".").replace("_", "-"))
    return found


def _unlike(flat: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    names = dict.fromkeys(name for one in flat for name in one)
    values = {name: [one.get(name, "-") for one in flat] for name in names}
    return {name: each for name, each in values.items() if len(set(each)) > 1}


def pairs(one: StoredRun, other: StoredRun) -> dict[str, Pair]:
    """ "id@arm" -> the claim in both, for all that both judge, in the order of the first."""
    same_draws = one.draws == other.draws
    return {
        key: _pair(claim, other.claims[key], same_draws) for key, claim in one.claims.items() if key in other.claims
    }


def _pair(one: Claim, other: Claim, same_draws: bool) -> Pair:
    first, second = _samples(one), _samples(other)
    about: dict[str, Any] = {"id": one.id, "source": one.source, "statement": one.statement, "kind": one.kind}
    about |= {"arm": one.arm, "expected": False, "note": ""}
    if {one.law, other.law} <= {*PROBABILITIES} and _apart(one.interval, other.interval):
        return Pair(one, other, _of_intervals(one, other, about), False)
    enough = min(first.size, second.size) >= 2 and np.isfinite(first).all() and np.isfinite(second).all()
    if not (enough and one.chance and other.chance) or "extreme" in (one.law, other.law):  # whose mean nobody asks for
        return Pair(one, other, None, False)
    if same_draws and first.size == second.size:
        moved = np.where(np.isclose(first, second, rtol=_ROUNDING, atol=0.0), 0.0, second - first)
        if not (all_alike(moved) and moved.any()):
            return Pair(one, other, Claim.from_samples(moved, "=", 0.0, **about), True)
        if 2 * 0.5**moved.size < 1 - LEVEL:
            return Pair(one, other, _by_sign(moved, about), True)
    means = [Summary(float(each.mean()), float(each.std(ddof=1)), each.size) for each in (second, first)]
    if not any(summary.error for summary in means):  # nothing is known of how much replicas differ
        return Pair(one, other, None, False)
    return Pair(one, other, Claim.from_summary(means[0], "=", 0.0, against=means[1], **about), False)


def _by_sign(moved: Float[np.ndarray, " replica"], about: Mapping[str, Any]) -> Claim:
    """The difference where all replicas moved by one number, so that nothing tells its error, by the test of signs.

    Its interval excludes 0 at each level at which that test does.
    """
    chance = max(2 * 0.5**moved.size, _ROUNDING)  # that all go one way
    return _normal(float(moved.mean()), abs(moved[0]) / quantile(inf, 1 - chance), moved.size, about)


def _normal(difference: float, error: float, n: int, about: Mapping[str, Any]) -> Claim:
    """A difference of which the error is known."""
    half = error * quantile(inf)
    return Claim(
        predicted=0.0,
        relation="=",
        tolerance=0.0,
        measured=difference,
        interval=(difference - half, difference + half),
        n=n,
        error=error,
        freedom=inf,
        **about,
    )


def _samples(claim: Claim) -> Float[np.ndarray, " replica"]:
    """Those of which ``measured`` is the mean: where replicas counted unequally many, not the share of each."""
    values, trials = np.asarray(claim.values), np.asarray(claim.trials)
    weighed = claim.law in COUNTED and trials.size and (trials > 0).all() and np.ptp(trials) > 0
    return ratio_of_means(values * trials, trials) if weighed else values


def _apart(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[1] < other[0] or other[1] < one[0]


def _of_intervals(one: Claim, other: Claim, about: Mapping[str, Any]) -> Claim:
    """The difference of two shares by their intervals, which know how sure they are where no replica differs, too.

    Its interval is Newcombe's (1998, method 10): halves that face each other, added as squares.
    """
    (low, high), (least, most) = one.interval, other.interval
    difference = other.measured - one.measured
    below, above = hypot(other.measured - least, high - one.measured), hypot(most - other.measured, one.measured - low)
    error = (below if difference > 0 else above) / quantile(inf)
    return replace(
        _normal(difference, error, one.n + other.n, about), interval=(difference - below, difference + above)
    )


def after_holm(found: Mapping[str, Pair]) -> set[str]:
    """The keys of those that differ by more than chance even if one asks so many."""
    differences = {key: pair.difference for key, pair in found.items() if pair.difference is not None}
    lost = {id(claim) for claim in not_after_holm(list(differences.values()))}
    return {key for key, claim in differences.items() if claim.verdict == "fails" and id(claim) not in lost}


def shift(pair: Pair) -> float:
    """The later measurement less the first; NaN where one is not finite."""
    if pair.difference is not None:
        return pair.difference.measured
    difference = pair.other.measured - pair.one.measured
    return difference if isfinite(difference) else float("nan")
