"""Options that take several values: the axes of a sweep."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from itertools import islice, pairwise, product
from math import log
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from featscope.options import MOST_COUNTED, ConfigError, require_word

C = TypeVar("C")
_LOGARITHMIC_FROM = 30  # ratio of two values
_NUMBERS = {"int": int, "float": float, "None": NoneType}


def typed(value: float) -> str:
    """``value`` as the command line takes it, with all of its digits."""
    return repr(float(value)).removesuffix(".0")


@dataclass(frozen=True)
class Axis:
    """One numeric option and the values that it takes.

    Attributes:
        option: path of the option, such as "data.eps_min" or "rules.pruning.ratio".
        values: the values, all different in their first twelve digits, by which results are named.
    """

    option: str
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.values or len({f"{value:.12g}" for value in self.values}) < len(self.values):
            allowed = "one or more, all different in their first twelve digits"
            raise ConfigError(f"values of {self.option} = {self}: allowed are {allowed}")

    @property
    def name(self) -> str:
        """The option's own name, which labels the axis of results."""
        return self.option.rpartition(".")[2]

    def __str__(self) -> str:
        """The values as the command line takes them."""
        return ",".join(map(typed, self.values))

    @property
    def logarithmic(self) -> bool:
        """Whether values that are all positive lie more evenly by their ratios than by their differences; of two,
        whether one is thirty times the other."""
        ordered = sorted(self.values)
        if ordered[0] <= 0 or len(ordered) < 2:
            return False
        if len(ordered) == 2:
            return ordered[1] >= _LOGARITHMIC_FROM * ordered[0]
        ratios, differences = ([f(b) - f(a) for a, b in pairwise(ordered)] for f in (log, float))
        return max(ratios) * min(differences) < max(differences) * min(ratios)


def numeric_options(config: Any, prefix: str = "") -> dict[str, Any]:
    """Paths and values of all numeric options in ``config``; None of those that may be a number and are not set."""
    found: dict[str, Any] = {}
    for name, value in _parts(config).items():
        path = prefix + name
        if is_dataclass(value) or isinstance(value, Mapping):
            found |= numeric_options(value, f"{path}.")
        elif _is_numeric(config, name, value):
            found[path] = value
    return found


def _parts(config: Any) -> Mapping[str, Any]:
    return (
        config if isinstance(config, Mapping) else {field.name: getattr(config, field.name) for field in fields(config)}
    )


def find_option(config: Any, name: str, known_as: str = "") -> str:
    """The path of the numeric option ``name`` in ``config``; a part of the path will do if only one option ends so.

    Args:
        config: what has the options.
        name: of the option, or its path.
        known_as: what an error calls ``config``; its class if empty.

    Raises:
        ConfigError: no such option, or several.
    """
    known = numeric_options(config)
    wanted = name.replace("-", "_")
    matches = [path for path in known if path == wanted] or [path for path in known if path.endswith(f".{wanted}")]
    if len(matches) == 1:
        return matches[0]
    allowed = ", ".join(matches or known)
    problem = "stands for several options" if matches else "is no numeric option"
    raise ConfigError(f"axis {name!r} {problem} of {known_as or type(config).__name__}: allowed is one of {allowed}")


def with_options(config: C, values: Mapping[str, float]) -> C:
    """``config`` with other values of some options, set at once; whole numbers where an option is one.

    Args:
        config: what has the options.
        values: by the options' paths.

    Raises:
        ConfigError: a value is out of the option's range, or not whole where it must be.
    """
    changed: dict[str, Any] = {}
    inside: dict[str, dict[str, float]] = {}
    for path, value in values.items():
        head, _, rest = path.partition(".")
        if rest:
            inside.setdefault(head, {})[rest] = value
        else:
            changed[head] = _as_declared(config, head, value)
    changed |= {head: with_options(_parts(config)[head], more) for head, more in inside.items()}
    if isinstance(config, Mapping):
        return {**config, **changed}  # type: ignore[return-value]
    made = replace(config, **changed)  # type: ignore[type-var]
    for name in changed:
        words = _declared(config, name) - {NoneType}
        if words and all(get_origin(kind) is Literal for kind in words):
            require_word(made, name)
    return made


def _as_declared(config: Any, name: str, value: float) -> float:
    if not _counts(config, name, _parts(config)[name]):
        return value
    if not float(value).is_integer() or abs(value) > MOST_COUNTED:
        owner, most = type(config).__name__, f"{MOST_COUNTED:.0e}"
        error = ConfigError(f"{owner}.{name} = {value!r} is out of range: allowed is a whole number, at most {most}")
        error.owner, error.field = owner, name
        raise error
    return int(value)


def is_whole(config: Any, path: str) -> bool:
    """Whether the option at ``path`` takes whole numbers only."""
    head, _, rest = path.partition(".")
    inner = _parts(config)[head]
    return is_whole(inner, rest) if rest else _counts(config, head, inner)


def _is_numeric(config: Any, name: str, value: Any) -> bool:
    """Whether the option is a number, or is declared as one that need not be set."""
    if value is None:
        declared = _declared(config, name)
        return bool(declared) and declared <= {int, float, NoneType}
    return isinstance(value, int | float) and not isinstance(value, bool)


def _counts(config: Any, name: str, value: Any) -> bool:
    """Whether the option is not declared as a float, whose default may be written without a point, but as an int."""
    declared = _declared(config, name)
    return float not in declared and (isinstance(value, int) or (value is None and int in declared))


def _declared(config: Any, name: str) -> Set[Any]:
    """The types that the field is declared with; none where it is an entry of a mapping."""
    kind: Any = type(config)
    return frozenset() if isinstance(config, Mapping) else _types(kind).get(name, frozenset())


@cache
def _types(kind: type) -> Mapping[str, Set[Any]]:
    """The types that each field of ``kind`` is declared with."""
    try:
        hints = get_type_hints(kind)
    except (NameError, AttributeError, TypeError):  # of names that only a type checker imports
        hints = {field.name: field.type for field in fields(kind)}
    return {name: frozenset(_one_by_one(hint)) for name, hint in hints.items()}


def _one_by_one(hint: Any) -> Iterator[Any]:
    if isinstance(hint, str):
        yield from (_NUMBERS.get(word, word) for word in hint.split(" | "))
    elif isinstance(hint, UnionType) or get_origin(hint) is Union:
        yield from get_args(hint)
    else:
        yield hint


def points(config: C, axes: Sequence[Axis], places: range | None = None) -> Iterator[tuple[dict[str, float], C]]:
    """Every combination of the axes' values: their labels, and ``config`` with them.

    Args:
        config: where the values are set.
        axes: what varies; the last the fastest.
        places: places among the combinations of those that are wanted; None for all.

    Raises:
        ConfigError: see `with_options`.
    """
    first, end = (0, None) if places is None else (places.start, places.stop)
    for values in islice(product(*(axis.values for axis in axes)), first, end):
        point = with_options(config, {axis.option: value for axis, value in zip(axes, values, strict=True)})
        set_now = numeric_options(point) if axes else {}
        yield {axis.name: set_now[axis.option] for axis in axes}, point
