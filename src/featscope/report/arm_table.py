"""What sets the arms of a study apart: a row an arm, a column for each part of the recipe in which some arm differs.

Arms whose recipes are of different classes have nothing to compare; they get tables of their own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from featscope.report.numbers import chosen, exact
from featscope.studies import Arm
from featscope.studies.base import Role

_UNINTERESTING = {"probe_every"}
_MOST = 3  # options of a part that are told


@dataclass(frozen=True)
class Part:
    """A part of a recipe: of which class it is, and its own options in words."""

    kind: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """An arm: what is said of it, and for each column how it differs from the first arm, nothing where it does not."""

    name: str
    label: str
    about: str
    role: Role
    cells: Sequence[str]


@dataclass(frozen=True)
class ArmTable:
    """Arms with recipes of one class.

    Attributes:
        columns: names of the parts in which some arm differs from the first.
        base: what these are in the first arm.
        rows: the arms, in order.
        same: name -> what it is, of parts that are the same in all arms.
    """

    columns: Sequence[str]
    base: Sequence[str]
    rows: Sequence[Row]
    same: Mapping[str, str]


def arm_tables(arms: Sequence[Arm]) -> list[ArmTable]:
    """A table for the arms of each class of recipe; in each they are compared with its first."""
    kinds: dict[type, list[Arm]] = {}
    for arm in arms:
        kinds.setdefault(type(arm.recipe), []).append(arm)
    return [_table(alike) for alike in kinds.values()]


def _table(arms: Sequence[Arm]) -> ArmTable:
    alike = _alike(arms)
    recipes = [_parts(arm.recipe, lambda place, value: _leaf(value, place in alike)) for arm in arms]
    paths = list(dict.fromkeys(path for parts in recipes for path in parts))
    cells = {
        (row, path): _difference(recipes[0].get(path), parts.get(path))
        for row, parts in enumerate(recipes)
        for path in paths
    }
    for row, arm in enumerate(arms):
        for axis in arm.over:
            path, _, option = axis.option.rpartition(".")
            path = path if path in paths else option
            if path in paths:
                low, high = chosen(min(axis.values)), chosen(max(axis.values))
                several = f"{_spaced(option)} {low} to {high}, {len(axis.values)} values"
                cells[row, path] = "; ".join(filter(None, [cells[row, path], several]))
    columns = [path for path in paths if any(cells[row, path] for row in range(len(arms)))]
    first = recipes[0]
    return ArmTable(
        columns=[_spaced(path.rpartition(".")[2]) for path in columns],
        base=[_told(first.get(path)) for path in columns],
        rows=[
            Row(arm.name, arm.label or arm.name, arm.about, arm.role, [cells[row, path] for path in columns])
            for row, arm in enumerate(arms)
        ],
        same={_spaced(path.rpartition(".")[2]): _told(first[path]) for path in first if path not in columns},
    )


def _alike(arms: Sequence[Arm]) -> set[str]:
    """Places in recipes where values differ by more than three digits show."""
    found: dict[tuple[str, str], set[Any]] = {}

    def said(place: str, value: Any) -> str:
        if words := _leaf(value):
            found.setdefault((place, words), set()).add(value)
        return words

    for arm in arms:
        _parts(arm.recipe, said)
    return {place for (place, _), values in found.items() if len(values) > 1}


def _parts(recipe: Any, say: Callable[[str, Any], str]) -> dict[str, Part]:
    """Path -> part, for everything in ``recipe`` that has options; its own options are a part each.

    What ``say(place, value)`` makes of an option is told, nothing where that is empty. Rules that only look
    (``looks_only``) set no arms apart.
    """
    found: dict[str, Part] = {}

    def walk(value: Any, path: str) -> None:
        if getattr(value, "looks_only", False):
            return
        inner = _fields(value)
        own = {name: said for name, one in inner.items() if (said := say(f"{path}.{name}", one))}
        if not path:
            found.update({name: Part(said) for name, said in own.items() if name not in _UNINTERESTING})
        elif is_dataclass(value):
            found[path] = Part(type(value).__name__, own)
        for name, one in inner.items():
            if is_dataclass(one) or isinstance(one, Mapping):
                walk(one, f"{path}.{name}" if path else name)

    walk(recipe, "")
    return found


def _fields(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    return {one.name: getattr(value, one.name) for one in fields(value)}


def _leaf(value: Any, exactly: bool = False) -> str:
    """A number, a word or a few of them, or all of them ``exactly``; nothing for all else."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return exact(value) if exactly else chosen(value)
    if isinstance(value, str):
        return value
    if isinstance(value, tuple) and value and all(told := [_leaf(one, exactly) for one in value]):
        return ", ".join(told) if exactly or len(told) <= _MOST else f"{told[0]} to {told[-1]}"
    return ""


def _difference(old: Part | None, new: Part | None) -> str:
    """What is different, in a few words; nothing if nothing is."""
    if old == new:
        return ""
    if new is None:
        return "none"
    if old is None or old.kind != new.kind:
        return _told(new)
    changed = {name: said for name, said in new.options.items() if old.options.get(name) != said}
    gone = {name: "none" for name in old.options if name not in new.options}
    return ", ".join(f"{_spaced(name)} {said}" for name, said in (changed | gone).items())


def _told(part: Part | None) -> str:
    if part is None:
        return "none"
    options = [f"{_spaced(name)} {said}" for name, said in part.options.items()]
    return ": ".join(filter(None, [part.kind, ", ".join(options[:_MOST])]))


def _spaced(name: str) -> str:
    return name.replace("_", " ")
