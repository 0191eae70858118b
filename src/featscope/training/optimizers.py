"""Optimizers as options."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn

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

    def __call__(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimizer of ``parameters``."""
        # Without momentum, adding λ w to the gradient is the same update as decoupled decay.
        return torch.optim.SGD(parameters, lr=self.lr, weight_decay=self.weight_decay)


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

    def __call__(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimizer of ``parameters``."""
        return getattr(torch.optim, self.name)(parameters, lr=self.lr, weight_decay=self.weight_decay)
