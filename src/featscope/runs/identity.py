"""What a checkpoint is of, and that it is of something else."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from reprlib import repr as short
from typing import Any

_BYTES = 16


def digest(*values: Any) -> str:
    """A word that changes with the options of a recipe, and with nothing else.

    It sees dataclasses, tuples, mappings, numbers and words; of functions and all else the name alone.

    It is the same in every process and version of Python. A list may change while it is used, and counts by its name.
    """
    return blake2b(repr(_described(values)).encode("utf-8", "replace"), digest_size=_BYTES).hexdigest()


def other(stored: Mapping[str, Any], mine: Mapping[str, Any]) -> str:
    """In what the description of a checkpoint is not that of ``mine``, in words; one of an older version says less."""
    for name, value in mine.items():
        if (said := stored.get(name, value)) != value:
            return f"{name} {short(said)}, not {short(value)}"
    return ""


def _described(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        held = ((field.name, _described(getattr(value, field.name))) for field in fields(value) if field.compare)
        return type(value).__qualname__, *held
    if isinstance(value, tuple):
        return tuple(map(_described, value))
    if isinstance(value, Mapping):
        return tuple((_described(key), _described(one)) for key, one in value.items())
    if isinstance(value, float) and value.is_integer():  # 1.0 is 1, wherever a number is read from
        value = int(value)
    if value is None or isinstance(value, bool | int | float | str):
        return f"{type(value).__name__} {value}" if isinstance(value, str) else str(value)
    return f"a {getattr(value, '__qualname__', type(value).__qualname__)}"
