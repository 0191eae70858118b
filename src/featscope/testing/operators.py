"""Kinds of faults of one line: operators of cosmic-ray, and those that only this package needs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from featscope.options import require_extra

with require_extra("python -m featscope.testing", "faults"):
    from cosmic_ray.operators.operator import Operator
    from cosmic_ray.operators.provider import OperatorProvider
    from parso.python.tree import Keyword, Name, PythonNode
    from parso.tree import BaseNode, Leaf, NodeOrLeaf

Position = tuple[tuple[int, int], tuple[int, int]]

_BINARY = {
    "sign": ("Add_Sub", "Sub_Add"),
    "factor": ("Mul_Div", "Div_Mul", "Pow_Mul", "FloorDiv_Mul", "Mod_FloorDiv"),
    "condition": ("BitAnd_BitOr", "BitOr_BitAnd"),
}
_UNARY = {"sign": ("Delete_USub",), "condition": ("Delete_Invert", "Delete_Not")}
_COMPARISONS = (
    *("Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt"),
    *("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is"),
)
_OTHERS = {
    "number": ("NumberReplacer",),
    "condition": (
        *("AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue"),
        *("ReplaceAndWithOr", "ReplaceOrWithAnd"),
    ),
    "loop": ("ZeroIterationForLoop", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak"),
}

_ALONE = {
    *("detach", "clone", "abs", "abs_", "square", "square_", "sqrt", "exp", "log", "sign", "clamp", "clamp_"),
    *("relu", "contiguous", "double", "float"),
}  # methods without which a tensor keeps its shape


def _calls(node: NodeOrLeaf) -> Iterator[tuple[int, str, BaseNode]]:
    """Where in ``node`` a method is called: place of its name, the name, the trailer with the arguments."""
    children: Sequence[Any] = getattr(node, "children", ())
    for place in range(1, len(children) - 1):
        name, call = children[place], children[place + 1]
        if name.type == call.type == "trailer" and name.children[0].value == "." and call.children[0].value == "(":
            yield place, name.children[1].value, call


def _arguments(call: BaseNode) -> list[Any]:
    """What stands between the brackets of a trailer, without commas."""
    inside: list[Any] = call.children[1:-1]
    if len(inside) == 1 and inside[0].type == "arglist":
        inside = inside[0].children
    return [one for one in inside if not (isinstance(one, Leaf) and one.value == ",")]


def _at(node: NodeOrLeaf) -> Position:
    return node.start_pos, node.end_pos


def _written(node: Any, text: str) -> Name:
    """A leaf with ``text`` in the place of ``node``."""
    return Name(text, node.start_pos, prefix=node.get_first_leaf().prefix)


class DroppedTerm(Operator):
    """a + b becomes a, or b; so do a - b, a * b and a / b, of which the second alone is dropped where order matters."""

    def _places(self, node: Any) -> list[tuple[int, int]]:
        """First and last child to drop."""
        if node.type not in ("arith_expr", "term"):
            return []
        places = []
        for at, sign in enumerate(node.children[1::2]):
            left, right = node.children[2 * at], node.children[2 * at + 2]
            if sign.value in "+-*/" and "str" not in left.type + right.type:
                places.append((2 * at + 1, 2 * at + 2))
                if at == 0 and sign.value in "+*":
                    places.append((0, 1))
        return places

    def mutation_positions(self, node: Any) -> Iterable[Position]:
        # Lists: they are made before the node changes under whoever counts them.
        return [(node.children[first].start_pos, node.children[last].end_pos) for first, last in self._places(node)]

    def mutate(self, node: Any, index: int) -> Any:
        first, last = self._places(node)[index]
        prefix = node.get_first_leaf().prefix
        node.children = node.children[:first] + node.children[last + 1 :]
        node.get_first_leaf().prefix = prefix
        return node

    @classmethod
    def examples(cls) -> Iterable[Any]:
        return ()


class DroppedCall(Operator):
    """x.f(...) becomes x, where f keeps the shape."""

    def _places(self, node: Any) -> list[int]:
        return [place for place, name, _ in _calls(node) if name in _ALONE]

    def mutation_positions(self, node: Any) -> Iterable[Position]:
        return [(node.children[at].start_pos, node.children[at + 1].end_pos) for at in self._places(node)]

    def mutate(self, node: Any, index: int) -> Any:
        place = self._places(node)[index]
        node.children = node.children[:place] + node.children[place + 2 :]
        return node

    @classmethod
    def examples(cls) -> Iterable[Any]:
        return ()


class DroppedStatement(Operator):
    """A call whose value nobody takes, or an ``x += ...``, becomes ``pass``."""

    def mutation_positions(self, node: Any) -> Iterable[Position]:
        if node.parent is None or node.parent.type != "simple_stmt":
            return []
        adds = node.type == "expr_stmt" and getattr(node.children[1], "value", "=").endswith("=")
        adds = adds and getattr(node.children[1], "value", "=") != "="
        calls = node.type == "atom_expr" and node.children[-1].children[0].value == "("
        return [_at(node)] if adds or (calls and not node.get_code().lstrip().startswith("super()")) else []

    def mutate(self, node: Any, index: int) -> Any:
        return Keyword("pass", node.start_pos, prefix=node.get_first_leaf().prefix)

    @classmethod
    def examples(cls) -> Iterable[Any]:
        return ()


class ExchangedStream(Operator):
    """``streams.at("batch", step)`` draws for another purpose, or the same at every step.

    Args:
        purposes: all purposes that are known; one becomes the next.
    """

    def __init__(self, purposes: Sequence[str] = ()) -> None:
        self._purposes = sorted(purposes)

    def _places(self, node: Any) -> list[tuple[BaseNode, int]]:
        """Trailers, and which of their arguments is changed."""
        places = []
        for _, name, call in _calls(node):
            given = _arguments(call)
            if name == "at" and given:
                if given[0].type == "string" and len(self._purposes) > 1:
                    places.append((call, 0))
                if len(given) > 1:
                    places.append((call, 1))
        return places

    def mutation_positions(self, node: Any) -> Iterable[Position]:
        return [_at(_arguments(call)[which]) for call, which in self._places(node)]

    def mutate(self, node: Any, index: int) -> Any:
        call, which = self._places(node)[index]
        given = _arguments(call)[which]
        if which == 1:
            new = "0"
        else:
            purpose = given.value[1:-1]
            others = [one for one in self._purposes if one != purpose]
            new = f'"{next((one for one in others if one > purpose), others[0])}"'
        holder = given.parent
        holder.children[holder.children.index(given)] = _written(given, new)
        return node

    @classmethod
    def examples(cls) -> Iterable[Any]:
        return ()


class IgnoredOption(Operator):
    """``self.x`` becomes the default of the option x.

    Args:
        defaults: option -> its default, as it is written.
    """

    def __init__(self, defaults: Mapping[str, str] | None = None) -> None:
        self._defaults = defaults or {}

    def _default(self, node: Any) -> str | None:
        if node.type != "atom_expr" or node.children[0].type != "name":
            return None
        own, first = node.children[:2]
        read = own.value in ("self", "config", "options") and first.type == "trailer" and first.children[0].value == "."
        if not read or (len(node.children) > 2 and node.children[2].children[0].value == "("):
            return None
        taken = node.parent.type == "expr_stmt" and node.parent.children[0] is node
        return None if taken else self._defaults.get(first.children[1].value)

    def mutation_positions(self, node: Any) -> Iterable[Position]:
        return [] if self._default(node) is None else [_at(node)]

    def mutate(self, node: Any, index: int) -> Any:
        default = self._default(node)
        new = _written(node, f"({default})")
        rest = node.children[2:]
        return PythonNode("atom_expr", [new, *rest]) if rest else new

    @classmethod
    def examples(cls) -> Iterable[Any]:
        return ()


def by_kind(purposes: Sequence[str], defaults: Mapping[str, str]) -> dict[str, list[Operator]]:
    """Kind of fault -> what makes such faults.

    Args:
        purposes: of streams, of which one may be taken for another.
        defaults: of options, by name, as they are written.
    """
    theirs = OperatorProvider()
    kinds: dict[str, list[str]] = {}
    for prefix, named in (("ReplaceBinaryOperator", _BINARY), ("ReplaceUnaryOperator", _UNARY)):
        for kind, pairs in named.items():
            kinds.setdefault(kind, []).extend(f"{prefix}_{pair}" for pair in pairs)
    kinds["comparison"] = [f"ReplaceComparisonOperator_{pair}" for pair in _COMPARISONS]
    for kind, names in _OTHERS.items():
        kinds.setdefault(kind, []).extend(names)
    made: dict[str, list[Operator]] = {kind: [theirs[name]() for name in names] for kind, names in kinds.items()}
    made["dropped"] = [DroppedTerm(), DroppedCall(), DroppedStatement()]
    made["stream"] = [ExchangedStream(purposes)]
    made["option"] = [IgnoredOption(defaults)]
    return made
