"""Configs to JSON and back, without pickle.

A config is a frozen dataclass whose fields are numbers, strings, booleans, None, tuples of these, or configs.
Each config is stored as its fields plus ``"type"``, the name of its class.
"""

from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

from featscope.options import ConfigError


def to_plain(value: Any) -> Any:
    """The JSON form of a config."""
    if is_dataclass(value) and not isinstance(value, type):
        return {"type": type(value).__name__} | {f.name: to_plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [to_plain(item) for item in value]
    return value


def from_plain(kind: Any, plain: Any) -> Any:
    """The config of type ``kind`` (a dataclass, or a union that contains one) that `to_plain` wrote."""
    if isinstance(plain, dict):
        candidates = {c.__name__: c for c in (kind, *get_args(kind)) if is_dataclass(c) and isinstance(c, type)}
        name = plain.get("type")
        if name not in candidates:
            raise ConfigError(f"config.json: type = {name!r} is unknown here: allowed is one of {sorted(candidates)}")
        hints = get_type_hints(candidates[name])
        given = {key: value for key, value in plain.items() if key != "type"}
        unknown = sorted(set(given) - set(hints))
        if unknown:
            raise ConfigError(f"config.json: {name} has no field {unknown[0]!r}: written by another version?")
        return candidates[name](**{key: from_plain(hints[key], value) for key, value in given.items()})
    if isinstance(plain, list):
        return tuple(from_plain(None, item) for item in plain)
    return plain


def differences(old: Any, new: Any, field: str = "config") -> list[str]:
    """Where two plain configs differ, as "field: old -> new"."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = sorted(set(old) | set(new))
        return [line for key in keys for line in differences(old.get(key), new.get(key), f"{field}.{key}")]
    return [] if old == new else [f"{field}: {old!r} -> {new!r}"]
