"""How networks of `fourier-circuits` are trained: full batches, the penalty of Definition 4.1, and AdamW."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from math import cos, pi
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.numbers import Number, per_replica
from featscope.options import require
from featscope.streams import Draws
from featscope.training.objectives import Ready
from featscope.training.optimizers import by_replica

_WARM_UP = 10


@dataclass(frozen=True)
class PenalisedCrossEntropy(Ready):
    """Mean cross-entropy of the points to train on, all of them at every step, and λ ‖θ‖ (Definition 4.1).

    Attributes:
        penalty: λ, on the norm to its first power; 0 where weights decay instead.
    """

    finite: ClassVar[bool] = True
    floats_per_replica = True

    penalty: float = 5e-3

    def __post_init__(self) -> None:
        require(self, "penalty", self.penalty >= 0, ">= 0")

    def __call__(self, learner: Any, source: Any, draws: Draws) -> Float[Tensor, "replica"]:
        """The loss of each replica."""
        norm = learner.norm()
        return source.cross_entropy(learner.on_all_points()) + per_replica(self.penalty, norm) * norm


@dataclass(frozen=True)
class DecayingAdamW:
    """AdamW with β = (0.9, 0.98), ten steps of warm-up, and a step size that falls along a cosine.

    Attributes:
        lr: largest step size.
        last: the smallest, over the largest, from step ``over`` on.
        over: steps until then.
        weight_decay: decoupled.
    """

    floats_per_replica: ClassVar[bool] = True

    lr: float = 5e-3
    last: float = 0.2
    over: int = 1500
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        require(self, "lr", self.lr > 0, "> 0")
        require(self, "last", 0 <= self.last <= 1, ">= 0 and <= 1")
        require(self, "over", self.over >= 1, ">= 1")
        require(self, "weight_decay", self.weight_decay >= 0, ">= 0")

    def at(self, step: int) -> Number:
        """Step size of step number ``step``, from 0."""
        done = min(step / self.over, 1.0)
        return self.lr * min(1.0, (step + 1) / _WARM_UP) * (self.last + (1 - self.last) * (1 + cos(pi * done)) / 2)

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimizer of ``parameters``."""
        group = {"params": list(parameters), "schedule": self}
        return _scheduled()([group], lr=self.lr, betas=(0.9, 0.98), weight_decay=self.weight_decay)


@cache
def _scheduled() -> Any:
    """The class, made when it is wanted, see `by_replica`."""

    class Scheduled(by_replica("AdamW")):  # type: ignore[misc]
        """AdamW whose step size follows from the steps that it remembers, so that a resumed run goes on as it was."""

        def step(self, closure: Any = None) -> Any:
            done = next((int(state["step"]) for state in self.state.values()), 0)
            for group in self.param_groups:
                group["lr"] = group["schedule"].at(done)
            return super().step(closure)

    return Scheduled
