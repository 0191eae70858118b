"""Which features a neuron's weights hold, when the features are known."""

from math import log, nan

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from featscope.numbers import as_written, in_double, unit_vectors
from featscope.probes.shapes import require_matrix, require_partners


def alignment(
    weight: Float[Tensor, "*replica neuron input"], dictionary: Float[Tensor, "*replica input feature"]
) -> Float[Tensor, "*replica neuron feature"]:
    """Cosines <w_i, M_j>/||w_i|| of neurons and (orthonormal) features; 0 for a neuron without weights."""
    norm = _norm(weight)[..., None]
    with as_written(weight.device):
        return (weight @ dictionary) / norm


def feature_energy(cosines: Float[Tensor, "*replica neuron feature"]) -> Float[Tensor, "*replica neuron"]:
    """||Mᵀw_i||²/||w_i||²: the share of a neuron's squared norm that lies in the feature space."""
    return cosines.square().sum(-1)


def singletons(cosines: Float[Tensor, "*replica neuron feature"]) -> Bool[Tensor, "*replica neuron"]:
    """Neurons that hold one feature: some squared cosine exceeds 1/2. Of a neuron whose cosines are NaN it is false.

    Raises:
        TypeError: cosines are no tensor.
        ValueError: they are a vector.
    """
    require_matrix("cosines", cosines, "[neuron, feature]")
    return cosines.square().amax(-1) > 0.5


def coverage(cosines: Float[Tensor, "*replica neuron feature"]) -> Float[Tensor, "*replica"]:
    """The share of features that are held by at least one singleton neuron; NaN where a cosine is NaN.

    Raises:
        ValueError: cosines are a vector.
    """
    require_matrix("cosines", cosines, "[neuron, feature]")
    return (cosines.square() > 0.5).any(-2).float().mean(-1).where(~cosines.isnan().any(-1).any(-1), nan)


def owner(cosines: Float[Tensor, "*replica neuron feature"]) -> Int[Tensor, "*replica neuron"]:
    """The feature that each neuron is most aligned with.

    Raises:
        TypeError: cosines are no tensor.
        ValueError: they are a vector.
    """
    require_matrix("cosines", cosines, "[neuron, feature]")
    return cosines.abs().argmax(-1)


def lucky(
    weight: Float[Tensor, "*replica neuron input"], dictionary: Float[Tensor, "*replica input feature"], constant: float
) -> Bool[Tensor, "*replica neuron feature"]:
    """Set_j of Wen & Li 2021, Definition B.1: neurons with c log d/d of their feature energy, or more, on feature j."""
    squares = (unit_vectors(weight).to(weight) @ dictionary).square()
    features = squares.shape[-1]
    return squares >= constant * log(features) / features * squares.sum(-1, keepdim=True)


def members(cosines: Float[Tensor, "*replica neuron feature"]) -> Bool[Tensor, "*replica neuron feature"]:
    """Which features belong to a neuron: those with at least half of its largest |cosine|.

    N_i of Wen & Li 2021 in the form that Appendix A.4 gives it late in training. A neuron without weights has none.

    Raises:
        TypeError: cosines are no tensor.
        ValueError: they are a vector.
    """
    require_matrix("cosines", cosines, "[neuron, feature]")
    size = cosines.abs()
    largest = size.amax(-1, keepdim=True)
    return (size >= largest / 2) & (largest > 0)


def amplitudes(
    weight: Float[Tensor, "*replica neuron input"], dictionary: Float[Tensor, "*replica input feature"]
) -> Float[Tensor, "*replica feature"]:
    """F_j: squared weights on each feature, summed over the singletons that hold it."""
    cosines = alignment(weight, dictionary)
    holds = one_hot(owner(cosines), cosines.shape[-1]) * singletons(cosines)[..., None]
    return ((weight @ dictionary).square() * holds).sum(-2)


def rank_correlation(
    before: Float[Tensor, "*replica neuron feature"], after: Float[Tensor, "*replica neuron feature"]
) -> Float[Tensor, "*replica neuron"]:
    """Spearman correlation of the features' |alignments| within each neuron, before and after.

    NaN where one of them is NaN, or where all of a neuron's are the same.

    Raises:
        ValueError: shapes differ.
    """
    require_partners(before, after)
    first, second = (r - r.mean(-1, keepdim=True) for r in (_ranks(before.abs()), _ranks(after.abs())))
    return (first * second).sum(-1) / (first.square().sum(-1) * second.square().sum(-1)).sqrt()


def _ranks(values: Float[Tensor, "*row entry"]) -> Float[Tensor, "*row entry"]:
    """Ranks within each row, equal entries at the mean of theirs; NaN in a row with a NaN."""
    values = values.contiguous()
    ordered = values.sort(-1).values.contiguous()
    below, up_to = (torch.searchsorted(ordered, values, side=side) for side in ("left", "right"))
    return ((below + up_to).double() / 2).masked_fill(values.isnan().any(-1, keepdim=True), nan)


def _norm(weight: Tensor) -> Tensor:
    """In float64 first: squares of what has decayed to 1e-20 are lost in float32."""
    return in_double(weight).norm(dim=-1).to(weight).clamp_min(torch.finfo(weight.dtype).tiny)
