"""A module that is called with other tensors in place of some of its own."""

from collections.abc import Mapping
from itertools import chain
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call


def called_with(
    module: nn.Module, tensors: Mapping[str, Tensor], inputs: tuple[Any, ...], named: Mapping[str, Any]
) -> Any:
    """What ``module`` gives with ``tensors`` in place of its own of these names, wherever it has these.

    A part that stands in several places of a module is changed in one of them. To `functional_call`, which goes by
    names, it is several parts: afterwards it would have the others' tensors for good, and would train no more.

    Args:
        module: has its own tensors again afterwards.
        tensors: by names of its parameters and buffers, each by the first that it has.
        inputs: what it is called with.
        named: the same, by name.
    """
    own = chain(module.named_parameters(), module.named_buffers())
    others = {id(one): tensors[name] for name, one in own if name in tensors}
    places = {
        f"{place}.{name}" if place else name: others[id(one)]
        for place, part in module.named_modules()
        for name, one in chain(
            part.named_parameters(recurse=False, remove_duplicate=False),
            part.named_buffers(recurse=False, remove_duplicate=False),
        )
        if id(one) in others
    }
    return functional_call(module, places, inputs, dict(named), tie_weights=False)
