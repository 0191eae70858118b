"""One hidden layer with activation x^k on k numbers modulo p (dissertation, Eq. 4.2).

    f(a)[c] = Σ_i (u_i1(a_1) + ... + u_ik(a_k))^k w_i(c)

Rows u_ij(a) are looked up; no one-hot is made.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import pi
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featscope.numbers import per_replica
from featscope.options import require
from featscope.streams import Draws

_NOTHING = 1e-30  # so that the norm has a gradient at 0


@dataclass(frozen=True)
class Polynomial:
    """Options of `PolynomialNetwork`.

    Attributes:
        neurons: m; 2^(2k-2) (p - 1), as the max-margin construction has, if 0.
        scale: standard deviation of normal weights at the start, in units of 1/√p.
    """

    floats_per_replica = True

    neurons: int = 0
    scale: float = 1.0

    def __post_init__(self) -> None:
        require(self, "neurons", self.neurons >= 0, ">= 0; 0 for 2^(2k-2) (p - 1)")
        require(self, "scale", self.scale > 0, "> 0")

    def build(self, source: Any, draws: Draws) -> "PolynomialNetwork":
        """A network with random weights for the k and p of ``source``."""
        k, p = source.options.inputs, source.options.modulus
        m = self.neurons or 2 ** (2 * k - 1) * ((p - 1) // 2)
        embedding, readout = draws.normal(k, p, m), draws.normal(m, p)
        of_each = (per_replica(self.scale, weights) * weights / p**0.5 for weights in (embedding, readout))
        return PolynomialNetwork(*of_each)


class PolynomialNetwork(nn.Module):
    """A layer of neurons with activation x^k and a linear read-out, no biases.

    Args:
        embedding: u, by input, residue and neuron.
        readout: w, by neuron and residue.
    """

    def __init__(
        self,
        embedding: Float[Tensor, "replica input residue neuron"],
        readout: Float[Tensor, "replica neuron residue"],
    ) -> None:
        super().__init__()
        self.embedding, self.readout = nn.Parameter(embedding), nn.Parameter(readout)

    def forward(self, points: Int[Tensor, "replica point input"]) -> Float[Tensor, "replica point residue"]:
        """Logits of any points: a row is gathered for each of their numbers."""
        replicas = torch.arange(len(points), device=points.device)[:, None]
        rows = (self.embedding[replicas, place, points[..., place]] for place in range(self.embedding.shape[1]))
        return self._logits(sum(rows, torch.zeros((), dtype=self.embedding.dtype, device=points.device)))

    def on_all_points(self) -> Float[Tensor, "replica point residue"]:
        """Logits of all p^k points, a_1 slowest: sums of rows, without a look-up."""
        return self._logits(self._sums(self.embedding[:, 0]))

    def in_blocks(self) -> Iterator[Float[Tensor, "replica point residue"]]:
        """The same for one value of a_1 after another, where p^k points are too many to hold."""
        for row in range(self.embedding.shape[2]):
            yield self._logits(self._sums(self.embedding[:, 0, row : row + 1]))

    def _sums(self, first: Float[Tensor, "replica row neuron"]) -> Float[Tensor, "replica point neuron"]:
        sums = first
        for place in range(1, self.embedding.shape[1]):
            sums = (sums[:, :, None] + self.embedding[:, None, place]).flatten(1, 2)
        return sums

    def _logits(self, sums: Float[Tensor, "replica point neuron"]) -> Float[Tensor, "replica point residue"]:
        return _power(sums, self.embedding.shape[1]) @ self.readout

    def vectors(self) -> Float[Tensor, "replica neuron vector residue"]:
        """u_i1, ..., u_ik, w_i of each neuron."""
        return torch.cat([self.embedding.permute(0, 3, 1, 2), self.readout[:, :, None]], 2)

    def neuron_norms(self) -> Float[Tensor, "replica neuron"]:
        """‖θ_i‖_2, of the k + 1 vectors of a neuron together."""
        return (self.embedding.square().sum((1, 2)) + self.readout.square().sum(2)).sqrt()

    def norm(self) -> Float[Tensor, "replica"]:
        """‖θ‖ = (Σ_i ‖θ_i‖_2^(k+1))^(1/(k+1)) (Definition C.2)."""
        squares = self.embedding.square().sum((1, 2)) + self.readout.square().sum(2) + _NOTHING
        degree = self.embedding.shape[1] + 1
        largest = squares.detach().amax(1, keepdim=True)  # powers of what is near 0 would be 0
        return largest[:, 0].sqrt() * (squares / largest).pow(degree / 2).sum(1).pow(1 / degree)


def _power(x: Tensor, k: int) -> Tensor:
    """x^k by squaring: several times as fast as `torch.pow` where k is not 2 or 3."""
    if k == 1:
        return x
    half = _power(x, k // 2).square()
    return half * x if k % 2 else half


def label_margins(
    logits: Float[Tensor, "*batch label"], labels: Int[Tensor, "*batch"]
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """The right logit less the largest wrong one, and less the smallest."""
    right = logits.gather(-1, labels[..., None])
    is_right = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, labels[..., None], True)
    largest = logits.masked_fill(is_right, -torch.inf).amax(-1)
    smallest = logits.masked_fill(is_right, torch.inf).amin(-1)
    return right[..., 0] - largest, right[..., 0] - smallest


def max_margin_phases(inputs: int) -> Float[Tensor, "neuron vector"]:
    """Phases of the 2^(2k-1) neurons that compute one frequency (Lemma C.18), float64.

    For each choice of sines among the inputs and signs with e_1 = +1: the phases of u_1, ..., u_k and of w, which is
    their sum modulo 2π.
    """
    phases = []
    for sines in product((0, 1), repeat=inputs):
        for rest in product((1, -1), repeat=inputs - 1):
            signs = (1, *rest)
            negative = (sum(sines) // 2 + signs.count(-1)) % 2
            of_u = [-pi / 2 * sine + pi * (sign < 0) for sine, sign in zip(sines, signs, strict=True)]
            phases.append([*of_u, -pi / 2 * (sum(sines) % 2) + pi * negative])
    return torch.tensor(phases, dtype=torch.float64)


def lattice_phases(count: int, generator: tuple[int, ...]) -> Float[Tensor, "neuron vector"]:
    """Phases 2π t g/N for t < N and their sum: ``count`` N neurons for one frequency, float64."""
    turns = torch.arange(count, dtype=torch.float64)[:, None] * torch.tensor(generator, dtype=torch.float64)
    of_u = 2 * pi * turns / count
    return torch.cat([of_u, of_u.sum(1, keepdim=True)], 1)


def cosine_network(
    modulus: int,
    frequencies: Int[Tensor, " frequency"],
    phases: Float[Tensor, "neuron vector"],
    shifts: Float[Tensor, "replica frequency input"] | None = None,
    masses: Float[Tensor, " frequency"] | None = None,
) -> PolynomialNetwork:
    """A network whose neurons are cosines, of ‖θ‖ = 1: each frequency gets a neuron of each row of ``phases``.

    Args:
        modulus: p.
        frequencies: ζ.
        phases: of u_1, ..., u_k and w of the neurons of a frequency.
        shifts: added to the phases of u, and their sum to that of w: what a frequency computes stays the same.
        masses: Σ ‖θ_i‖^(k+1) of each frequency, up to a factor; all alike if not given.
    """
    if shifts is None:
        shifts = torch.zeros(1, len(frequencies), phases.shape[1] - 1, dtype=torch.float64)
    all_shifts = torch.cat([shifts, shifts.sum(-1, keepdim=True)], -1)
    angles = 2 * pi / modulus * (frequencies[:, None] * torch.arange(modulus) % modulus).double()
    waves = torch.cos(angles[:, None, None] + (phases + all_shifts[:, :, None])[..., None])
    waves = waves / waves.square().sum((-2, -1), keepdim=True).sqrt()  # neurons of norm 1
    degree = phases.shape[1]
    mass = torch.ones(len(frequencies), dtype=torch.float64) if masses is None else masses
    size = (mass / (mass.sum() * len(phases))) ** (1 / degree)
    vectors = (size[:, None, None, None] * waves).flatten(1, 2)
    return PolynomialNetwork(vectors[:, :, :-1].permute(0, 2, 3, 1).contiguous(), vectors[:, :, -1].contiguous())
