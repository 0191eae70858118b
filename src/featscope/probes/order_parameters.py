"""What is measured on cubic neurons through their order parameters (Wen & Li 2022, Section 5 and Appendix A).

Of two neurons that one is fast which starts with the larger overlap with the strong feature, neuron 1 of the paper.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from featscope.models.population import OrderParameters, Population, PopulationNetwork
from featscope.streams import Draws


class Substitution(NamedTuple):
    """What a trajectory is like where the slow neuron has borrowed the strong feature.

    Attributes:
        others_moved: largest relative change of the overlaps but B_11 while it was borrowed.
        head_sign: whether E_21 has the sign of B_11 B_21.
        borrowed: |E_21 B_11³ / B_21³|.
        acceleration: H_21/H_22.
    """

    others_moved: Float[Tensor, " trajectory"]
    head_sign: Bool[Tensor, " trajectory"]
    borrowed: Float[Tensor, " trajectory"]
    acceleration: Float[Tensor, " trajectory"]


def substitution(
    learned: OrderParameters,
    borrowed: OrderParameters,
    peak: OrderParameters,
    of: Population,
    fast: Int[Tensor, " trajectory"],
) -> Substitution:
    """How the head helps.

    Args:
        learned: when the fast neuron has learned the strong feature, T_1.
        borrowed: when the slow one has borrowed it.
        peak: when |E_21| is largest. All but ``others_moved`` is measured here.
        of: constants of the trajectories.
        fast: which neuron is fast.
    """
    (b1, _, _), (b2, _, _), (b, _, (_, e21)) = (y.by_role(fast) for y in (learned, borrowed, peak))
    others = torch.stack([(b2 - b1).abs()[0, 1] / b1[0, 1].abs(), *((b2 - b1).abs()[1] / b1[1].abs())])
    lent = e21 * b[0, 0] ** 3
    noise = of.noise_products(peak.r)
    own = noise.diagonal(dim1=0, dim2=1).mT.gather(0, torch.stack([fast, 1 - fast]))
    through = own[1] + 2 * e21 * noise[0, 1] + e21**2 * own[0]
    signal = torch.stack([b[1, 0] ** 3 + lent, b[1, 1] ** 3 + e21 * b[0, 1] ** 3])
    heights = of.own * signal**2 + of.noise_patches * through  # H_21 and H_22
    sign = e21 * b[0, 0] * b[1, 0] > 0
    return Substitution(others.amax(0), sign, (lent / b[1, 0] ** 3).abs(), heights[0] / heights[1])


def head_decay(learner: PopulationNetwork, fast: Int[Tensor, " trajectory"]) -> Float[Tensor, " trajectory"]:
    """-d(dE_21/dt)/dE_21 where two neurons are, by a central difference of the velocity."""
    y, nudge = learner.state.detach().flatten(0, 1).mT, 1e-6
    constants = learner.constants()
    place = (len(y) - 1 - fast)[None]  # the state ends with E_12 and E_21
    shift = torch.zeros_like(y).scatter_(0, place, nudge)
    change = learner.velocity(y + shift, constants) - learner.velocity(y - shift, constants)
    return -change.gather(0, place)[0] / (2 * nudge)


def velocity_on_batches(
    network: Any, source: Any, objective: Callable[..., Tensor], batches: Sequence[Draws]
) -> tuple[Float[Tensor, "state replica"], Float[Tensor, "state replica"]]:
    """Order parameters of a network, packed, and how gradient descent on a batch moves them: the mean over batches.

    Args:
        network: an `OnlineNetwork` of cubic neurons with an `IdentityHead`.
        source: samples patches and knows the features.
        objective: (network, source, draws) -> the loss on a batch.
        batches: draws of each.
    """
    head, trained = network.head, (network.encoder.weight, network.head.scaled)
    to_weight, to_head = pulls = [torch.zeros_like(parameter) for parameter in trained]
    with torch.enable_grad():
        for draws in batches:
            slopes = torch.autograd.grad(objective(network, source, draws).sum(), trained)
            for pull, slope in zip(pulls, slopes, strict=True):
                pull -= slope / len(batches)
    weight, moved = network.encoder.weight.detach().double(), to_weight.double()
    features = source.dictionary.double()
    off = torch.eye(features.shape[-2], dtype=torch.float64, device=weight.device) - features @ features.mT
    here = weight @ features, weight @ off @ weight.mT, head.off_diagonal.detach().double()
    moved_e = (to_head * head.rate.sqrt()).double()
    velocity = moved @ features, moved @ off @ weight.mT + weight @ off @ moved.mT, moved_e
    y, v = (OrderParameters(*(part.movedim(0, -1) for part in parts)).pack() for parts in (here, velocity))
    return y, v
