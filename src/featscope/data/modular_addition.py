"""Addition of k numbers modulo p: points a = (a_1, ..., a_k) and the label (a_1 + ... + a_k) mod p.

Points are numbers, not one-hots. All p^k are in lexicographic order, a_1 slowest.
"""

from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from featscope.options import require
from featscope.streams import Draws

MOST_POINTS = 10**8


@dataclass(frozen=True)
class ModularAddition:
    """Options of `ModularAdditionSource`.

    Attributes:
        inputs: numbers that are added, k.
        modulus: p.
        share: of the p^k points, those to train on, drawn for each replica.
    """

    inputs: int = 3
    modulus: int = 7
    share: float = 1.0

    def __post_init__(self) -> None:
        require(self, "inputs", self.inputs >= 2, ">= 2")
        require(self, "modulus", self.modulus >= 3, ">= 3", "Modulo 2 it is parity, which has no frequency.")
        require(self, "modulus", self.modulus**self.inputs <= MOST_POINTS, f"at most {MOST_POINTS:,} points p^k")
        require(self, "share", 0 < self.share <= 1, "> 0 and <= 1")

    @property
    def count(self) -> int:
        """p^k."""
        return self.modulus**self.inputs

    def build(self, draws: Draws) -> "ModularAdditionSource":
        """All points, and which of them are to train on."""
        shown = torch.ones(draws.replicas, self.count, dtype=torch.bool, device=draws.device)
        if self.share < 1:
            chosen = draws.choice(self.count, max(1, round(self.share * self.count)))
            shown = torch.zeros_like(shown).scatter(1, chosen, True)
        return ModularAdditionSource(self, shown)


class ModularAdditionSource(nn.Module):
    """All points of a modular addition.

    Args:
        options: k and p.
        shown: points to train on.
    """

    shown: Bool[Tensor, "replica point"]

    def __init__(self, options: ModularAddition, shown: Bool[Tensor, "replica point"]) -> None:
        super().__init__()
        self.options = options
        self.register_buffer("shown", shown)

    @property
    def labels(self) -> Int[Tensor, " point"]:
        """Of all points."""
        return all_labels(self.options.inputs, self.options.modulus).to(self.shown.device)

    def sample(self, draws: Draws, count: int) -> Int[Tensor, "replica sample input"]:
        """``count`` points for each replica, uniform over all p^k."""
        uniform = draws.uniform(count, self.options.inputs, dtype=torch.float64)
        return (uniform * self.options.modulus).long()

    def cross_entropy(
        self, logits: Float[Tensor, "replica point label"], shown: bool = True
    ) -> Float[Tensor, "replica"]:
        """Mean over the points to train on, in nats; over the others if ``shown`` is false, NaN if there are none."""
        each = cross_entropy(logits.flatten(0, 1), self.labels.repeat(len(logits)), reduction="none")
        which = self.shown if shown else ~self.shown
        return (each.view(which.shape) * which).sum(1) / which.sum(1)


@cache
def all_labels(inputs: int, modulus: int) -> Int[Tensor, " point"]:
    """Labels of all p^k points, in their order."""
    sums = torch.zeros(1, dtype=torch.int64)
    for _ in range(inputs):
        sums = (sums[:, None] + torch.arange(modulus)).flatten()
    return sums % modulus


def points_at(places: Int[Tensor, "*batch"], inputs: int, modulus: int) -> Int[Tensor, "*batch input"]:
    """The points at some ``places`` of their order: digits of the place, a_1 first."""
    powers = torch.tensor([modulus**place for place in reversed(range(inputs))], device=places.device)
    return places[..., None] // powers % modulus


def all_points(inputs: int, modulus: int) -> Int[Tensor, "point input"]:
    """All p^k points, in their order."""
    return torch.cartesian_prod(*[torch.arange(modulus)] * inputs).view(-1, inputs)
