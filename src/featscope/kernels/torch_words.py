"""Random words in torch, and numbers made of them: to the bit what machine code draws."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float32, Int, Int32, Int64, Shaped
from torch import Tensor

from featscope.kernels import philox

_MASK = 2**32 - 1
_AT_ONCE = 2**14  # blocks, which caches hold


def fill(
    kind: philox.Kind, out: Shaped[Tensor, "replica ..."], replicas: Int[Tensor, " replica"], address: Sequence[int]
) -> None:
    """Draw a multiple of four numbers for each replica.

    Args:
        kind: of numbers.
        out: receives them, 32 bits each; contiguous.
        replicas: their numbers, int32.
        address: number of the first block, then two words of the step and two of the key.
    """
    out = out.view(len(out), -1)
    first, step, step_above, *key = address
    keys = Lanes(torch.tensor(philox.round_keys(key))[..., None, None]).unbind()
    blocks = torch.arange(first, first + out.shape[1] // 4)
    at_once = max(1, _AT_ONCE // max(1, len(out)))
    for some, places in zip(blocks.split(at_once), out.unflatten(1, (-1, 2, 2)).split(at_once, 1), strict=True):
        counter = torch.empty(2, 2, len(out), len(some), dtype=torch.int64)
        counter[0, 0], counter[0, 1], counter[1, 0], counter[1, 1] = some, step, replicas[:, None], step_above
        x, y = philox.words(Lanes(counter[0]), Lanes(counter[1]), keys)
        for place, number in zip(places.unbind(-1), philox.numbers(kind, x.word(), y.word()), strict=True):
            place.view(torch.int32).copy_(number.words.movedim(0, -1))


@dataclass(frozen=True)
class Lanes:
    """Pairs of words in the lower halves of 64 bits."""

    words: Int64[Tensor, "*round 2 #replica #block"]

    def unbind(self) -> "list[Lanes]":
        """Those of each round."""
        return [Lanes(words) for words in self.words]

    def __xor__(self, other: "Lanes") -> "Lanes":
        return Lanes(self.words ^ other.words)

    def wide_product(self, factors: tuple[int, int]) -> "tuple[Lanes, Lanes]":
        """The upper and the lower words of two products."""
        product = (self.words & _MASK) * torch.tensor(factors)[:, None, None]
        return Lanes(product >> 32), Lanes(product)

    def turned(self) -> "Lanes":
        """The second, and the first, of each pair."""
        return Lanes(self.words.flip(0))

    def word(self) -> "Word":
        """The lower words alone."""
        return Word(self.words.int())


@dataclass(frozen=True)
class Number:
    """Float32s."""

    values: Float32[Tensor, "2 replica block"]

    def __add__(self, other: "Number | float") -> "Number":
        return Number(self.values + _of(other))

    def __sub__(self, other: "Number | float") -> "Number":
        return Number(self.values - _of(other))

    def __mul__(self, other: "Number | float") -> "Number":
        return Number(self.values * _of(other))

    def bits(self) -> "Word":
        """Their 32 bits."""
        return Word(self.values.view(torch.int32))

    def sqrt(self) -> "Number":
        """Their roots, rounded correctly: torch's own root of float32 is not."""
        return Number(self.values.double().sqrt().float())


@dataclass(frozen=True)
class Word:
    """Words as int32, whose arithmetic is modulo 2³², too."""

    words: Int32[Tensor, "2 replica block"]

    def __add__(self, other: int) -> "Word":
        return Word(self.words + other)

    def __sub__(self, other: "Word | int") -> "Word":
        return Word(self.words - (other.words if isinstance(other, Word) else other))

    def __xor__(self, other: "Word") -> "Word":
        return Word(self.words ^ other.words)

    def __and__(self, other: int) -> "Word":
        return Word(self.words & other)

    def __lshift__(self, places: int) -> "Word":
        return Word(self.words << places)

    def __rshift__(self, places: int) -> "Word":
        return Word((self.words >> places) & (_MASK >> places))

    def number(self) -> Number:
        """The nearest float32s."""
        return Number((self.words.long() & _MASK).float())

    def signed(self) -> Number:
        """The nearest float32s of numbers from -2³¹ below 2³¹."""
        return Number(self.words.float())

    def as_float(self) -> Number:
        """The float32s with these bits."""
        return Number(self.words.view(torch.float32))

    def choose(self, then: Number, otherwise: Number) -> Number:
        """``then`` where the lowest bit is 1."""
        return Number(torch.where((self.words & 1).bool(), then.values, otherwise.values))


def _of(number: Number | float) -> Tensor | float:
    return number.values if isinstance(number, Number) else number
