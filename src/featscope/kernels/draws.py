"""Random words in machine code, and numbers made of them, for many replicas in one call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

from jaxtyping import Int, Shaped
from torch import Tensor

from featscope.kernels import philox
from featscope.kernels.loops import Code, Whole, Words, function


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
    rows = len(replicas)
    function(WRITERS[kind])(out.data_ptr(), replicas.data_ptr(), rows, out.numel() // (4 * rows), *address)


@dataclass(frozen=True)
class Lanes:
    """Two words in the lower halves of 64 bits."""

    first: Whole
    second: Whole

    def __xor__(self, other: "Lanes") -> "Lanes":
        return Lanes(self.first ^ other.first, self.second ^ other.second)

    def wide_product(self, factors: tuple[int, int]) -> "tuple[Lanes, Lanes]":
        """The upper and the lower words of two products."""
        one, other = self.first.wide_product(factors[0]), self.second.wide_product(factors[1])
        return Lanes(one[0], other[0]), Lanes(one[1], other[1])

    def turned(self) -> "Lanes":
        """The second, and the first."""
        return Lanes(self.second, self.first)


def _writer(kind: philox.Kind) -> Callable[..., None]:
    def draw(
        code: Code,
        out: Words,
        replicas: Words,
        count: Whole,
        blocks: Whole,
        first: Whole,
        step: Whole,
        step_above: Whole,
        key: Whole,
        key_above: Whole,
    ) -> None:
        keys = [Lanes(*of_round) for of_round in philox.round_keys((key, key_above))]
        with code.loop(count) as r:
            replica, row = replicas[r].lane(), out + r * blocks * 4
            with code.loop(blocks) as i:
                x, y = philox.words(Lanes(i + first, step), Lanes(replica, step_above), keys)
                for at, one, other in ((i * 4, x.first, y.first), (i * 4 + 2, x.second, y.second)):
                    row[at], row[at + 1] = philox.numbers(kind, one.word(), other.word())

    return draw


WRITERS = {kind: _writer(kind) for kind in get_args(philox.Kind)}
"""What writes the code of draws of each kind."""
