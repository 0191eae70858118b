"""Which parameters of a module are weights that can be pruned, and which of them are smallest."""

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

_NORMS = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.modules.batchnorm._NormBase)
_BY_INPUT = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, nn.Embedding, nn.EmbeddingBag)
_LAYERS = (nn.Linear, nn.Bilinear, nn.modules.conv._ConvNd, nn.RNNBase, nn.RNNCellBase, nn.Embedding, nn.EmbeddingBag)
"""Whose weights are matrices or filters even where only one axis is longer than 1, such as one output's."""


def weights_of(module: nn.Module, stacked: bool) -> Iterator[tuple[str, Float[Tensor, "replica unit entry"]]]:
    """Weight matrices and filters by their names: of torch's layers, and what else has two axes longer than 1.

    Left out are parameters of norms, and factors of channels and single tokens, which are vectors whatever their shape.

    Args:
        module: whose parameters are looked through.
        stacked: whether the first axis of all is that of replicas; without it there is one.
    """
    parts = dict(module.named_modules())
    for name, parameter in module.named_parameters():
        part, weight = parts[name.rpartition(".")[0]], parameter if stacked else parameter[None]
        if weight.ndim < 3 or isinstance(part, _NORMS):
            continue
        if isinstance(part, _LAYERS) or sum(length > 1 for length in weight.shape[1:]) >= 2:
            yield name, weight.flatten(2)


def is_by_input(part: nn.Module) -> bool:
    """Whether rows of a layer's weight are inputs, not neurons."""
    conv1d_of_transformers = type(part).__name__ == "Conv1D" and not isinstance(part, nn.Conv1d)
    return isinstance(part, _BY_INPUT) or conv1d_of_transformers


def all_but_smallest(
    magnitudes: Float[Tensor, "replica unit"], ratio: Float[Tensor, "replica"]
) -> Bool[Tensor, "replica unit"]:
    """All but the ``ratio * unit`` smallest of each row, rounded to whole units; of equal ones the first go."""
    units = magnitudes.shape[1]
    order = magnitudes.argsort(dim=1, stable=True)
    small = (ratio * units).round().long().to(order.device)
    large = torch.arange(units, device=order.device) >= small[:, None]
    return torch.zeros_like(large).scatter_(1, order, large)


def energy_along(weight: Float[Tensor, "replica unit entry"]) -> Float[Tensor, "replica unit"]:
    """Σ_k <w_k, w_i>²/||w_i||²; 0 for a neuron without weights."""
    products = weight @ weight.mT
    return products.square().sum(-1) / products.diagonal(dim1=-2, dim2=-1).clamp_min(torch.finfo(weight.dtype).tiny)
