"""Machine code for what torch does in many small operations.

Equations of flows are written from their one statement in torch (`flow`), what lies between the matrix products of
training number by number (`rows`), the products themselves (`products`), random numbers from one statement for both
(`philox`).

`FEATSCOPE_KERNELS=torch` runs everything in torch instead; results differ by rounding, random numbers not at all.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.options import ConfigError

BACKENDS = ("llvm", "torch")
"""What runs them: machine code that LLVM makes, or torch."""

_NARROWEST = 6  # rows or columns: of two, torch takes a half to a tenth of our time
_LEAST = 2**17  # sums of products a replica: of 10,000, torch takes half of our time

Attempt = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""(states [state, trajectory], constants [constant, trajectory], lengths of the step [trajectory]) -> where a step of a
differential equation ends, and its estimated error."""


LossAndGradient = tuple[Float[Tensor, "replica"], Float[Tensor, "replica neuron input"]]
"""The loss of each replica, and its gradient by the weights."""


@dataclass(frozen=True)
class Tableau:
    """A Rosenbrock method whose last two stages correct the point of the one before.

    Attributes:
        gamma: γ.
        a: weights of stages before in the point of each stage but the last.
        c: their weights, over the length of the step, in the right-hand side of each.
    """

    gamma: float
    a: Sequence[Sequence[float]]
    c: Sequence[Sequence[float]]


def backend() -> str:
    """What runs them, one of `BACKENDS`.

    Raises:
        ConfigError: the environment names another.
    """
    chosen = os.environ.get("FEATSCOPE_KERNELS", BACKENDS[0])
    if chosen not in BACKENDS:
        raise ConfigError(f"FEATSCOPE_KERNELS = {chosen!r} is out of range: allowed is {' or '.join(BACKENDS)}")
    return chosen


def suits(*arrays: Tensor, gpu: bool = False) -> bool:
    """Whether machine code is wanted, and arrays are of float32 on the processor; or, with ``gpu``, all on a GPU."""
    if backend() != "llvm":
        return False
    here = True
    for array in arrays:  # in a loop: a step of a small network asks twice, and takes 60 microseconds
        if array.dtype != torch.float32 or array.requires_grad:
            return False
        here = here and array.is_cpu
    return here or (gpu and _on_a_gpu(*arrays))


def _on_a_gpu(*arrays: Tensor) -> bool:
    if not all(array.is_cuda for array in arrays):
        return False
    from featscope.kernels import gpu

    return gpu.suits(arrays[0].device)


def _lie(a: Tensor, b: Tensor, onto: Tensor | None) -> bool:
    """Whether rows or columns of b are contiguous, and rows of ``onto``, which is as large as the product."""
    if onto is not None and (onto.stride(2) != 1 or onto.shape != (*a.shape[:2], b.shape[2])):
        return False
    return 1 in b.stride()[1:]


def _is_worth_a_tile(a: Tensor, b: Tensor) -> bool:
    """Whether a product is one, and large enough, and no strip, for our tiles to be as fast as torch."""
    (replicas, rows, depth), columns = a.shape, b.shape[2]
    return b.shape[:2] == (replicas, depth) and min(rows, columns) >= _NARROWEST and rows * depth * columns >= _LEAST


def multiply(
    a: Float[Tensor, "replica row depth"],
    b: Float[Tensor, "replica depth column"],
    onto: Float[Tensor, "replica row column"] | None = None,
    times: float = 1.0,
) -> Float[Tensor, "replica row column"]:
    """a b; or a b + times · onto, in place of ``onto``.

    In machine code where that suits all and is faster, else by torch.
    """
    given = (a, b) if onto is None else (a, b, onto)
    if _is_worth_a_tile(a, b) and suits(*given) and _lie(a, b, onto):
        from featscope.kernels.products import multiplied

        return multiplied(a, b, onto, times)
    return torch.bmm(a, b) if onto is None else torch.baddbmm(onto, a, b, beta=times, out=onto)
