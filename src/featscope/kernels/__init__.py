"""Machine code for what torch does in many small operations.

Equations of flows are written from their one statement in torch (`flow`), what lies between the matrix products of
training number by number (`rows`), random numbers from one statement for both (`philox`).

`FEATSCOPE_KERNELS=torch` runs everything in torch instead; results differ by rounding, random numbers not at all.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from featscope.options import ConfigError

BACKENDS = ("llvm", "torch")
"""What runs them: machine code that LLVM makes, or torch."""

Attempt = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""(states [state, trajectory], constants [constant, trajectory], lengths of the step [trajectory]) -> where a step of a
differential equation ends, and its estimated error."""


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


def suits(numbers: Tensor) -> bool:
    """Whether machine code is wanted for an array, and it is one of float32 on the processor."""
    return numbers.dtype == torch.float32 and numbers.is_cpu and not numbers.requires_grad and backend() == "llvm"
