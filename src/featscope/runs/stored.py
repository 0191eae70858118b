"""What is stored in a run folder, read back and checked: one reader for each kind of file.

Anybody may have edited such a file, cut it short, or written it with another version, so nothing of it is believed
before it is checked. Each kind of JSON file is a frozen dataclass, and one loader checks JSON against its type hints.
A schema library would be a dependency for three small files, and `Claim` would be described twice; what hints cannot
say, such as the order of two ends, is a line in this module.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from math import isfinite
from pathlib import Path
from reprlib import repr as short
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import h5py
import xarray as xr

from featscope.claims import Claim
from featscope.claims.claim import Verdict
from featscope.options import ConfigError
from featscope.runs import checksum

_CURES = {
    "config.json": "restore it, or begin anew with --overwrite",
    "environment.json": "restore it, or move it away and run again with --resume, which writes a new one",
    "claims.json": "run again with --resume, which judges anew without training",
    "trends.json": "run again with --resume, which foretells anew without training",
    "trajectory.nc": "run again with --resume, which writes it anew without training",
}
_DEEPEST = 50  # levels of a config; what reads it goes down by recursion
_MOST = 2**63  # whole numbers are smaller
_WORDS = {int: "a whole number", float: "a finite number", bool: "true or false", str: "a string", dict: "an object"}
_NUMBER = float | None
_IN_CLAIMS = {  # where a claim has numbers that may not be finite, which are null; and its verdict is judged anew
    **dict.fromkeys(("predicted", "measured", "tolerance"), _NUMBER),
    **dict.fromkeys(("interval", "range"), tuple[_NUMBER, _NUMBER]),
    **dict.fromkeys(("values", "trials"), tuple[_NUMBER, ...]),
    "verdict": Verdict,
}


@dataclass(frozen=True)
class Plan:
    """``config.json``: what was to be run. ``config`` is read by `from_plain`, as far as this version knows it."""

    study: str
    seed: int
    replicas: int
    device: str
    config: dict[str, Any]
    shard_size: int
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
    study: OwnPackage | None = None
    since: str | None = None


@dataclass(frozen=True)
class Environment(Stage):
    """``environment.json``: what computed the run, and what did before."""

    seconds: float | None = None
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
    at = _Place(folder / "config.json")
    plan = read_json(at.file)
    at.check(plan, Plan)
    for name in ("replicas", "shard_size"):
        at.of(name).require(plan[name], plan[name] >= 1, ">= 1")
    return at.whole(plan)


def read_environment(folder: Path) -> dict[str, Any]:
    """What ``environment.json`` of a run holds, an `Environment`; of an older version, without a history.

    Raises:
        ConfigError: it is missing, or not what a run writes.
    """
    at = _Place(folder / "environment.json")
    found = read_json(at.file)
    at.check(found, Environment)
    seconds = found.get("seconds")
    at.of("seconds").require(seconds, seconds is None or seconds >= 0, ">= 0")
    return at.whole(found)


def read_claims(folder: Path) -> list[Claim]:
    """The claims in ``claims.json``, also of versions whose claims said less.

    Raises:
        ConfigError: it is missing, or not what a run writes.
    """
    at = _Place(folder / "claims.json")
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
    at = _Place(folder / "trends.json")
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
                where.of("probability").require(one, 0 <= one.get("probability", 0) <= 1, "0 to 1")
    return at.whole(stored)


def read_trajectory(folder: Path) -> dict[str, xr.Dataset]:
    """What ``trajectory.nc`` holds: each arm's measurements.

    Raises:
        ConfigError: it is missing, damaged, not NetCDF or cut short, or holds no arm, or one without replicas or
            steps.
    """
    at = _Place(folder / "trajectory.nc")
    try:
        whole = checksum.is_whole(at.file)
        if whole is False:
            raise ConfigError(at.damaged)
        with h5py.File(at.file) as file:  # first, as what is damaged leaves h5netcdf with half an object
            file.visititems(lambda name, item: list(item.attrs.values()).clear())
            if whole is None and checksum.NAME in file.attrs:
                raise ConfigError(at.damaged)
        with xr.open_datatree(at.file, engine="h5netcdf") as tree:
            runs = {name: node.to_dataset().load() for name, node in tree.children.items()}
    except FileNotFoundError:
        raise ConfigError(f"{at.file} is missing: finish the run first (--resume)") from None
    except (OSError, ValueError, LookupError, RuntimeError, TypeError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise ConfigError(f"{at.file} cannot be read ({what}): {at.cure}") from None
    at.of("arms").require(list(runs), bool(runs), "one or more")
    for arm, run in runs.items():
        for name in ("replica", "step"):
            size = run.sizes.get(name, 0)
            at.of(arm).of(f"{name}s").require(size, size >= 1, ">= 1")
    return runs


def read_json(file: Path) -> Any:
    """What a JSON file holds.

    Raises:
        ConfigError: it is missing or not JSON.
    """
    cure = _Place(file).cure
    try:
        found = json.loads(file.read_bytes().decode(), parse_constant=_refuse, object_pairs_hook=_once)
        level = [found]
        for _ in range(_DEEPEST):
            level = [inner for one in level if isinstance(one, dict | list) for inner in _inside(one)]
        if level:
            raise RecursionError
        return found
    except FileNotFoundError:
        raise ConfigError(f"{file} is missing: is {str(file.parent)!r} the folder of a finished run?") from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror}): {cure}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8 ({error.reason} at byte {error.start}): {cure}") from None
    except RecursionError:
        raise ConfigError(f"{file} is nested more than {_DEEPEST} levels deep: {cure}") from None
    except ValueError as error:
        raise ConfigError(f"{file} is not JSON ({error}): {cure}") from None


def _inside(one: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return one.values() if isinstance(one, dict) else one


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number there")


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{short(name)} is there twice")
        found[name] = value
    return found


class _Place(NamedTuple):
    """A field of a file, such as ``claims[3].interval``; the file itself where nothing is named."""

    file: Path
    field: str = ""

    @property
    def cure(self) -> str:
        return _CURES.get(self.file.name, "restore it")

    @property
    def damaged(self) -> str:
        return f"{self.file} does not agree with its checksum: it is damaged, or was edited. To mend it: {self.cure}."

    def whole(self, content: dict[str, Any]) -> dict[str, Any]:
        """``content`` without its checksum, which it agrees with. A file of an older version has none.

        Raises:
            ConfigError: it does not agree.
        """
        said = content.pop(checksum.NAME, None)
        if said is not None and not checksum.agrees(content, said):
            raise ConfigError(self.damaged)
        return content

    def of(self, name: str) -> "_Place":
        return _Place(self.file, f"{self.field}{'.' if self.field else ''}{name}")

    def require(self, value: Any, condition: bool, allowed: str) -> None:
        if not condition:
            what = f"{self.field or 'what it holds'} = {short(value)}"
            raise ConfigError(f"{self.file}: {what} is out of range: allowed is {allowed}. To mend it: {self.cure}.")

    def check(self, value: Any, hint: Any) -> None:
        """See that parsed JSON is what a type hint says; a dataclass is an object, a tuple is a list.

        Raises:
            ConfigError: it is not.
        """
        origin, of = get_origin(hint), get_args(hint)
        if origin is UnionType:  # of something and None, here
            if value is not None:
                self.check(value, next(one for one in of if one is not NoneType))
        elif origin is Literal:
            self.require(value, isinstance(value, str) and value in of, " or ".join(map(repr, of)))
        elif origin is dict:
            self.check(value, dict)
            for name, one in value.items():
                self.of(short(name)).check(one, of[1])
        elif origin is tuple:
            self.require(value, isinstance(value, list), "a list")
            hints = of[:1] * len(value) if of[-1] is Ellipsis else of
            self.require(value, len(value) == len(hints), f"a list of {len(hints)}")
            for place, (one, its) in enumerate(zip(value, hints, strict=True)):
                _Place(self.file, f"{self.field}[{place}]").check(one, its)
        elif is_dataclass(hint):
            self._check_fields(value, hint)
        elif hint is not Any:
            kinds = (int, float) if hint is float else hint
            sound = isinstance(value, kinds) and (hint is bool or not isinstance(value, bool))
            if sound and hint in (int, float):
                sound = isfinite(value) if isinstance(value, float) else abs(value) < _MOST
            self.require(value, sound, _WORDS[hint])

    def _check_fields(self, value: Any, kind: Any) -> None:
        self.check(value, dict)
        hints = get_type_hints(kind) | (_IN_CLAIMS if kind is Claim else {})
        for one in fields(kind):
            if one.name not in value and one.default is MISSING and one.default_factory is MISSING:
                raise ConfigError(f"{self.file} is incomplete, {self.of(one.name).field} is missing: {self.cure}")
        for name, its in value.items():
            if name not in hints:
                what = f"{self.file}: {self.of(short(name)).field} = {short(its)} is unknown"
                raise ConfigError(f"{what}: allowed are {', '.join(hints)}. To mend it: {self.cure}.")
            self.of(name).check(its, hints[name])
