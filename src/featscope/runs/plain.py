"""Configs to JSON and back, without pickle.

A config is a frozen dataclass whose fields are numbers, strings, booleans, None, tuples of these, or configs.
Each config is stored as its fields plus ``"type"``, the "module:Class" that it is of.
"""

import sys
from dataclasses import MISSING, fields, is_dataclass
from pathlib import PurePath
from typing import Any

from featscope.options import ConfigError


def to_plain(value: Any) -> Any:
    """The JSON form of a config.

    Raises:
        ConfigError: a field holds something else than a config may.
    """
    return _to_plain(value, "", "")


def _to_plain(value: Any, owner: str, field: str) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        owner = type(value).__name__
        return {"type": _tag(type(value))} | {
            f.name: _to_plain(getattr(value, f.name), owner, f.name) for f in fields(value)
        }
    if isinstance(value, tuple):
        return [_to_plain(item, owner, field) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str) and value == value.encode(errors="ignore").decode():  # else of bytes that are no UTF-8
        return value
    where = f"{owner}.{field} = {value!r} cannot be stored" if field else f"a config holds {value!r}"
    cure = " Declare it as a str, and make a Path of it where it is used." if isinstance(value, PurePath) else ""
    error = ConfigError(
        f"{where}: allowed are numbers, strings in UTF-8, booleans, None, tuples of these, and frozen "
        f"dataclasses.{cure}"
    )
    error.owner, error.field = owner, field
    raise error


def _tag(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def known(tag: Any) -> type | None:
    """The dataclass that a tag names, among the modules that are loaded; nothing is imported on a file's word."""
    module, _, name = str(tag).partition(":")
    kind = within_a_class(sys.modules.get(module), name)
    return kind if isinstance(kind, type) and is_dataclass(kind) else None


def within_a_class(module: Any, name: str) -> Any:
    """What ``name`` stands for in a module, such as ``Outer.Inner``; None where there is nothing."""
    for part in name.split("."):
        module = getattr(module, part, None)
    return module


def from_plain(plain: Any) -> Any:
    """The config that `to_plain` wrote.

    Raises:
        ConfigError: it names a class or a field that is not there.
    """
    if isinstance(plain, dict):
        kind = known(plain.get("type"))
        if kind is None:
            raise ConfigError(f"config.json: type = {plain.get('type')!r} is unknown here: allowed is a loaded config")
        given = {key: value for key, value in plain.items() if key != "type"}
        unknown = sorted(set(given) - {f.name for f in fields(kind)})
        if unknown:
            raise ConfigError(f"config.json: {kind.__name__} has no field {unknown[0]!r}: written by another version?")
        return kind(**{key: from_plain(value) for key, value in given.items()})
    if isinstance(plain, list):
        return tuple(from_plain(item) for item in plain)
    return plain


def unsaid(plain: Any, field: str = "") -> list[str]:
    """Options that a stored config does not have and a new one has, as they are typed, with their defaults."""
    kind = known(plain.get("type")) if isinstance(plain, dict) else None
    if kind is None:
        return []
    found = []
    for one in fields(kind):
        name = f"{field}.{one.name}".strip(".").replace("_", "-")
        if one.name in plain:
            found += unsaid(plain[one.name], name)
        elif one.default is not MISSING:
            found.append(f"--{name} {one.default}")
        elif one.default_factory is not MISSING:
            found.append(f"--{name} with its defaults")
    return found


def as_read(plain: Any) -> Any:
    """A stored config as `to_plain` writes it today, in the fields that were stored; as it is where it cannot be read.

    A value may be written otherwise by now, such as None for a number that stands for the same.
    """
    try:
        return _in_fields_of(plain, to_plain(from_plain(plain)))
    except (ConfigError, TypeError, ValueError):
        return plain


def _in_fields_of(stored: Any, today: Any) -> Any:
    """An option that was not there is not filled in: what it does today need not be what was done."""
    if isinstance(stored, dict) and isinstance(today, dict):
        return {name: _in_fields_of(value, today.get(name)) for name, value in stored.items()}
    if isinstance(stored, list) and isinstance(today, list) and len(stored) == len(today):
        return [*map(_in_fields_of, stored, today)]
    return today


def differences(old: Any, new: Any, field: str = "config") -> list[str]:
    """Where two plain configs differ, as "field: old -> new"."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = sorted(set(old) | set(new))
        return [line for key in keys for line in differences(old.get(key), new.get(key), f"{field}.{key}")]
    return [] if old == new else [f"{field}: {old!r} -> {new!r}"]
