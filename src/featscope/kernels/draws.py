"""Random words in machine code, and numbers made of them, for many replicas in one call."""

from collections.abc import Callable, Sequence
from typing import get_args

from jaxtyping import Int, Shaped
from torch import Tensor

from featscope.kernels import philox
from featscope.kernels.loops import Code, Whole, Words, function


def fill(
    kind: philox.Kind, out: Shaped[Tensor, "replica number"], replicas: Int[Tensor, " replica"], address: Sequence[int]
) -> None:
    """Draw a multiple of four numbers for each replica.

    Args:
        kind: of numbers.
        out: receives them, 32 bits each; contiguous.
        replicas: their numbers, int32.
        address: number of the first block, then two words of the step and two of the key.
    """
    function(_WRITERS[kind])(out.data_ptr(), replicas.data_ptr(), len(out), out.shape[1] // 4, *address)


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
        with code.loop(count) as r:
            replica, row = replicas[r].lane(), out + r * blocks * 4
            with code.loop(blocks) as i:
                block = philox.words((i + first, replica, step, step_above), (key, key_above))
                for place, number in enumerate(philox.numbers(kind, [lane.word() for lane in block])):
                    row[i * 4 + place] = number

    return draw


_WRITERS = {kind: _writer(kind) for kind in get_args(philox.Kind)}
