"""What a checkpoint is of, and that it is of something else."""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from hashlib import blake2b
from pathlib import PurePath
from reprlib import repr as short
from typing import Any

import numpy as np

_BYTES = 16


def digest(*values: Any) -> str:
    """A word that changes with the options of a recipe, and with little else.

    It sees dataclasses but for fields at their defaults, so that an option that is added later changes nothing; tuples,
    mappings, sets, members of an enumeration, paths, numbers and words; of functions and all else the name alone.

    It is the same in every process and version of Python. A list may change while it is used, and counts by its name.
    """
    return blake2b(repr(_described(values)).encode("utf-8", "replace"), digest_size=_BYTES).hexdigest()


def other(stored: Mapping[str, Any], mine: Mapping[str, Any]) -> str:
    """In what the description of a checkpoint is not that of ``mine``, in words; one of an older version says less."""
    for name, value in mine.items():
        if (said := stored.get(name, value)) != value:
            return f"{name} {short(said)}, not {short(value)}"
    return ""


def _default(field: Field[Any]) -> Any:
    """What a field has that nobody has set, described; what nothing else is where it must be set."""
    if field.default is not MISSING:
        return _described(field.default)
    return _described(field.default_factory()) if field.default_factory is not MISSING else MISSING


def _described(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        held = ((field, _described(getattr(value, field.name))) for field in fields(value) if field.compare)
        return type(value).__qualname__, *((field.name, said) for field, said in held if said != _default(field))
    if isinstance(value, tuple):
        return tuple(map(_described, value))
    if isinstance(value, Mapping):
        return tuple((_described(key), _described(one)) for key, one in value.items())
    if isinstance(value, set | frozenset):
        return tuple(sorted(map(repr, map(_described, value))))
    if isinstance(value, Enum):
        return type(value).__qualname__, value.name
    if isinstance(value, PurePath):
        return _described(str(value))
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer():  # 1.0 is 1, wherever a number is read from
        value = int(value)
    if value is None or isinstance(value, bool | int | float | str):
        return f"{type(value).__name__} {value}" if isinstance(value, str) else str(value)
    return f"a {getattr(value, '__qualname__', type(value).__qualname__)}"
