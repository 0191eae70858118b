"""One gradient step in which features emerge, and what is trained from there (dissertation, Algorithms 1 and 4).

The first step has λ_1 = 1/η_1: it forgets the start, and all that is left of it is its gradient.
"""

from dataclasses import dataclass, field
from math import log
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import softplus

from featscope.models.fixed_bias_relu import FixedBiasReLU, FixedBiasReLUNetwork
from featscope.options import require, require_word
from featscope.streams import Draws
from featscope.training.objectives import Ready

Kind = Literal["hinge", "logistic"]
Keep = Literal["all", "random", "aligned", "misaligned", "fitting"]
NEAR = 0.9
"""Cosine with a feature of neurons that fit."""


def margin_loss(margin: Float[Tensor, "*shape"], kind: Kind) -> Float[Tensor, "*shape"]:
    """ℓ(y g(x)) with ℓ(0) = 1: max(0, 1 - z), or log(1 + e^-z)/log 2."""
    return (1 - margin).relu() if kind == "hinge" else softplus(-margin) / log(2)


def slope_at_zero(kind: Kind) -> float:
    """ℓ'(0)."""
    return -1.0 if kind == "hinge" else -0.5 / log(2)


@dataclass(frozen=True)
class MarginLoss(Ready):
    """Mean loss of the margins y g(x) of a fresh batch.

    Attributes:
        kind: "hinge" or "logistic".
        samples: in a batch.
    """

    kind: Kind = "hinge"
    samples: int = 500

    def __post_init__(self) -> None:
        require_word(self, "kind")
        require(self, "samples", self.samples >= 1, ">= 1")

    def __call__(self, learner: nn.Module, source: Any, draws: Draws) -> Float[Tensor, "replica"]:
        """The loss of each replica."""
        batch = source.sample(draws, self.samples)
        return margin_loss(batch.y * learner(batch.x), self.kind).mean(-1)


def take_feature_step(
    network: FixedBiasReLUNetwork,
    x: Float[Tensor, "replica batch input"],
    y: Float[Tensor, "replica batch"],
    rate: float,
    kind: Kind = "hinge",
) -> None:
    """One step on one sample with λ_1 = 1/η_1: weights become -η_1 times their gradient.

    They are assigned, not taken off: in float32 the start would leave its rounding.

    Args:
        network: changed in place.
        x: inputs.
        y: labels.
        rate: η_1.
        kind: of the loss.
    """
    trained = [network.weight, network.readout]
    with torch.enable_grad():
        loss = margin_loss(y * network(x), kind).mean(-1).sum()
        gradients = torch.autograd.grad(loss, trained)
    with torch.no_grad():
        for parameter, gradient in zip(trained, gradients, strict=True):
            parameter.copy_(-rate * gradient)


@dataclass(frozen=True)
class FeatureStep:
    """Options of a network after its first step, whole or a part of it.

    Attributes:
        start: the network before.
        samples: of the step, n_1.
        rate: η_1.
        keep: which neurons stay: all; or ``count`` of them, drawn at random, those whose weights are nearest to a
            feature, those that are farthest, or those near it whose thresholds fit best to where the answer may bend,
            as many at each bend (Lemma 3.14); the source then has ``bends``.
        count: how many stay.
        frozen: whether first weights stay as the step leaves them.
    """

    start: FixedBiasReLU = field(default_factory=FixedBiasReLU)
    samples: int = 2000
    rate: float = 1.0
    keep: Keep = "all"
    count: int = 60
    frozen: bool = False

    def __post_init__(self) -> None:
        require(self, "samples", self.samples >= 1, ">= 1")
        require(self, "rate", self.rate > 0, "> 0")
        require_word(self, "keep")
        all_of_them = 4 * self.start.quarter
        require(self, "count", 1 <= self.count <= all_of_them, f"1 to {all_of_them}, as there are neurons")

    def build(self, source: Any, draws: Draws) -> FixedBiasReLUNetwork:
        """A network a replica, after the step; its buffer ``start_weight`` has the weights before it.

        Raises:
            ConfigError: those that fit are to stay, and in some replica fewer than ``count`` are near a feature.
        """
        network = self.start.build(source, draws)
        before = network.weight.detach().clone()
        batch = source.sample(draws, self.samples)
        take_feature_step(network, batch.x, batch.y, self.rate)
        if self.keep != "all":
            places = self._chosen(network, source, draws)
            network, before = kept(network, places), _rows(before, places)
        network.register_buffer("start_weight", before)
        network.weight.requires_grad_(not self.frozen)
        return network

    def _chosen(self, network: FixedBiasReLUNetwork, source: Any, draws: Draws) -> Tensor:
        """Places of the neurons that stay ``[replica, count]``."""
        if self.keep == "random":
            return draws.choice(network.readout.shape[1], self.count)
        nearness = alignment_to(network.weight.detach(), source.features)
        if self.keep == "fitting":
            near = int((nearness >= NEAR).sum(1).min())
            allowed = f"{near} at most, as so few neurons have a cosine of {NEAR} with a feature after the step"
            require(self, "count", self.count <= near, allowed, "Keep fewer, or begin with more.")
            return fitting(network, source.features, source.bends, self.count)
        return nearness.topk(self.count, dim=1, largest=self.keep == "aligned").indices


def alignment_to(
    weight: Float[Tensor, "replica neuron input"], features: Float[Tensor, "replica feature input"]
) -> Float[Tensor, "replica neuron"]:
    """The largest cosine, without sign, of each neuron to a feature."""
    unit = torch.nn.functional.normalize(weight, dim=-1)
    return (unit @ features.to(unit.dtype).mT).abs().amax(-1)


@torch.no_grad()
def fitting(
    network: FixedBiasReLUNetwork,
    features: Float[Tensor, "replica feature input"],
    bends: Float[Tensor, "bend"],
    count: int,
) -> Int[Tensor, "replica count"]:
    """Places of ``count`` neurons near a feature D that begin to fire nearest to ``bends`` of <D, x>, as many at each.

    A neuron near D fires where <D, x> is above b/||w||, one near -D where it is below -b/||w||. At least ``count`` of
    them are near a feature.
    """
    cosine = nn.functional.normalize(network.weight, dim=-1) @ features.to(network.weight.dtype).mT
    nearest = cosine.gather(-1, cosine.abs().argmax(-1, keepdim=True))[..., 0]
    begins = nearest.sign() * network.bias / network.weight.norm(dim=-1)
    left = nearest.abs() >= NEAR
    places = []
    for at, bend in enumerate(bends):
        share = count * (at + 1) // len(bends) - count * at // len(bends)
        off = (begins - bend).abs().where(left, torch.inf)
        places.append(off.topk(share, largest=False).indices)
        left = left.scatter(1, places[-1], False)
    return torch.cat(places, 1)


def _rows(weight: Tensor, places: Tensor) -> Tensor:
    return weight.gather(1, places[..., None].expand(-1, -1, weight.shape[-1]))


@torch.no_grad()
def kept(network: FixedBiasReLUNetwork, places: Tensor) -> FixedBiasReLUNetwork:
    """The part of ``network`` with the neurons at ``places`` ``[replica, count]``."""
    one = [each.gather(1, places) for each in (network.readout, network.bias)]
    return FixedBiasReLUNetwork(_rows(network.weight, places), *one)
