"""Arithmetic written in torch, traced into the operations that it does on numbers.

A `Traced` tensor holds the number of an expression for each of its entries. What only moves entries, such as a view or
an index, moves their numbers; what calculates adds expressions. So a program's one statement, in torch, also gives its
derivatives and its code for other compilers.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod, sqrt
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
ZERO, ONE = 0, 1
"""Numbers of the constants 0 and 1, so that tensors that are made of zeros or ones already hold them."""

Expression = tuple[str, float, float]
"""("constant", its value, 0), ("input", its number, 0), or an operation and the numbers of what it is of."""

_MOVES = {
    *(aten.view, aten._unsafe_view, aten.reshape, aten.expand, aten.unsqueeze, aten.squeeze),
    *(aten.permute, aten.transpose, aten.t, aten.clone, aten.detach, aten.alias),
    *(aten.index, aten.index_select, aten.select, aten.slice, aten.diagonal),
    *(aten.split, aten.split_with_sizes, aten.unbind, aten.cat, aten.stack),
    *(aten.diag_embed, aten.new_zeros, aten.zeros_like, aten.ones_like),
}


class NotTraceableError(Exception):
    """A program does something that `Traced` does not know: comparisons, say, or special functions."""


class Expressions:
    """Expressions by number, none of them twice, and simpler ones where a constant allows it."""

    def __init__(self) -> None:
        self.all: list[Expression] = []
        self._numbers: dict[Expression, int] = {}
        self.constant(0.0), self.constant(1.0)

    def constant(self, value: float) -> int:
        """The number of a constant."""
        return self._number(("constant", float(value), 0))

    def input(self, place: int) -> int:
        """The number of an input."""
        return self._number(("input", place, 0))

    def value(self, one: int) -> float | None:
        """That of a constant; None of anything else."""
        kind, value, _ = self.all[one]
        return value if kind == "constant" else None

    def add(self, a: int, b: int) -> int:
        """a + b."""
        if a == ZERO or b == ZERO:
            return a if b == ZERO else b
        return self._operation("+", *sorted((a, b)))

    def multiply(self, a: int, b: int) -> int:
        """a b."""
        if ZERO in (a, b):
            return ZERO
        if ONE in (a, b):
            return a if b == ONE else b
        return self._operation("*", *sorted((a, b)))

    def negative(self, a: int) -> int:
        """-a."""
        return self.multiply(self.constant(-1.0), a)

    def divide(self, a: int, b: int) -> int:
        """a / b."""
        return a if a == ZERO or b == ONE else self._operation("/", a, b)

    def root(self, a: int) -> int:
        """The square root of a."""
        return self._operation("sqrt", a, a)

    def power(self, a: int, n: float) -> int:
        """a to the n, a whole number."""
        if n != int(n):
            raise NotTraceableError(f"a power of {n}")
        if n < 0:
            return self.divide(ONE, self.power(a, -n))
        half = self.power(a, n // 2) if n > 1 else ONE
        return self.multiply(self.multiply(half, half), a if n % 2 else ONE)

    def derivatives(self) -> list[dict[int, int]]:
        """Of each expression by each input that it depends on: input -> number of the derivative."""
        found: list[dict[int, int]] = []
        for here in range(len(self.all)):  # derivatives come after: they are not asked for theirs
            kind, left, right = self.all[here]
            a, b = int(left), int(right)
            if kind == "input":
                found.append({a: ONE})
            elif kind == "constant":
                found.append({})
            else:
                by_a, by_b = self._slopes(kind, here, a, b)
                slope: dict[int, int] = {}
                for of, by in ((a, by_a), (b, by_b)):
                    for place, inner in found[of].items() if by != ZERO else ():
                        slope[place] = self.add(slope.get(place, ZERO), self.multiply(by, inner))
                found.append(slope)
        return found

    def _slopes(self, kind: str, here: int, a: int, b: int) -> tuple[int, int]:
        """Derivatives of an operation by its operands."""
        if kind == "+":
            return ONE, ONE
        if kind == "*":
            return b, a
        if kind == "/":
            return self.divide(ONE, b), self.negative(self.divide(here, b))
        return self.divide(self.constant(0.5), here), ZERO

    def _operation(self, kind: str, a: int, b: int) -> int:
        x, y = self.value(a), self.value(b)
        if x is not None and y is not None:
            done = {"+": lambda: x + y, "*": lambda: x * y, "/": lambda: x / y, "sqrt": lambda: sqrt(x)}
            return self.constant(done[kind]())
        return self._number((kind, a, b))

    def _number(self, expression: Expression) -> int:
        if expression not in self._numbers:
            self._numbers[expression] = len(self.all)
            self.all.append(expression)
        return self._numbers[expression]


class Traced(Tensor):
    """A float64 tensor of expressions.

    Args:
        numbers: of what stands at each place.
        of: what they number.
    """

    numbers: Tensor
    of: Expressions

    @staticmethod
    def __new__(cls, numbers: Tensor, of: Expressions) -> "Traced":
        made = torch.Tensor._make_wrapper_subclass(cls, numbers.shape, dtype=torch.float64, device=numbers.device)
        made.numbers, made.of = numbers, of
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Traced({self.numbers})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """Move expressions, or make new ones.

        Raises:
            NotTraceableError: it is neither known to move nor to calculate.
        """
        of = next(one.of for one in _flat(args) if isinstance(one, Traced))
        if (which := func.overloadpacket) in _MOVES:
            if (kwargs or {}).get("dtype") not in (None, torch.float64):
                raise NotTraceableError(str(func))
            moved = func(*_map(args, lambda one: _numbers(one, of)))
            return _map(moved, lambda one: Traced(one, of))
        calculate: dict[Any, Callable[..., int]] = {
            aten.mul: of.multiply,
            aten.add: of.add,
            aten.sub: lambda a, b: of.add(a, of.negative(b)),
            aten.div: of.divide,
            aten.neg: of.negative,
            aten.sqrt: of.root,
            aten.rsqrt: lambda a: of.divide(ONE, of.root(a)),
            aten.reciprocal: lambda a: of.divide(ONE, a),
        }
        if which is aten.pow and not isinstance(args[1], Tensor):
            return _each(lambda a: of.power(a, args[1]), of, args[0])
        if which is aten.sum:
            return _sum(of, *args)
        if which not in calculate or kwargs:
            raise NotTraceableError(str(func))
        return _each(calculate[which], of, *args)


def _each(operation: Callable[..., int], of: Expressions, *args: Any) -> Traced:
    """An operation on the entries of tensors that are broadcast."""
    whole = torch.broadcast_tensors(*(_numbers(_double(one), of) for one in args))
    found = [operation(*entries) for entries in zip(*(one.flatten().tolist() for one in whole), strict=True)]
    return Traced(torch.tensor(found, dtype=torch.long).view(whole[0].shape), of)


def _sum(of: Expressions, summed: Traced, over: Sequence[int] | None = None, keep: bool = False) -> Traced:
    numbers = summed.numbers
    axes = range(numbers.dim()) if over is None else [axis % numbers.dim() for axis in over]
    left = [axis for axis in range(numbers.dim()) if axis not in axes]
    shape = [numbers.shape[axis] for axis in left]
    rows = numbers.permute(*left, *axes).reshape(prod(shape), -1).tolist()
    totals = torch.tensor([reduce(of.add, row, ZERO) for row in rows], dtype=torch.long)
    return Traced(
        totals.view([1 if axis in axes else n for axis, n in enumerate(numbers.shape)] if keep else shape), of
    )


def _numbers(one: Any, of: Expressions) -> Any:
    """Numbers of a tensor's expressions. Values of one that is not traced are constants, but for those of an index."""
    if isinstance(one, Traced):
        return one.numbers
    if isinstance(one, Tensor) and one.is_floating_point():
        constants = [of.constant(value) for value in one.flatten().tolist()]
        return torch.tensor(constants, dtype=torch.long).view(one.shape)
    return one


def _double(one: Any) -> Tensor:
    return one if isinstance(one, Traced) else torch.as_tensor(one, dtype=torch.float64)


def _map(one: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(one, (list, tuple)):
        return type(one)(_map(inner, change) for inner in one)
    return change(one) if isinstance(one, Tensor) else one


def _flat(one: Any) -> list[Any]:
    return [inner for part in one for inner in _flat(part)] if isinstance(one, (list, tuple)) else [one]
