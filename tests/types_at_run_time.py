"""The checker of types and shapes that `conftest.py` installs."""

from typing import Any

from beartype import BeartypeConf, beartype

_checked = beartype(conf=BeartypeConf(is_pep484_tower=True))  # a whole number is a float, as for mypy


def check(part: Any) -> Any:
    """A function or class that checks what it is given; a function within a function, made at each call, does not."""
    return part if "<locals>" in part.__qualname__ else _checked(part)
