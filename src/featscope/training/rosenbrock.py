"""Stiff ordinary differential equations, thousands of trajectories at once, each with its own step size.

Rodas (Hairer & Wanner, Solving Ordinary Differential Equations II, Section IV.7): a Rosenbrock method of order 4(3)
with six stages, L-stable and stiffly accurate. A step solves six linear systems with one matrix and needs no iteration.
The Jacobian is exact to rounding: differences along the imaginary axis subtract nothing (Squire & Trapp 1998).
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import reduce
from operator import mul
from typing import Any

import torch
from jaxtyping import Float, Inexact
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from featscope.kernels import Attempt, Tableau, backend

Rate = Callable[
    [Inexact[Tensor, "state trajectory"], Float[Tensor, "constant trajectory"]], Inexact[Tensor, "state trajectory"]
]
"""(states, constants) -> dy/dt of each trajectory, from its own state and constants alone.

It is asked for complex states too, and must be analytic: no absolute values, no comparisons. Of what may be
negative, powers above the cube are best written as products: torch loses a tiny imaginary part in its own. What it
takes from elsewhere, such as an attribute of its object, may be read once, before the first step: what changes is a
constant.
"""

_RODAS = Tableau(
    0.25,
    (
        (),
        (1.544000000000000,),
        (0.9466785280815826, 0.2557011698983284),
        (3.314825187068521, 2.896124015972201, 0.9986419139977817),
        (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950),
    ),
    (
        (),
        (-5.6688,),
        (-2.430093356833875, -0.2063599157091915),
        (-0.1073529058151375, -9.594562251023355, -20.47028614809616),
        (7.496443313967647, -10.24680431464352, -33.99990352819905, 11.70890893206160),
        (8.083246795921522, -7.981132988064893, -31.52159432874371, 16.31930543123136, -6.058818238834054),
    ),
)
_ORDER = 4
_IMAGINARY = 1e-30
_LEAST = 1e-16  # a step, of the whole
_FIRST = 1e-8
_PRODUCTS = range(1, 17)  # whole powers, or those of 1/z, that are taken as products
_BLOCK = 1024  # trajectories whose Jacobians fit in a core's cache
_SAFETY, _SHRINK, _GROW = 0.9, 0.2, 6.0


class StepSizeError(ArithmeticError):
    """A trajectory cannot be followed any further: it leaves the range of numbers, or its rate is not finite.

    Attributes:
        trajectory: which one.
    """

    def __init__(self, trajectory: int) -> None:
        super().__init__(trajectory)
        self.trajectory = trajectory

    def __str__(self) -> str:
        return f"trajectory {self.trajectory} cannot be followed any further"


class Trajectories:
    """Where trajectories are, each at its own time.

    Args:
        y: states, float64; changed in place, like the others.
        time: how long each has been followed.
        step: the step to try next.
    """

    def __init__(
        self,
        y: Float[Tensor, "state trajectory"],
        time: Float[Tensor, " trajectory"],
        step: Float[Tensor, " trajectory"],
    ) -> None:
        self.y, self.time, self.step = y, time, step

    def advance(
        self,
        attempt: Attempt,
        constants: Float[Tensor, "constant trajectory"],
        end: Float[Tensor, " trajectory"],
        *,
        rtol: float,
        atol: float,
    ) -> bool:
        """Try one step of each trajectory that has not reached its ``end``. Returns whether there was any.

        Args:
            attempt: one step, see `attempt_at`.
            constants: of each trajectory.
            end: time to stop at.
            rtol: tolerated error of a step relative to each |y_i|.
            atol: tolerated absolute error of a step.

        Raises:
            StepSizeError: a trajectory leaves the range of numbers, or its rate is not finite.
        """
        active = (self.time < end).nonzero()[:, 0]
        if not len(active):
            return False
        now, before = self.y.index_select(1, active), self.time[active]
        left = end[active] - before
        wanted = self.step[active]
        h = torch.minimum(wanted, left)
        after, error = attempt(now, constants.index_select(1, active), h)
        size = (error / (atol + rtol * torch.maximum(now.abs(), after.abs()))).square().mean(0).sqrt()
        size = torch.where(size.isfinite() & after.isfinite().all(0), size, torch.inf)
        accepted = size <= 1
        proposed = h * (_SAFETY * size.clamp_min(1e-10) ** (-1 / _ORDER)).clamp(_SHRINK, _GROW)
        # A step cut short by the end says nothing about how long one may be.
        self.step[active] = torch.where(accepted & (h < wanted), torch.maximum(proposed, wanted), proposed)
        done = active[accepted]
        self.y.index_copy_(1, active, torch.where(accepted, after, now))
        self.time[done] = torch.where(h == left, end[active], before + h)[accepted]
        lost = active[~accepted & (h < _LEAST * end[active]) | (h < left) & (before + h == before)]
        if len(lost):
            raise StepSizeError(int(lost[0]))
        return True


def integrate(
    rate: Rate,
    start: Float[Tensor, "state trajectory"],
    duration: Float[Tensor, " trajectory"],
    constants: Float[Tensor, "constant trajectory"] | None = None,
    *,
    rtol: float,
    atol: float,
) -> Float[Tensor, "state trajectory"]:
    """Where autonomous trajectories y' = rate(y) are after ``duration`` each. See `Trajectories`."""
    moving = Trajectories(start.clone(), torch.zeros_like(duration), duration * _FIRST)
    given = duration.new_zeros(0, len(duration)) if constants is None else constants
    attempt = attempt_at(rate, start, given)
    while moving.advance(attempt, given, duration, rtol=rtol, atol=atol):
        pass
    return moving.y


def attempt_at(
    rate: Rate, states: Float[Tensor, "state trajectory"], constants: Float[Tensor, "constant trajectory"]
) -> Attempt:
    """What tries a step of ``rate``: machine code on the CPU, or `reference` where it cannot be had.

    Args:
        rate: see `Rate`.
        states: some, of which there may be others when a step is tried.
        constants: of them.
    """
    if states.device.type == "cpu" and backend() == "llvm":
        from featscope.kernels.flow import compiled
        from featscope.kernels.trace import NotTraceableError

        with suppress(NotTraceableError):
            return compiled(rate, len(states), len(constants), _RODAS)
    return reference(rate)


def reference(rate: Rate) -> Attempt:
    """A step in torch."""

    def attempt(y: Tensor, constants: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        blocks = zip(y.split(_BLOCK, 1), constants.split(_BLOCK, 1), h.split(_BLOCK), strict=True)
        after, error = (torch.cat(part, 1) for part in zip(*(_try(rate, *block) for block in blocks), strict=True))
        return after, error

    return attempt


def _try(rate: Rate, y: Tensor, constants: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """One step of every trajectory, and the estimate of its error."""
    identity = torch.eye(len(y), dtype=y.dtype, device=y.device)[..., None]
    solve = _solver(identity / (_RODAS.gamma * h) - _jacobian(rate, y, constants))
    stages: list[Tensor] = []

    def weighted(weights: Sequence[float]) -> Tensor:
        return sum((weight * stage for weight, stage in zip(weights, stages, strict=True)), torch.zeros_like(y))

    for a, c in zip(_RODAS.a, _RODAS.c, strict=False):
        at = y + weighted(a)
        stages.append(solve(rate(at, constants) + weighted(c) / h))
    at = at + stages[-1]  # the last stage corrects the one before, and its own size is the error
    stages.append(solve(rate(at, constants) + weighted(_RODAS.c[-1]) / h))
    return at + stages[-1], stages[-1]


def _jacobian(rate: Rate, y: Tensor, constants: Tensor) -> Float[Tensor, "of by trajectory"]:
    n, count = y.shape
    directions = torch.eye(n, dtype=y.dtype, device=y.device)[..., None].expand(n, n, count)
    shifted = torch.complex(y[:, None].expand(n, n, count).contiguous(), _IMAGINARY * directions)
    taken: Any = nullcontext() if y.device.type == "cpu" else _PowersAsProducts()
    with taken:
        moved = rate(shifted.flatten(1), constants.repeat(1, n))
    return moved.imag.unflatten(1, (n, count)) / _IMAGINARY


class _PowersAsProducts(TorchDispatchMode):
    """Takes whole powers of complex numbers as products, as the CPU takes squares and cubes.

    CUDA takes them as exp(n log z). Beside z < 0 the logarithm holds π, and an imaginary part of 1e-30 is lost in how
    π is rounded: of a cube, the derivative becomes 1e14 times what it is.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """As in `featscope.training.memory`: else torch would import its compiler."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.pow.Tensor_Scalar and args[0].is_complex():
            base, power = args
            if isinstance(power, int | float) and power != 1 and abs(power) in _PRODUCTS:
                product = reduce(mul, [base] * int(abs(power)))
                return product if power > 0 else product.reciprocal()
        return func(*args, **(kwargs or {}))


def _solver(matrix: Float[Tensor, "state state trajectory"]) -> Callable[[Tensor], Tensor]:
    factors = torch.linalg.lu_factor(matrix.permute(2, 0, 1))
    return lambda b: torch.linalg.lu_solve(*factors, b.mT[..., None])[..., 0].mT
