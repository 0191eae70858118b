"""What is stored in a run folder, read back and checked: one reader for each kind of file.

Anybody may have edited such a file, cut it short, or written it with another version, so nothing of it is believed
before it is checked. Each kind of JSON file is a frozen dataclass, and one loader checks JSON against its type hints.
A schema library would be a dependency for three small files, and `Claim` would be described twice; what hints cannot
say, such as the order of two ends, is a line in this module.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xarray as xr

from featscope.claims import Claim
from featscope.claims.claim import Verdict
from featscope.options import ConfigError
from featscope.runs import checksum
from featscope.runs.checked_json import Place, how_to_read, read_json
from featscope.runs.plain import as_read, differences
from featscope.tensors import DamagedError, unpacked
from featscope.training.evaluation import TEXT, as_text

ARMS = "arms"
"""The attribute of ``trajectory.nc`` with the arms in order. NetCDF that is made in memory has its groups by name."""
RUN = "run"
"""The attribute of ``trajectory.nc`` with what `run_of` gives, as JSON."""


@dataclass(frozen=True)
class Plan:
    """``config.json``: what was to be run. ``config`` is read by `from_plain`, as far as this version knows it."""

    study: str
    seed: int
    replicas: int
    device: str
    config: dict[str, Any]
    shard_size: int
    memory_limit: float | None = None
    draws: str | None = None
    workers: int | None = None
    checksum: str | None = None


@dataclass(frozen=True)
class OwnPackage:
    """The package of a study that is not one of FeatScope's own."""

    package: str
    version: str
    revision: str | None


@dataclass(frozen=True)
class Stage:
    """What computed a part of a run, since when."""

    python: str
    packages: dict[str, str]
    platform: str
    processor: str
    device: str
    git_revision: str | None
    cores: int | None = None
    kernels: str | None = None
    products: str | None = None
    study: OwnPackage | None = None
    inputs: dict[str, str] = field(default_factory=dict)
    since: str | None = None


@dataclass(frozen=True)
class Environment(Stage):
    """``environment.json``: what computed the run, and what did before. ``threads`` are all numbers of threads that
    trained a shard."""

    seconds: float | None = None
    threads: tuple[int, ...] = ()
    history: tuple[Stage, ...] = ()
    checksum: str | None = None


@dataclass(frozen=True)
class Verdicts:
    """``claims.json``. A number that is not finite is null there."""

    study: str
    seed: int
    replicas: int
    config: dict[str, Any]
    claims: tuple[Claim, ...]
    level: float = 0.99
    diverged: dict[str, tuple[int, int]] = field(default_factory=dict)
    checksum: str | None = None


@dataclass(frozen=True)
class Rung:
    """A claim at one size of a ladder."""

    size: float
    verdict: Verdict
    measured: float | None
    interval: tuple[float | None, float | None]
    predicted: float | None
    tolerance: float | None


@dataclass(frozen=True)
class Foretold:
    """What is foretold at a larger size, `trends.trend.Foretold`."""

    factor: float
    size: float
    verdict: Verdict
    probability: float
    interval: tuple[float | None, float | None]


@dataclass(frozen=True)
class Crossing:
    """Where a verdict is foretold to change; null is beyond what is foretold."""

    median: float | None
    interval: tuple[float | None, float | None]


@dataclass(frozen=True)
class Moves:
    """Where a measurement moves."""

    word: Literal["toward", "away", "cannot be told"]
    up_to: float


@dataclass(frozen=True)
class OfClaim:
    """The trend of one claim; where nothing is foretold, ``silent`` says why."""

    arm: str
    id: str
    relation: Literal["=", "<=", ">=", "<", ">"]
    compared: str
    at: tuple[Rung, ...]
    silent: str
    foretold: tuple[Foretold, ...] = ()
    direction: Moves | None = None
    crossing: Crossing | None = None
    families: dict[str, float] = field(default_factory=dict)
    surprise: float | None = None


@dataclass(frozen=True)
class Trends:
    """``trends.json``. A number that is not finite is null there."""

    study: str
    axis: str
    symbol: str
    sizes: tuple[float, ...]
    trends: tuple[OfClaim, ...]
    checksum: str | None = None


def read_plan(folder: Path) -> dict[str, Any]:
    """What ``config.json`` of a run holds, a `Plan`.

    Raises:
        ConfigError: it is missing, or not what a run writes; the message names file, field, value and cure.
    """
    at = Place(folder / "config.json")
    plan = read_json(at.file)
    at.check(plan, Plan)
    for name in ("replicas", "shard_size", "workers"):
        at.of(name).require(plan.get(name), plan.get(name) is None or plan[name] >= 1, ">= 1")
    return at.whole(plan)


def run_of(folder: Path) -> dict[str, Any]:
    """Which run ``config.json`` is of: study, seed, replicas and config; nothing where none can be read."""
    try:
        plan = read_plan(folder)
    except ConfigError:
        return {}
    return {name: plan[name] for name in ("study", "seed", "replicas", "config")}


def _require_of_this_run(at: Place, stored: Mapping[str, Any]) -> None:
    """Raise `ConfigError` where a file says that it is of another run than the folder."""
    for name, value in run_of(at.file.parent).items():
        if name not in stored:
            continue
        differ = differences(as_read(value), as_read(stored[name]), name)
        at.of(name).require(stored[name], not differ, f"that of config.json ({'; '.join(differ)})")


def read_environment(folder: Path) -> dict[str, Any]:
    """What ``environment.json`` of a run holds, an `Environment`; of an older version, without a history.

    Raises:
        ConfigError: it is missing, or not what a run writes.
    """
    at = Place(folder / "environment.json")
    found = read_json(at.file)
    at.check(found, Environment)
    seconds = found.get("seconds")
    at.of("seconds").require(seconds, seconds is None or seconds >= 0, ">= 0")
    return at.whole(found)


def read_claims(folder: Path) -> list[Claim]:
    """The claims in ``claims.json``, also of versions whose claims said less.

    Raises:
        ConfigError: it is missing, not what a run writes, or of another run.
    """
    at = Place(folder / "claims.json")
    stored = read_json(at.file)
    at.check(stored, Verdicts)
    seen: set[tuple[str, str]] = set()
    for number, claim in enumerate(stored["claims"]):
        here = at.of(f"claims[{number}]")
        for name in ("interval", "range"):
            low, high = claim.get(name, (None, None))
            here.of(name).require([low, high], None in (low, high) or low <= high, "the low end before the high end")
        for name in ("n", "tolerance", "error", "freedom"):
            here.of(name).require(claim.get(name), (claim.get(name) or 0) >= 0, ">= 0")
        for name in ("values", "trials"):
            several = claim.get(name, [])
            here.of(name).require(several, len(several) in (0, claim["n"]), f"none, or n = {claim['n']} of them")
        key = claim["id"], claim["arm"]
        here.require(" of the arm ".join(key), key not in seen, "one claim of an id and an arm")
        seen.add(key)
    _require_of_this_run(at, stored)
    claims = [Claim.from_json(claim) for claim in stored["claims"]]
    for number, (claim, plain) in enumerate(zip(claims, stored["claims"], strict=True)):
        said = plain.get("verdict", claim.verdict)
        place = at.of(f"claims[{number}]").of("verdict")
        place.require(said, said == claim.verdict, f"{claim.verdict!r}, which its numbers give")
    at.whole(stored)
    return claims


def read_trends(folder: Path) -> dict[str, Any]:
    """What ``trends.json`` holds, `Trends`.

    Raises:
        ConfigError: it is missing, or not what `featscope trend` writes.
    """
    at = Place(folder / "trends.json")
    stored = read_json(at.file)
    at.check(stored, Trends)
    sizes = stored["sizes"]
    at.of("sizes").require(sizes, [0, *sizes] == sorted({0, *sizes}), "ascending sizes above 0")
    for number, trend in enumerate(stored["trends"]):
        here = at.of(f"trends[{number}]")
        rungs = [rung["size"] for rung in trend["at"]]
        here.of("at").require(rungs, rungs == sizes, f"the sizes {sizes}")
        for name in ("at", "foretold"):
            for place, one in enumerate(trend.get(name, [])):
                low, high = one["interval"]
                allowed = "the low end before the high end"
                where = here.of(f"{name}[{place}]")
                where.of("interval").require([low, high], None in (low, high) or low <= high, allowed)
                where.of("probability").require(one.get("probability"), 0 <= one.get("probability", 0) <= 1, "0 to 1")
    return at.whole(stored)


def read_trajectory(folder: Path) -> dict[str, xr.Dataset]:
    """What ``trajectory.nc`` holds: each arm's measurements.

    Raises:
        ConfigError: it is missing, damaged, not as a run wrote it or of another run, or holds no arm, or one without
            replicas or steps.
    """
    at = Place(folder / "trajectory.nc")
    try:
        if not checksum.is_whole(at.file):  # and never opened: of some damaged files the NetCDF library crashes
            raise ConfigError(at.damaged)
        with xr.open_datatree(at.file, engine="netcdf4") as tree:
            names = np.atleast_1d(tree.attrs.get(ARMS, [*tree.children]))
            runs = {str(name): tree[name].to_dataset().load() for name in names}
            run = json.loads(str(tree.attrs.get(RUN, "{}")))
    except FileNotFoundError:
        raise ConfigError(f"{at.file} is missing: finish the run first (--resume)") from None
    except (OSError, ValueError, LookupError, RuntimeError, TypeError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}".partition("\n")[0]
        cure = how_to_read(error, at.cure) if isinstance(error, OSError) else at.cure
        raise ConfigError(f"{at.file} cannot be read ({what}): {cure}") from None
    _require_of_this_run(at, run)  # of an older version none is known
    at.of("arms").require(list(runs), bool(runs), "one or more")
    for arm, run in runs.items():
        for name in ("replica", "step"):
            size = run.sizes.get(name, 0)
            at.of(arm).of(f"{name}s").require(size, size >= 1, ">= 1")
    return runs


def with_texts(folder: Path, runs: Mapping[str, xr.Dataset]) -> dict[str, xr.Dataset]:
    """``runs`` with what questions were answered with in words, where that was stored.

    Args:
        folder: the run's.
        runs: what `read_trajectory` gives.

    Raises:
        ConfigError: the file of an arm's texts is damaged, or has others than the run has questions.
    """
    return {arm: run.assign(_texts(folder / "weights" / f"{arm}.safetensors", run)) for arm, run in runs.items()}


def _texts(file: Path, run: xr.Dataset) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    at = Place(file)
    try:
        kept = unpacked(file)[0] if file.exists() else {}
    except (DamagedError, OSError) as error:
        raise ConfigError(f"{file} cannot be read ({error}): {at.cure}") from None
    found = {}
    for key, value in kept.items():
        if key.startswith(f"{TEXT}:"):
            _, name, *axes = key.split(":")
            dims, shape = ("replica", *axes), tuple(value.shape[:-1])
            known = len(shape) == len(dims)
            # Axes that were averaged away are as long as they are.
            sizes = tuple(run.sizes.get(dim, shape[i] if known else 0) for i, dim in enumerate(dims))
            at.of(name).require(list(shape), shape == sizes, f"{list(sizes)}, as measured")
            words = [as_text(one) for one in value.flatten(0, -2)]
            found[name] = dims, np.array(words, dtype=object).reshape(sizes)
    return found
