"""Which features a neuron's weights hold, when the features are known."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def alignment(
    weight: Float[Tensor, "*replica neuron input"], dictionary: Float[Tensor, "*replica input feature"]
) -> Float[Tensor, "*replica neuron feature"]:
    """Cosines <w_i, M_j>/||w_i|| of neurons and (orthonormal) features; 0 for a neuron without weights."""
    return (weight @ dictionary) / _norm(weight)[..., None]


def feature_energy(cosines: Float[Tensor, "*replica neuron feature"]) -> Float[Tensor, "*replica neuron"]:
    """||Mᵀw_i||²/||w_i||²: the share of a neuron's squared norm that lies in the feature space."""
    return cosines.square().sum(-1)


def singletons(cosines: Float[Tensor, "*replica neuron feature"]) -> Bool[Tensor, "*replica neuron"]:
    """Neurons that hold one feature: some squared cosine exceeds 1/2."""
    return cosines.square().amax(-1) > 0.5


def coverage(cosines: Float[Tensor, "*replica neuron feature"]) -> Float[Tensor, "*replica"]:
    """The share of features that are held by at least one singleton neuron."""
    return (cosines.square() > 0.5).any(-2).float().mean(-1)


def owner(cosines: Float[Tensor, "*replica neuron feature"]) -> Int[Tensor, "*replica neuron"]:
    """The feature that each neuron is most aligned with."""
    return cosines.abs().argmax(-1)


def rank_correlation(
    before: Float[Tensor, "*replica neuron feature"], after: Float[Tensor, "*replica neuron feature"]
) -> Float[Tensor, "*replica neuron"]:
    """Spearman correlation of the features' |alignments| within each neuron, before and after."""
    ranks = [a.abs().argsort(-1).argsort(-1).double() for a in (before, after)]
    centred = [r - r.mean(-1, keepdim=True) for r in ranks]
    scale = torch.linalg.vector_norm(centred[0], dim=-1) * torch.linalg.vector_norm(centred[1], dim=-1)
    return (centred[0] * centred[1]).sum(-1) / scale


def _norm(weight: Tensor) -> Tensor:
    return weight.norm(dim=-1).clamp_min(torch.finfo(weight.dtype).tiny)
