"""Checks of options, and the error that a wrong one raises."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from math import isfinite
from pathlib import Path, PurePath
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

MOST_COUNTED = 10**12
"""Of anything that is counted: as bytes it is more than a machine has."""

_LONGEST = 200  # letters of a value in a message


class ConfigError(Exception):
    """A wrong option. The message names the field, its value, what is allowed and the cure (exit code 2).

    Attributes:
        owner: name of the class whose field it is; empty if it is no field's.
        field: the field.
        source: of data that cannot be had, what an option said they are; empty if that is not what is wrong.
    """

    owner: str = ""
    field: str = ""
    source: str = ""


class MissingExtraError(ImportError):
    """A part was used whose optional dependencies are not installed."""

    def __init__(self, part: str, extra: str) -> None:
        super().__init__(part, extra)  # as given, so that it can pass between processes
        self.part, self.extra = part, extra

    def __str__(self) -> str:
        if self.extra == "retriever":  # a package of its own, which no index has
            return f"{self.part} is a package of its own: pip install ./packages/featscope-retriever in a checkout"
        return f"{self.part} needs the extra '{self.extra}': pip install 'featscope[{self.extra}]'"


@contextmanager
def require_extra(part: str, extra: str) -> Iterator[None]:
    """Import within it what an extra installs.

    Args:
        part: what needs it.
        extra: its name.

    Raises:
        MissingExtraError: some of it is not installed.
    """
    try:
        yield
    except MissingExtraError as error:
        raise MissingExtraError(part, error.extra) from error
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "featscope":
            raise
        raise MissingExtraError(part, extra) from error


def require(config: Any, field: str, condition: bool, allowed: str, cure: str = "") -> None:
    """Raise `ConfigError` unless ``condition`` holds for ``config.field``; floats in it must be finite besides.

    Args:
        config: the config dataclass being checked.
        field: name of the offending field.
        condition: whether its value is acceptable.
        allowed: the allowed range, in words or as an interval such as ``"> 0"``.
        cure: what to do about it, where the range alone does not say.
    """
    value = getattr(config, field)
    if any(isinstance(one, float) and not isfinite(one) for one in (value if isinstance(value, tuple) else (value,))):
        condition, allowed = False, f"{allowed}, and finite"
    if not condition:
        hint = f" {cure}" if cure else ""
        owner = type(config).__name__
        shown = repr(str(value) if isinstance(value, PurePath) else value)
        shown = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."
        error = ConfigError(f"{owner}.{field} = {shown} is out of range: allowed is {allowed}.{hint}")
        error.owner, error.field = owner, field
        raise error


def require_word(config: Any, field: str) -> None:
    """Raise `ConfigError` unless ``config.field`` is one of the words that its annotation lists.

    Args:
        config: the config dataclass being checked.
        field: name of a field that is a `Literal`, or that or None.
    """
    owner: Any = type(config)
    words = listed_words(owner, field)
    *others, last = map(repr, words)
    allowed = f"{', '.join(others)} or {last}" if others else last
    require(config, field, getattr(config, field) in words, allowed)


@cache
def listed_words(owner: type, field: str) -> tuple[Any, ...]:
    """The values that the annotation of a dataclass's field lists; none where it lists none, or there is no field."""
    hint: Any = next((one.type for one in fields(owner) if one.name == field), None)
    if isinstance(hint, str):
        hint = get_type_hints(owner)[field]
    parts = (hint,) if get_origin(hint) is Literal else get_args(hint)
    return tuple(word for part in parts for word in ((None,) if part is NoneType else get_args(part)))


NAME = "1 to 100 letters, digits, '-', '.', '_', '@', '=' and '+', the first a letter or a digit"
"""What `is_name` allows, in words."""


def is_name(value: Any) -> bool:
    """Whether ``value`` can be the name of a file and of a group in one, on any machine."""
    return isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._@=+-]{0,99}", value) is not None


def alike(names: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of ``names`` of which the second is the first again, or differs from it by capitals alone.

    Both are one file on machines whose names of files know no capitals, as on most of macOS and Windows.
    """
    first: dict[str, str] = {}
    found: dict[tuple[str, str], None] = {}
    for name in names:
        if (plain := name.lower()) in first:
            found[first[plain], name] = None
        else:
            first[plain] = name
    return list(found)


def require_name(config: Any, field: str) -> None:
    """Raise `ConfigError` unless ``config.field`` is a name, see `is_name`."""
    require(config, field, is_name(getattr(config, field)), NAME)


def require_output_folder(config: Any, field: str) -> None:
    """Raise `ConfigError` unless ``config.field`` is a folder, or nothing yet within one."""
    out: Path = getattr(config, field)
    there = out.is_dir() or (not out.exists() and out.absolute().parent.is_dir())
    require(config, field, there, "a folder, no file, within one that is there")


def require_ascending(config: Any, field: str) -> None:
    """Raise `ConfigError` unless ``config.field`` has numbers from 1 on, one at least, ascending."""
    values = list(getattr(config, field))
    ascending = bool(values) and values == sorted(set(values)) and values[0] >= 1
    require(config, field, ascending, "one number >= 1 or more, ascending")
