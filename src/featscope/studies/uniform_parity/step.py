"""The first step of Algorithm 6, with gradients in closed form or of a sample (dissertation, Section B.5.5)."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from featscope.data.uniform_parity import UniformParitySource
from featscope.models.fixed_bias_relu import FixedBiasReLUNetwork
from featscope.options import require
from featscope.streams import Draws
from featscope.theory import uniform_parity as theory

_CHUNK = 20000  # samples that are held at a time


def signs(draws: Draws, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Uniform signs of shape ``[replica, *shape]``."""
    return 2 * draws.coins(*shape, dtype=dtype) - 1


def equal_inside(w: Float[Tensor, "*batch neuron input"], inside: Bool[Tensor, "*batch input"]) -> Tensor:
    """Whether w, of signs, is equal on A ``[*batch, neuron]``."""
    return (w * inside[..., None, :]).sum(-1).abs() == inside.sum(-1)[..., None]


class SampledGradient(NamedTuple):
    """Means over a sample, float64.

    Attributes:
        weight: of y x 1[<w, x> > b], G.
        readout: of y ReLU(<w, x> - b).
        label: of y x.
        sign: of y.
    """

    weight: Float[Tensor, "replica neuron input"]
    readout: Float[Tensor, "replica neuron"]
    label: Float[Tensor, "replica input"]
    sign: Float[Tensor, "replica"]


@torch.no_grad()
def sampled_gradient(
    source: UniformParitySource,
    draws: Draws,
    w: Float[Tensor, "replica neuron input"],
    b: Float[Tensor, "replica neuron"],
    samples: int,
) -> SampledGradient:
    """Gradients on ``samples`` fresh samples, which are never held all at once."""
    total: list[Tensor] = []
    for start in range(0, samples, _CHUNK):
        x, y, _ = source.sample(draws, min(_CHUNK, samples - start))
        drive = torch.baddbmm(-b[:, None], x, w.mT)
        labelled = x * y[..., None]
        parts = (
            (drive > 0).to(x).mT @ labelled,
            (drive.relu() * y[..., None]).sum(1),
            labelled.sum(1),
            y.sum(1),
        )
        total = (
            [sum_ + part.double() for sum_, part in zip(total, parts, strict=True)]
            if total
            else [part.double() for part in parts]
        )
    return SampledGradient(*(part / samples for part in total))


@dataclass(frozen=True)
class UniformParityStep:
    """Options of a network after the first step of Algorithm 6; first weights stay as the step leaves them.

    It starts with w in {±1}^d, a in {±1}, b on the grid between -1 and 1 of spacing 1/k, and three mirror images of
    each neuron (Equation 3.9). The step has η_1 = 1/(k |ξ_{k-1}|) and λ_1 = 1/η_1, which forgets the start.

    Attributes:
        quarter: a fourth of its neurons.
        samples: that gradients are means of; 0 for the closed form.
    """

    quarter: int = 70
    samples: int = 0

    def __post_init__(self) -> None:
        require(self, "quarter", self.quarter >= 1, ">= 1")
        require(self, "samples", self.samples >= 0, ">= 0")

    def build(self, source: UniformParitySource, draws: Draws) -> FixedBiasReLUNetwork:
        """A network a replica; its buffer ``equal`` says which neurons had w equal on A."""
        d, k = source.options.dimension, source.options.block
        w = signs(draws, self.quarter, d, dtype=torch.float32)
        a = signs(draws, self.quarter, dtype=torch.float32)
        b = ((2 * k - 1) * draws.uniform(self.quarter)).floor() / k - 1 + 1 / k
        rate = 1 / (k * abs(theory.majority_coefficient(d, k - 1)))
        found = sampled_gradient(source, draws, w, b, self.samples) if self.samples else exact_gradient(source, w)
        # E[yx 1] and E[y ReLU] of the mirror image (-w, -b)
        mirrored = found.label[:, None] - found.weight
        mean = (w.double() @ found.label[..., None])[..., 0] - b.double() * found.sign[:, None]
        weight = rate * torch.cat([a[..., None] * found.weight, -a[..., None] * mirrored], 1).float()
        readout = rate * torch.cat([found.readout, found.readout - mean], 1).float()
        bias, equal = torch.cat([b, -b], 1), equal_inside(w, source.inside)
        network = FixedBiasReLUNetwork(
            torch.cat([weight, -weight], 1), torch.cat([readout, readout], 1), torch.cat([bias, bias], 1)
        )
        network.register_buffer("equal", torch.cat([equal] * 4, 1))
        network.weight.requires_grad_(False)
        return network


def exact_gradient(source: UniformParitySource, w: Float[Tensor, "replica neuron input"]) -> SampledGradient:
    """The same means over all inputs, in closed form, for |b| < 1."""
    d, k = source.options.dimension, source.options.block
    inside, w = source.inside[:, None], w.double()
    product = w.where(inside, 1).prod(-1)
    on, off = (theory.majority_coefficient(d, size) / 2 for size in (k - 1, k + 1))
    weight = product[..., None] * w * torch.where(inside, on, off)
    label = torch.zeros_like(w[:, 0])
    return SampledGradient(weight, product * on, label, label[:, 0])
