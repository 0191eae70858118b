"""Whether parts of training are what a gradient in closed form was derived from, so that it may stand in for them."""

from typing import Any

from torch import nn
from torch.nn.modules import module as hooks_of_torch

_OF_ALL = (
    hooks_of_torch._global_forward_hooks,
    hooks_of_torch._global_forward_pre_hooks,
    hooks_of_torch._global_backward_hooks,
    hooks_of_torch._global_backward_pre_hooks,
)


class AsDerived:
    """Functions that something stands in for, as they are when this is made.

    Attributes:
        places: class or module of each, and its name there.
    """

    def __init__(self, *places: tuple[Any, str]) -> None:
        self.places = places
        self._functions = self._now()

    def _now(self) -> list[Any]:
        return [getattr(owner, name) for owner, name in self.places]

    def holds(self, *parts: Any) -> bool:
        """Whether nobody has replaced one since, nor one of these objects has its own in place of its class's."""
        own = (
            name in vars(part)
            for part in parts
            for owner, name in self.places
            if isinstance(owner, type) and isinstance(part, owner)
        )
        return self._now() == self._functions and not any(own)


def does_what_its_class_says(module: nn.Module) -> bool:
    """Whether nobody hooked into its passes or the gradients of its parameters, or gave it a forward of its own."""
    passes = module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks
    names = "_backward_hooks", "_post_accumulate_grad_hooks"
    gradients = [getattr(one, name, None) for one in module.parameters() for name in names]
    return not (any(_OF_ALL) or any(passes) or any(gradients) or "forward" in vars(module))


def learns(part: Any) -> bool:
    """Whether a part beside the network has weights to train, which a closed form would leave out."""
    return isinstance(part, nn.Module) and any(one.requires_grad for one in part.parameters())
