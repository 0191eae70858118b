"""JSON of a run folder against type hints: what is wrong is said with file, field, value and cure."""

import json
import shlex
from collections.abc import Iterable
from dataclasses import MISSING, fields, is_dataclass
from math import isfinite
from pathlib import Path
from reprlib import repr as short
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from featscope.claims import Claim
from featscope.claims.claim import Verdict
from featscope.files import each_once
from featscope.options import ConfigError
from featscope.runs import checksum

_CURES = {
    "config.json": "restore it, or begin anew with --overwrite",
    "environment.json": "restore it, or move it away and run again with --resume, which writes a new one",
    "claims.json": "judge it again: featscope judge {}",
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


def read_json(file: Path) -> Any:
    """What a JSON file holds.

    Raises:
        ConfigError: it is missing or not JSON.
    """
    cure = Place(file).cure
    try:
        found = json.loads(file.read_bytes().decode(), parse_constant=_refuse, object_pairs_hook=each_once)
        level = [found]
        for _ in range(_DEEPEST):
            level = [inner for one in level if isinstance(one, dict | list) for inner in _inside(one)]
        if level:
            raise RecursionError
        return found
    except FileNotFoundError:
        why = f"is {str(file.parent)!r} the folder of a run?" if file.name == "config.json" else f"to mend it, {cure}"
        raise ConfigError(f"{file} is missing: {why}") from None
    except NotADirectoryError:
        raise ConfigError(f"{str(file.parent)!r} is a file: allowed is the folder of a run") from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror}): {how_to_read(error, cure)}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8 ({error.reason} at byte {error.start}): {cure}") from None
    except RecursionError:
        raise ConfigError(f"{file} is nested more than {_DEEPEST} levels deep: {cure}") from None
    except ValueError as error:
        raise ConfigError(f"{file} is not JSON ({error}): {cure}") from None


def how_to_read(error: OSError, cure: str) -> str:
    """What helps where a file cannot be read; ``cure`` is what mends one that is damaged, and would lose it here."""
    return "allow it, or copy the folder to where it is allowed" if isinstance(error, PermissionError) else cure


def _inside(one: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return one.values() if isinstance(one, dict) else one


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number there")


class Place(NamedTuple):
    """A field of a file, such as ``claims[3].interval``; the file itself where nothing is named."""

    file: Path
    field: str = ""

    @property
    def cure(self) -> str:
        """What mends the file."""
        return _CURES.get(self.file.name, "restore it").format(shlex.quote(str(self.file.parent)))

    @property
    def damaged(self) -> str:
        """What is said of a file that is not as it was written."""
        what = "does not agree with its checksum: it is damaged, or was edited"
        if self.file.suffix == ".nc":
            what = "does not end with its checksum: it is damaged, was edited, or is of an early version"
        return f"{self.file} {what}. To mend it: {self.cure}."

    def whole(self, content: dict[str, Any]) -> dict[str, Any]:
        """``content`` without its checksum, which it agrees with. A file of an older version has none.

        Raises:
            ConfigError: it does not agree.
        """
        said = content.pop(checksum.NAME, None)
        if said is not None and not checksum.agrees(content, said):
            raise ConfigError(self.damaged)
        return content

    def of(self, name: str) -> "Place":
        """A field of what is here."""
        return Place(self.file, f"{self.field}{'.' if self.field else ''}{name}")

    def require(self, value: Any, condition: bool, allowed: str) -> None:
        """Raise `ConfigError` with what is ``allowed`` unless ``condition`` is true of ``value``."""
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
                Place(self.file, f"{self.field}[{place}]").check(one, its)
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
