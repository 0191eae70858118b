"""What can be typed for an option, by its type: values that are wrong for any option of the type, and doubtful ones."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

HUGE = str(10**23)
LONG = "x" * 300
WORDS = ("word", "", "η", LONG, "\x07\x1b[31m", "None of it", "[1]", "1,2", "0x10")
WRONG: dict[Any, tuple[str, ...]] = {
    int: (*WORDS, "nan", "inf", "1.5", "1e3", HUGE, f"-{HUGE}", "9" * 5000),
    float: (*WORDS, "nan", "inf", "-inf", "1e400", "9" * 5000),
    bool: ("maybe",),
    Literal: (*WORDS, "0", "nan"),
}
"""Refused, whatever the option."""
DOUBTFUL: dict[Any, tuple[str, ...]] = {
    int: ("-1", "0", "1", "2", "1000000000000"),
    float: ("-1", "0", "-0.0", "1e-300", "1e300", HUGE),
    str: (*WORDS, "nan", "../..", "/dev/null", "/proc/self/mem", "-", "a/b/c", "~", "."),
    bool: (),
    Literal: (),
}
"""Refused, or as good as others: the run begins."""


@dataclass(frozen=True)
class Option:
    """An option of a study.

    Attributes:
        typed: as it stands on the command line.
        kind: int, float, bool, str or Literal: what it takes, or each of what it takes.
        several: whether it takes several.
        optional: whether it takes None.
    """

    typed: str
    kind: Any
    several: bool = False
    optional: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """What a message may call it."""
        last = self.typed.rpartition(".")[2].removeprefix("--")
        return self.typed, last.replace("-", "_"), last


def options(config: Any, prefix: str = "--") -> Iterator[Option]:
    """All options of ``config`` and its parts."""
    hints = get_type_hints(type(config))
    for field in fields(config):
        value, typed = getattr(config, field.name), prefix + field.name.replace("_", "-")
        if is_dataclass(value):
            yield from options(value, f"{typed}.")
        elif (option := _option(typed, hints[field.name])).kind in DOUBTFUL:  # else a part that is not there
            yield option


def _option(typed: str, hint: Any) -> Option:
    several, optional = False, False
    if get_origin(hint) in (Union, UnionType):
        optional = NoneType in get_args(hint)
        hint = next(one for one in get_args(hint) if one is not NoneType)
    if get_origin(hint) is tuple:
        several, hint = True, get_args(hint)[0]
    return Option(typed, Literal if get_origin(hint) is Literal else hint, several, optional)


def typed(config: Any, default: Any, prefix: str = "--") -> dict[str, list[str]]:
    """The words, by option, that make ``default`` into ``config``."""
    found: dict[str, list[str]] = {}
    for field in fields(config):
        value, usual = getattr(config, field.name), getattr(default, field.name)
        option = prefix + field.name.replace("_", "-")
        if value == usual:
            continue
        if is_dataclass(value):
            found |= typed(value, usual, f"{option}.")
        elif isinstance(value, bool):
            found[option] = []
        else:
            found[option] = [str(one) for one in (value if isinstance(value, tuple) else (value,))]
    return found
