"""What is told where pruning would leave out weights, or training would, without a word."""

from collections.abc import Mapping

import torch
from jaxtyping import Bool
from torch import Tensor, nn

IN_A_PART = (
    "{!r} is a Pruner, which has no parameters: an optimizer and a checkpoint of what holds it lack the weights of the "
    "{} within, unless that is a part, too. Make it one, before the Pruner; or let it stand in the Pruner's place, and "
    "put `with pruner.hidden():` around loss and backward; or give an optimizer its parameters, and save it beside."
)
LEFT_WHOLE = (
    "{} of {} make their weight of other parameters, as by weight_norm, and are left whole: to prune them, take that "
    "off first, by torch.nn.utils.parametrize.remove_parametrizations or, of the older form, remove_weight_norm"
)
_WRITTEN = (
    "{!r} was changed while weights were hidden, and what was changed is lost, as all weights are put back: allowed is "
    "to step the optimizer after `show`, or below `with pruner.hidden():`"
)


def require_shown(whole: Mapping[str, Tensor]) -> None:
    """Refuse to choose what is pruned while ``whole`` has the weights that are hidden."""
    if whole:
        raise ValueError(
            "pruned weights are hidden, and as zeros they would be chosen again for good: allowed is a call after "
            "show(), or below `with pruner.hidden():`"
        )


def why_lost(module: nn.Module, whole: Mapping[str, Tensor]) -> str:
    """What to say where hidden weights are neither 0 nor as they were, as after a step; "" where all are.

    Embeddings that shorten their rows where they look them up may do so.

    Args:
        module: has the weights, some of them hidden.
        whole: its weights and buffers as they were before they were hidden, by name.
    """
    shortened = {id(part.weight) for part in module.modules() if getattr(part, "max_norm", None) is not None}
    weights = {name: one for name, one in module.named_parameters() if name in whole and id(one) not in shortened}
    changed = {name: _changed(weight, whole[name]) for name, weight in weights.items()}
    places = {one.device for one in changed.values()}
    if not any(bool(torch.stack([one for one in changed.values() if one.device == place]).any()) for place in places):
        return ""  # a GPU is waited for once
    return _WRITTEN.format(next(name for name, one in changed.items() if one))


def _changed(weight: Tensor, whole: Tensor) -> Bool[Tensor, ""]:
    """Whether some entry is neither 0 nor as in ``whole``; NaN is as NaN."""
    return ((weight != whole) & (weight != 0) & ~(weight.isnan() & whole.isnan())).any()
