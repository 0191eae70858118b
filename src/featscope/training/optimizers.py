"""Optimizers as options."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from featscope.kernels import suits
from featscope.numbers import Number, per_replica
from featscope.options import require


@runtime_checkable
class Optimizer(Protocol):
    """What training asks of an optimizer; those of `torch.optim` have it."""

    param_groups: list[dict[str, Any]]
    """Options, and under "params" the parameters that have them."""

    def step(self) -> Any:
        """One update of every parameter that has a gradient."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget gradients."""

    def state_dict(self) -> dict[str, Any]:
        """What it remembers: "state", parameter by parameter, and "param_groups"."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go back to a `state_dict`."""


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

    def build(self, parameters: Iterable[nn.Parameter]) -> "GradientDescent":
        """The optimizer of ``parameters``."""
        return GradientDescent(parameters, self.lr, self.weight_decay)


class GradientDescent:
    """w <- (1 - η λ) w - η ∇L, which remembers nothing. Unlike `torch.optim.SGD`, η and λ may differ between replicas.

    It is no `torch.optim.Optimizer`: the first of these imports torch's compiler, two seconds in every worker.

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
        self.param_groups: list[dict[str, Any]] = [{"params": list(parameters), "lr": lr, "weight_decay": weight_decay}]

    def step(self) -> None:
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    _descend(parameter.detach(), parameter.grad, group["lr"], group["weight_decay"])

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget gradients."""
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None if set_to_none else torch.zeros_like(parameter)

    def state_dict(self) -> dict[str, Any]:
        """No state."""
        return {"state": {}, "param_groups": self.param_groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing to go back to."""


def _descend(weight: Tensor, slope: Tensor, lr: Number, decay: Number) -> None:
    keep = 1 - lr * decay
    if (
        isinstance(lr, float)
        and isinstance(keep, float)
        and weight.is_contiguous()
        and slope.is_contiguous()
        and suits(weight, slope, gpu=True)
    ):
        from featscope.kernels.rows import descend

        descend(weight, slope, keep, lr)
        torch.autograd.graph.increment_version(weight)  # a backward pass of what was before is an error, as torch's
        return
    weight.mul_(per_replica(keep, weight))
    rate = per_replica(lr, weight)
    if isinstance(rate, Tensor):
        weight.addcmul_(rate, slope, value=-1)
    else:
        weight.add_(slope, alpha=-rate)


_BY_NUMBER = ("Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "SGD")
"""Optimizers whose step of a number depends on that number and its gradients alone."""
_OF_OLDER_RATES = ("ASGD",)
"""Of these, those whose step is not proportional to the step size."""
_DECOUPLED = "AdamW"
"""The one whose decay is no part of the gradient."""
_NUMBERS = ("lr", "weight_decay")
"""Options that may differ between replicas."""


@dataclass(frozen=True)
class TorchOptimizer:
    """An optimizer of `torch.optim` that treats each number by itself, by its name.

    Attributes:
        name: class name, such as "AdamW".
        lr: step size.
        weight_decay: its ``weight_decay`` argument.
    """

    name: str = "AdamW"
    lr: float = 1e-3
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        cure = "Others look at all replicas together, so that one would depend on which are trained beside it."
        require(self, "name", self.name in _BY_NUMBER, f"one of torch.optim's {', '.join(_BY_NUMBER)}", cure)
        require(self, "lr", self.lr > 0, "> 0")
        require(self, "weight_decay", self.weight_decay >= 0, ">= 0")

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimizer of ``parameters``."""
        kind = getattr(torch.optim, self.name) if self.name in _OF_OLDER_RATES else by_replica(self.name)
        return kind(parameters, lr=self.lr, weight_decay=self.weight_decay)


@cache
def by_replica(name: str) -> Any:
    """An optimizer of `torch.optim` by its name, such that η and λ may differ between replicas.

    A step is (1 - η λ) w - η d where decay is decoupled, else w - η d with the decay in d. Its direction d is the step
    at η = 1. Where both are plain numbers, the step is torch's own. The class is made when it is wanted: to name
    torch's optimizers imports its compiler, two seconds in a worker.
    """
    kind: Any = getattr(torch.optim, name)

    class ByReplica(kind):
        floats_per_replica = True

        def step(self, closure: Any = None) -> Any:
            if not any(isinstance(group[number], Tensor) for group in self.param_groups for number in _NUMBERS):
                return super().step(closure)
            return self._step_by_replica()

        @torch.no_grad()
        def _step_by_replica(self) -> None:
            numbers = [{number: group[number] for number in _NUMBERS} for group in self.param_groups]
            before = []
            for group in self.param_groups:
                for weight in group["params"]:
                    if weight.grad is None:
                        continue
                    if name != _DECOUPLED:
                        weight.grad.add_(per_replica(group["weight_decay"], weight) * weight)
                    keep = 1 - group["lr"] * group["weight_decay"] * (name == _DECOUPLED)
                    before.append((weight, weight * per_replica(keep, weight), per_replica(group["lr"], weight)))
                    weight.zero_()
                group.update(lr=1.0, weight_decay=0.0)
            super().step()
            for group, held in zip(self.param_groups, numbers, strict=True):
                group.update(held)
            for weight, kept, rate in before:
                weight.mul_(rate).add_(kept)

    ByReplica.__name__ = ByReplica.__qualname__ = name
    return ByReplica
