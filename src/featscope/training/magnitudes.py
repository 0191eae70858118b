"""Which parameters of a module are weights that can be pruned, and which of them are smallest."""

from collections.abc import Iterable, Iterator, Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

_NORMS = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.modules.batchnorm._NormBase)
_BY_INPUT = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, nn.Embedding, nn.EmbeddingBag)
_LAYERS = (nn.Linear, nn.Bilinear, nn.modules.conv._ConvNd, nn.RNNBase, nn.RNNCellBase, nn.Embedding, nn.EmbeddingBag)
"""Whose weights are matrices or filters even where only one axis is longer than 1, such as one output's."""


def weights_of(module: nn.Module, stacked: bool) -> Iterator[tuple[str, Float[Tensor, "replica unit entry"]]]:
    """Weight matrices and filters by their names: of torch's layers, and what else has two axes longer than 1.

    Left out are parameters of norms, and factors of channels and single tokens, which are vectors whatever their shape;
    and those of which layers make their weight, see `making_weights`.

    Args:
        module: whose parameters are looked through.
        stacked: whether the first axis of all is that of replicas; without it there is one.
    """
    parts = dict(module.named_modules())
    for name, parameter in module.named_parameters():
        part, weight = parts[name.rpartition(".")[0]], parameter if stacked else parameter[None]
        if weight.ndim < 3 or isinstance(part, _NORMS):
            continue
        if _made_of(name, parts) is not None:
            continue
        if isinstance(part, _LAYERS) or sum(length > 1 for length in weight.shape[1:]) >= 2:
            yield name, weight.flatten(2)


def require_prunable(module: nn.Module, names: Iterable[str], by_neuron: bool, stacked: bool) -> None:
    """Raise `ValueError` where what is hidden is no neuron.

    Args:
        module: has the parameters.
        names: of those that `weights_of` takes.
        by_neuron: whether rows are hidden, and not single entries.
        stacked: as for `weights_of`.
    """
    parts = dict(module.named_modules())
    for name, part in parts.items() if by_neuron else ():
        if _is_by_input(part):
            raise ValueError(
                f"{name!r} is of the kind {type(part).__name__}, whose rows are inputs, not neurons: allowed is "
                "granularity = 'entry'. Or prune a part of the network that has none."
            )
        if isinstance(part, nn.MultiheadAttention) and part.in_proj_weight is None and part.in_proj_bias is not None:
            raise ValueError(
                f"{name!r} has weights of their own for queries, keys and values, and one bias for all: allowed is "
                "granularity = 'entry'. Or make it with bias=False."
            )
    for name in names:
        part, axes = parts[name.rpartition(".")[0]], module.get_parameter(name).ndim - stacked
        if by_neuron and axes > 2 and not isinstance(part, _LAYERS):
            raise ValueError(
                f"{name!r} has {axes} axes and is of no layer of torch, so that the first may be of experts or heads, "
                "not of neurons: allowed is granularity = 'entry'. Or prune a part of the network that has none."
            )


def making_weights(module: nn.Module) -> list[str]:
    """Layers, by their names, that make their weight of other parameters, such as by `weight_norm` or torch's `prune`:
    to hide these is not to hide weights."""
    parts = dict(module.named_modules())
    made = (_made_of(name, parts) for name, _ in module.named_parameters())
    return list(dict.fromkeys(name for name in made if name is not None))


def biases_by_weight(module: nn.Module) -> dict[str, list[str]]:
    """Biases of the neurons of each weight, by their names: ``bias`` of ``weight``, ``bias_ih_l0`` of ``weight_ih_l0``.

    Layers that share a weight have a bias each.
    """
    every = dict(module.named_parameters(remove_duplicate=False))
    first = {id(one): name for name, one in reversed(every.items())}  # as `named_parameters` calls it
    found: dict[str, list[str]] = {}
    for name, one in every.items():
        layer, dot, own = name.rpartition(".")
        bias = every.get(f"{layer}{dot}{own.replace('weight', 'bias')}") if "weight" in own else None
        if bias is not None and first[id(bias)] not in (known := found.setdefault(first[id(one)], [])):
            known.append(first[id(bias)])
    return found


def _is_by_input(part: nn.Module) -> bool:
    """Whether rows of a layer's weight are inputs, not neurons."""
    conv1d_of_transformers = type(part).__name__ == "Conv1D" and not isinstance(part, nn.Conv1d)
    return isinstance(part, _BY_INPUT) or conv1d_of_transformers


def _made_of(name: str, parts: Mapping[str, nn.Module]) -> str | None:
    """The layer that computes its weight from the parameter ``name``, by a parametrisation or by a hook of the older
    weight_norm, spectral_norm or prune; None where the parameter is the weight."""
    layer, inside, _ = f".{name}".partition(".parametrizations.")
    if inside:
        return layer[1:]
    layer, _, own = name.rpartition(".")
    whole, _, suffix = own.rpartition("_")  # ``weight`` of ``weight_g``, which is no parameter then
    return layer if suffix in ("g", "v", "orig") and isinstance(vars(parts[layer]).get(whole), Tensor) else None


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
