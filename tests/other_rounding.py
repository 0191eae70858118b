"""Arithmetic that rounds as another device's may: what it moves, no test can ask two devices to agree on."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_EXACT = {
    "abs",
    "add",
    "amax",
    "amin",
    "cat",
    "ceil",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clone",
    "diag_embed",
    "div",
    "embedding",
    "fill",
    "floor",
    "fmod",
    "gather",
    "index",
    "index_select",
    "lift_fresh",
    "masked_fill",
    "max",
    "maximum",
    "min",
    "minimum",
    "mul",
    "neg",
    "relu",
    "remainder",
    "round",
    "rsub",
    "scatter",
    "sign",
    "sort",
    "sqrt",
    "stack",
    "sub",
    "threshold_backward",
    "topk",
    "tril",
    "triu",
    "trunc",
    "where",
    "zero",
}
"""Kernels that give the same bits everywhere, as IEEE 754 asks of sums of two, and as choosing and copying does."""


class OtherRounding(TorchDispatchMode):
    """Moves what sums, products of matrices and functions such as exp give by up to one unit in the last place.

    Args:
        seed: of which ones it moves.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run ``func``, and round otherwise."""
        out = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[-1]
        given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor) and _inexact(one)]
        if given and not func.is_view and name.rstrip("_") not in _EXACT and "copy" not in name:
            for one in tree_leaves(out):
                if isinstance(one, Tensor) and _inexact(one) and one.numel():
                    self._move(torch.view_as_real(one) if one.is_complex() else one)
        return out

    def _move(self, values: Tensor) -> None:
        ulps = torch.randint(-1, 2, values.shape, generator=self._generator)
        values.mul_(1 + torch.finfo(values.dtype).eps * ulps.to(values.dtype))


def _inexact(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()
