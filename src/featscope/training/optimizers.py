"""Optimizers as options."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from featscope.numbers import Number, per_replica
from featscope.options import require


@dataclass(frozen=True)
class SGD:
    """Plain gradient descent with decoupled decay: w <- w - η (∇L + λ w).

    Attributes:
        lr: step size η.
        weight_decay: λ.
    """

    lr: float = 0.25
    weight_decay: float = 0.005

    def __post_init__(self) -> None:
        require(self, "lr", self.lr > 0, "> 0")
        require(self, "weight_decay", self.weight_decay >= 0, ">= 0")

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimizer of ``parameters``."""
        return GradientDescent(parameters, self.lr, self.weight_decay)


class GradientDescent(torch.optim.Optimizer):
    """w <- (1 - η λ) w - η ∇L. Unlike `torch.optim.SGD`, η and λ may differ between replicas.

    Args:
        parameters: what to optimise.
        lr: step size η, a number or one for each replica ``[replica]``, the first axis of the parameters.
        weight_decay: λ, likewise.
    """

    floats_per_replica = True

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: Number,
        weight_decay: Number,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            lr, decay = group["lr"], group["weight_decay"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                parameter.mul_(per_replica(1 - lr * decay, parameter))
                if isinstance(lr, Tensor):
                    parameter.addcmul_(per_replica(lr, parameter), parameter.grad, value=-1)
                else:
                    parameter.add_(parameter.grad, alpha=-lr)


@dataclass(frozen=True)
class TorchOptimizer:
    """Any optimizer of `torch.optim` by its name.

    Attributes:
        name: class name, such as "AdamW".
        lr: step size.
        weight_decay: its ``weight_decay`` argument.
    """

    name: str = "AdamW"
    lr: float = 1e-3
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        kind = getattr(torch.optim, self.name, None)
        known = isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)
        require(self, "name", known, "a class of torch.optim, such as 'AdamW' or 'SGD'")
        require(self, "lr", self.lr > 0, "> 0")
        require(self, "weight_decay", self.weight_decay >= 0, ">= 0")

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimizer of ``parameters``."""
        return getattr(torch.optim, self.name)(parameters, lr=self.lr, weight_decay=self.weight_decay)
