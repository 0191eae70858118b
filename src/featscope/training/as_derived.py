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
        self._owners, self._names = zip(*places, strict=True)
        self._functions = self._now()
        self._names_in: dict[type, frozenset[str]] = {}

    def _now(self) -> tuple[Any, ...]:
        return (*map(getattr, self._owners, self._names),)

    def holds(self, *parts: Any) -> bool:
        """Whether nobody has replaced one since, nor one of these objects has its own in place of its class's.

        A step of a small network takes 60 microseconds, this two.
        """
        if self._now() != self._functions:
            return False
        for part in parts:
            names = self._names_in.get(type(part))
            if names is None:
                names = self._names_in[type(part)] = self._names_of(type(part))
            if names and not names.isdisjoint(vars(part)):
                return False
        return True

    def _names_of(self, kind: type) -> frozenset[str]:
        """Those that objects of a class could have of their own."""
        return frozenset(name for owner, name in self.places if isinstance(owner, type) and issubclass(kind, owner))


def does_what_its_class_says(module: nn.Module) -> bool:
    """Whether nobody hooked into its passes or the gradients of its own parameters, or gave it a forward of its own."""
    passes = module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks
    if any(_OF_ALL) or any(passes) or "forward" in vars(module):
        return False
    return not any(
        one is not None and (one._backward_hooks or getattr(one, "_post_accumulate_grad_hooks", None))
        for one in module._parameters.values()
    )


def learns(part: Any) -> bool:
    """Whether a part beside the network has weights to train, which a closed form would leave out."""
    if not isinstance(part, nn.Module):
        return False
    own = any(one is not None and one.requires_grad for one in part._parameters.values())
    return own or any(map(learns, part._modules.values()))
