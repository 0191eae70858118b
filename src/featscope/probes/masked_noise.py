"""What masked noise does to neurons: where it pulls them, and how often it makes them fire.

Wen & Li 2021 (arXiv 2105.15134), Lemmas B.5, B.6 and D.4; closed forms are `featscope.theory.masked_neuron`'s.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import one_hot

from featscope.data import SparseCodingSource
from featscope.models import SymmetricReLUNetwork
from featscope.probes.alignment import alignment, owner
from featscope.streams import Draws
from featscope.theory.masked_neuron import gate_edge, mean_activation, noise_pull, spread_of_others
from featscope.views import View

_LEAST = 1e-6  # deviation of noise over ||w_i||, where a view hides all coordinates: as good as none


class NoisePull(NamedTuple):
    """How strongly noise in one view pulls neurons that fire on both, over ||w_i||; replica by neuron.

    Attributes:
        dense: the largest |E[h_i(x⁺⁺) 1{|<w_i, x⁺>| >= b_i} <2D ξ, M⊥_j>]| of dense directions M⊥_j.
        feature: the same along the feature that the neuron has most of.
        sampled: the same along what the neuron has of features, by sampling the noise.
        closed: what it is by the closed form.
        firing: Pr(|<w_i, x⁺⁺>| >= b_i).
    """

    dense: Float[Tensor, "replica neuron"]
    feature: Float[Tensor, "replica neuron"]
    sampled: Float[Tensor, "replica neuron"]
    closed: Float[Tensor, "replica neuron"]
    firing: Float[Tensor, "replica neuron"]


def noise_pulls(
    network: SymmetricReLUNetwork, source: SparseCodingSource, view: View, draws: Draws, samples: int
) -> NoisePull:
    """Means over ``samples`` samples and masks. Of ``dense`` and ``feature`` those over noise are in closed form."""
    sample = source.sample(draws, samples)
    masks = view(torch.ones_like(sample.x), draws)  # 2D and 2(I - D)
    weight, bias, s2 = network.weight.detach(), network.bias.unsqueeze(-2), float(source.config.noise_variance)
    centres = [((mask * sample.signal) @ weight.mT).cpu().numpy() for mask in masks]
    least = _LEAST * weight.norm(dim=-1).unsqueeze(-2)
    spreads = [(s2 * mask.square() @ weight.square().mT).sqrt().clamp_min(least).cpu().numpy() for mask in masks]
    threshold = bias.cpu().numpy()
    given = gate_edge(centres[0], spreads[0], threshold) * mean_activation(centres[1], spreads[1], threshold)
    edge = torch.as_tensor(given, dtype=weight.dtype, device=weight.device)
    pulled = 2 * s2 * (edge.mT @ masks[0] / samples) * weight  # Stein: 4 s² E[edge · D] w

    fires, h = ((masks[0] * sample.x) @ weight.mT).abs() >= bias, network(masks[1] * sample.x)
    drawn = (h * fires).mT @ (masks[0] * sample.noise) / samples
    norm, held = weight.norm(dim=-1), weight @ source.dictionary
    along = (drawn @ source.dictionary * held).sum(-1)
    closed = noise_pull(held.square().sum(-1).cpu().numpy(), edge.mean(-2).cpu().numpy(), s2)
    basis = torch.linalg.qr(source.dictionary, mode="complete").Q[..., source.dictionary.shape[-1] :]
    first = held.abs().argmax(-1, keepdim=True)
    return NoisePull(
        (pulled @ basis).abs().amax(-1) / norm,
        (pulled @ source.dictionary).gather(-1, first)[..., 0].abs() / norm,
        along / norm.square(),
        torch.as_tensor(closed, dtype=weight.dtype, device=weight.device) / norm.square(),
        (h != 0).to(weight.dtype).mean(-2),
    )


class MaskedFiring(NamedTuple):
    """When neurons are above their thresholds on masked inputs; replica by neuron.

    Attributes:
        view: Pr(|<w_i, x⁺>| >= b_i).
        others: Pr(|what is not of the feature that the neuron has most of| >= share of b_i).
        spread: standard deviation of that, over ||w_i||, in closed form.
    """

    view: Float[Tensor, "replica neuron"]
    others: Float[Tensor, "replica neuron"]
    spread: Float[Tensor, "replica neuron"]


def masked_firing(
    network: SymmetricReLUNetwork, source: SparseCodingSource, view: View, draws: Draws, samples: int, share: float
) -> MaskedFiring:
    """Means over ``samples`` masked inputs; ``share`` is the paper's λ."""
    sample = source.sample(draws, samples)
    mask, _ = view(torch.ones_like(sample.x), draws)
    weight, bias = network.weight.detach(), network.bias.unsqueeze(-2)
    own = one_hot(owner(alignment(weight, source.dictionary)), source.dictionary.shape[-1]).to(weight.dtype)
    seen = (mask * sample.x) @ weight.mT
    of_own = (mask @ (weight * (own @ source.dictionary.mT)).mT) * (sample.codes @ own.mT)
    data = source.config
    w, m, held = (each.cpu().numpy() for each in (weight, source.dictionary, own))
    spread = torch.as_tensor(spread_of_others(w, m, held, float(data.activity), float(data.noise_variance)))
    above = [(x.abs() >= b).to(weight.dtype).mean(-2) for x, b in ((seen, bias), (seen - of_own, share * bias))]
    return MaskedFiring(above[0], above[1], spread.to(weight) / weight.norm(dim=-1))
