"""Where faults of one line can be planted in a source, and in which order they are tried."""

import ast
import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from featscope.options import require_extra
from featscope.testing.operators import by_kind

with require_extra("python -m featscope.testing", "faults"):
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.operators.operator import Operator
    from parso.tree import NodeOrLeaf

_HEADED = {"if_stmt", "for_stmt", "while_stmt", "with_stmt", "try_stmt", "funcdef", "classdef", "async_stmt", "suite"}
_NEVER = {"import_name", "import_from", "decorator", "raise_stmt", "assert_stmt", "fstring"}
_CHECKS = ("require(", "require_ascending(")


@dataclass(frozen=True)
class Site:
    """Where a fault can be planted.

    Attributes:
        module: the module.
        kind: what kind of fault it is.
        operator: what makes it.
        occurrence: which of the operator's places in the module it is, from 0 on.
        line: line of the module, from 1 on.
        lines: those that its statement stands in.
    """

    module: str
    kind: str
    operator: Operator
    occurrence: int
    line: int
    lines: range


@dataclass(frozen=True)
class Mutant:
    """A module with a fault.

    Attributes:
        module: the module.
        kind: what kind of fault it is.
        line: the first line that differs, from 1 on.
        before: that line.
        after: what it has become.
        source: the module's text with the fault.
        lines: lines that its statement stands in.
    """

    module: str
    kind: str
    line: int
    before: str
    after: str
    source: str
    lines: range

    @property
    def key(self) -> str:
        """What it is known by in a file of results."""
        return f"{self.module}:{self.line}: {self.before} -> {self.after}"


def sites(
    sources: Mapping[str, str], lines: Mapping[str, Collection[int]], judges: Mapping[str, Collection[int]]
) -> list[Site]:
    """All places for a fault.

    Left out are checks of options, what is raised and when, defaults of options (another default is another study, not
    a fault), annotations, texts, and claims (a claim does not notice that it is another one).

    Args:
        sources: module -> its text.
        lines: module -> the lines that are executed.
        judges: module -> lines of claims.
    """
    trees = {module: get_ast(source) for module, source in sources.items()}
    kinds = by_kind(sorted(_purposes(trees.values())), _defaults(trees.values()))
    found: list[Site] = []
    for module, tree in sorted(trees.items()):
        nodes, executed, claims = list(ast_nodes(tree)), set(lines[module]), judges.get(module, ())
        for kind, operators in kinds.items():
            for operator in operators:
                places = [start for node in nodes for start, _ in operator.mutation_positions(node)]
                found += [
                    Site(module, kind, operator, number, start[0], where)
                    for number, start in enumerate(places)
                    if (where := _place(tree.get_leaf_for_position(start), executed, claims))
                ]
    return found


def in_turn(found: Iterable[Site], seed: int) -> Iterator[Site]:
    """The sites in random order, such that parts and kinds have been met about equally often at every point.

    A part is a package of `featscope` or of its studies: its modules share their turns.
    """
    chance = random.Random(seed)
    strata: dict[tuple[str, str], list[Site]] = {}
    for site in found:
        strata.setdefault((_part(site.module), site.kind), []).append(site)
    order = sorted(strata)
    chance.shuffle(order)
    for stratum in order:
        chance.shuffle(strata[stratum])
    parts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    while order:
        part, kind = next_one = min(order, key=lambda one: parts[one[0]] + kinds[one[1]])
        parts[part] += 1
        kinds[kind] += 1
        yield strata[next_one].pop()
        if not strata[next_one]:
            order.remove(next_one)


def _part(module: str) -> str:
    """``featscope.training`` of ``featscope.training.loop``; a study's own package of its modules."""
    return ".".join(module.split(".")[: 3 if module.startswith("featscope.studies.") else 2])


def plant(source: str, site: Site) -> Mutant | None:
    """``source`` with the fault of ``site``; None if it is no Python, or says the same."""
    planted = mutate_code(source, site.operator, site.occurrence)
    if planted is None or _meaning(planted) in (None, _meaning(source)):
        return None
    old, new = source.splitlines(), planted.splitlines()
    differs = [i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b]
    at = differs[0] if differs else min(len(old), len(new)) - 1
    return Mutant(site.module, site.kind, at + 1, old[at].strip(), new[at].strip(), planted, site.lines)


@lru_cache(maxsize=64)  # most ask for the text without a fault
def _meaning(source: str) -> str | None:
    """The syntax tree without places; None if it is no Python."""
    try:
        return ast.dump(ast.parse(source))
    except SyntaxError:
        return None


def _place(leaf: Any, lines: Collection[int], judges: Collection[int]) -> range | None:
    """The lines of ``leaf``'s statement; None if a fault there is not executed, or is none."""
    statement: Any = None
    inside: Any = leaf
    while inside.parent is not None:
        parent = inside.parent
        if _guards(inside, parent) or inside.type in _NEVER or _is_annotation(inside, parent) or _is_field(inside):
            return None
        if statement is None and (parent.type in _HEADED or parent.type in ("simple_stmt", "file_input")):
            statement = parent if parent.type == "simple_stmt" else inside
        inside = parent
    if statement is None or statement.get_code().lstrip().startswith(_CHECKS):
        return None
    where = range(statement.start_pos[0], statement.end_pos[0] + 1)
    return where if any(line in lines for line in where) and not any(line in judges for line in where) else None


def _guards(node: Any, parent: Any) -> bool:
    """Whether it is a condition under which nothing is done but to raise."""
    if parent.type != "if_stmt" or node.type == "suite" or len(parent.children) != 4:
        return False
    (first, *rest) = [one for one in parent.children[3].children if one.type != "newline"]
    return not rest and bool(first.get_code().lstrip().startswith("raise "))


def _is_annotation(node: Any, parent: Any) -> bool:
    if parent.type == "annassign":
        return bool(parent.children[1] is node)
    if parent.type == "tfpdef":
        return True
    return parent.type in ("param", "funcdef", "lambdef") and getattr(parent, "annotation", None) is node


def _is_field(node: Any) -> bool:
    """Whether it is a field of a dataclass with its default, or anything else that a class is annotated with."""
    if node.type != "expr_stmt" or node.children[1].type != "annassign" or node.parent.type != "simple_stmt":
        return False
    holder = node.parent.parent
    return bool(holder.type == "suite" and holder.parent.type == "classdef")


def _purposes(trees: Iterable[NodeOrLeaf]) -> set[str]:
    """First arguments of ``.at("purpose", ...)``."""
    found = set()
    for tree in trees:
        for node in ast_nodes(tree):
            if node.type == "string" and node.parent is not None:
                call = node.parent.parent if node.parent.type == "arglist" else node.parent
                name = call.get_previous_sibling() if call is not None and call.type == "trailer" else None
                first = call is not None and call.type == "trailer" and node.get_previous_leaf() is call.children[0]
                if first and name is not None and name.get_last_leaf().value == "at":
                    found.add(node.value[1:-1])
    return found


def _defaults(trees: Iterable[NodeOrLeaf]) -> dict[str, str]:
    """Field of a dataclass -> its default where that is a number, a text or a keyword; those that are two are out."""
    found: dict[str, set[str]] = {}
    for tree in trees:
        for node in ast_nodes(tree):
            if _is_field(node) and len(node.children[1].children) == 4:
                value = node.children[1].children[3]
                if value.type in ("number", "string", "keyword", "factor"):
                    found.setdefault(node.children[0].value, set()).add(value.get_code().strip())
    return {name: next(iter(values)) for name, values in found.items() if len(values) == 1}
