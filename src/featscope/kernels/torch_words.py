"""Random words in torch, and numbers made of them: to the bit what machine code draws, on any device."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float32, Int, Int32, Int64, Shaped
from torch import Tensor

from featscope.kernels import philox

_WORD = 2**32 - 1
_AT_ONCE = 2**15  # blocks, which caches hold


def fill(
    kind: philox.Kind, out: Shaped[Tensor, "replica number"], replicas: Int[Tensor, " replica"], address: Sequence[int]
) -> None:
    """Draw a multiple of four numbers for each replica.

    Args:
        kind: of numbers.
        out: receives them, 32 bits each.
        replicas: their numbers, int32.
        address: number of the first block, then two words of the step and two of the key.
    """
    first, *others = address
    step, step_above, key, key_above = (Lane(torch.tensor([[word]], device=out.device)) for word in others)
    replica = Lane(replicas.long()[:, None])
    blocks = torch.arange(first, first + out.shape[1] // 4, device=out.device)
    at_once = max(1, _AT_ONCE // len(out)) if out.is_cpu else len(blocks)
    for some, places in zip(blocks.split(at_once), out.unflatten(1, (-1, 4)).split(at_once, 1), strict=True):
        block = philox.words((Lane(some[None]), replica, step, step_above), (key, key_above))
        numbers = philox.numbers(kind, [Word(lane.words.int()) for lane in block])
        for place, number in zip(places.unbind(-1), numbers, strict=True):
            place.view(torch.int32).copy_(number.words)


@dataclass(frozen=True)
class Lane:
    """Words in the lower halves of 64 bits."""

    words: Int64[Tensor, "#replica #block"]

    def __add__(self, other: int) -> "Lane":
        return Lane(self.words + other)

    def __xor__(self, other: "Lane") -> "Lane":
        return Lane(self.words ^ other.words)

    def wide_product(self, factor: int) -> "tuple[Lane, Lane]":
        """The upper and the lower word of a product."""
        product = (self.words & _WORD) * factor
        return Lane(product >> 32), Lane(product)


@dataclass(frozen=True)
class Number:
    """Float32s."""

    values: Float32[Tensor, "replica block"]

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

    words: Int32[Tensor, "replica block"]

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
        return Word((self.words >> places) & (_WORD >> places))

    def number(self) -> Number:
        """The nearest float32s."""
        return Number((self.words.long() & _WORD).float())

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
