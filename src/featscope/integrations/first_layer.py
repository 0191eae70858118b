"""Which layer of a model is the first, at which the gradient outer product is compared."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from featscope.modules import evaluating
from featscope.probes.gradient_outer_product import has_gram

_NO_LAYERS = (nn.Embedding, nn.EmbeddingBag, nn.LayerNorm, nn.RMSNorm)  # though their weights may be matrices


def begun(model: nn.Module, run: Callable[[], object]) -> None:
    """Give lazy layers their weights, by random numbers as they come: a look draws from seed 0, and would each time."""
    if any(isinstance(one, UninitializedParameter) for one in model.parameters()):
        with evaluating(model), torch.no_grad():
            run()


def first_layer(model: nn.Module, run: Callable[[], object]) -> str:
    """The first layer to run, if it has a Gram matrix; "", with a warning, if it has none, or none is seen.

    A layer is first that is done first: parts around it, which begin before, may hold what they add after it.

    Args:
        model: holds the layer; it is not one itself.
        run: runs the model once.
    """
    ran: list[nn.Module] = []

    def note(part: nn.Module, _inputs: Any, _output: Any) -> None:
        ran.append(part)

    names = {part: name for name, part in model.named_modules() if name and "parametrizations" not in name.split(".")}
    hooks = [part.register_forward_hook(note) for part in names]
    try:
        with evaluating(model), torch.no_grad():
            run()
    finally:
        for hook in hooks:
            hook.remove()
    first = next((part for part in ran if _is_layer(part)), None)
    if first is not None and has_gram(first):
        return names[first]
    if first is not None:
        kind = type(first).__name__
        why = f"the first layer is {names[first]!r}, a {kind}, which is no linear layer and no convolution of one group"
    elif any(map(_is_layer, names)):
        why = "no layer runs in a way that hooks hear of, as within a traced model"
    else:
        return ""
    warnings.warn(
        f'layer = None: {why}, and gradient_agreement is left out. Say with `layer` where to look, or layer="" for '
        "nowhere.",
        stacklevel=3,
    )
    return ""


def _is_layer(part: nn.Module) -> bool:
    return has_gram(part) or _has_matrix(part)


def _has_matrix(part: nn.Module) -> bool:
    """Whether it has weights from several inputs to several outputs, its parts left aside."""
    own = [*part.parameters(recurse=False), getattr(part, "weight", None)]
    shapes = [one.shape for one in own if isinstance(one, Tensor) and one.ndim > 1]
    return not isinstance(part, _NO_LAYERS) and any(
        shape[0] > 1 and sum(length > 1 for length in shape) > 1 for shape in shapes
    )
