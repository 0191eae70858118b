"""Prompts without end: every task and every query at once, and networks that are set by hand on them."""

from dataclasses import dataclass, field
from functools import cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from featscope.data import ParityPrompts, ParityPromptSource
from featscope.models import ReLULinearAttention, in_dictionary
from featscope.options import require
from featscope.streams import Draws
from featscope.theory import sparse_parity as theory


class EveryPrompt(nn.Module):
    """All pairs i < j with all 2^d queries, and their weights.

    Attributes:
        moments: yᵀX/N of each task as N grows: 2γ (G_i + G_j).
        queries: x_q.
        labels: of every task and query.
        chances: probability of each query in its task.
        inside: whether a task is of S_1.
        pattern: which of the four patterns a query shows in a task.
    """

    moments: Float[Tensor, "replica task d"]
    queries: Float[Tensor, "replica query d"]
    labels: Float[Tensor, "replica task query"]
    chances: Float[Tensor, "replica task query"]
    inside: Bool[Tensor, "replica task"]
    pattern: Int[Tensor, "replica task query"]

    def __init__(self, source: ParityPromptSource, dtype: torch.dtype = torch.float64, important: bool = False) -> None:
        """
        Args:
            source: whose tasks these are.
            dtype: of all numbers.
            important: only tasks of S_1.
        """
        super().__init__()
        o, g = source.options, source.dictionary
        pairs = torch.combinations(torch.arange(o.important if important else o.features)).to(g.device)
        signs = 2.0 * torch.cartesian_prod(*[torch.arange(2)] * o.features).to(g) - 1
        shown = signs[:, pairs].permute(1, 0, 2)  # task, query, which of the two
        pattern = ((1 - shown[..., 0]) + (1 - shown[..., 1]) / 2).long()
        chance = torch.tensor(theory.pattern_probabilities(o.gamma)).to(g)[pattern]
        state = {
            "moments": 2 * o.gamma * g[..., pairs].sum(-1).mT,
            "queries": (signs @ g.mT),
            "labels": shown.prod(-1),
            "chances": chance * 2.0 ** (2 - o.features),
        }
        found = {name: values.to(dtype) for name, values in state.items()}
        found |= {"inside": (pairs < o.important).all(1), "pattern": pattern}
        for name, values in found.items():
            alike = name not in ("moments", "queries")
            self.register_buffer(name, values.repeat(len(g), *[1] * values.ndim) if alike else values)

    def margins(self, network: ReLULinearAttention, other: bool = False) -> Float[Tensor, "replica task query"]:
        """y g for every task and query; ``other``: after the prompt of another task."""
        moments = self.moments.roll(1, 1) if other else self.moments
        return self.labels * network.answer_all(moments, self.queries)

    def hinge(self, margins: Float[Tensor, "replica task query"]) -> Float[Tensor, "replica task"]:
        """Mean hinge loss of each task."""
        return ((1 - margins).relu() * self.chances).sum(-1)


NETWORKS = ("small", "large", "raised", "antichain", "from-one")
"""g_1*; g_2*; g_1* with positive heads scaled by ν_1 + 1; fewest heads; g_2* with features numbered from 1."""


def built(which: str, data: ParityPrompts) -> theory.Network:
    """One of `NETWORKS` for ``data``."""
    d, gamma = data.features, data.gamma
    small, large = (n.bit_length() - 1 for n in (data.important, d))
    if which == "antichain":
        return theory.antichain_network(d, gamma)
    if which == "raised":
        return theory.optimal_network(small, d, gamma, scale=small + 1)
    return theory.optimal_network(small if which == "small" else large, d, gamma, first=int(which == "from-one"))


@dataclass(frozen=True)
class Constructed:
    """Options of `ConstructedNetworks`.

    Attributes:
        data: tasks.
        mirrored: whether networks have the second half of their heads.
    """

    data: ParityPrompts = field(default_factory=ParityPrompts)
    mirrored: bool = True

    def __post_init__(self) -> None:
        for name in ("features", "important"):
            value = getattr(self.data, name)
            require(self.data, name, value & (value - 1) == 0, "a power of 2")

    def build(self, draws: Draws) -> "ConstructedNetworks":
        """The networks."""
        return ConstructedNetworks(self, draws)


class ConstructedNetworks(nn.Module):
    """Networks set by hand, in a random dictionary, and queries to ask them.

    Attributes:
        networks: `NETWORKS`.
        asked: a query φ for every pattern and task, its other coordinates random.
    """

    asked: Float[Tensor, "replica pattern i j d"]

    def __init__(self, options: Constructed, draws: Draws) -> None:
        super().__init__()
        self.options, self.source = options, options.data.build(draws)
        g, d = self.source.dictionary, options.data.features
        self.networks = [self._network(built(name, options.data), g) for name in NETWORKS]
        phi = 2 * draws.coins(4, d, d, d, dtype=g.dtype) - 1
        i, j = _places(d)
        for at, (first, second) in enumerate(theory.PATTERNS):
            phi[:, at, i, j, j] = float(second)
            phi[:, at, i, j, i] = float(first)
        self.register_buffer("asked", phi)

    def _network(self, network: theory.Network, dictionary: Tensor) -> ReLULinearAttention:
        heads = len(network.signs) if self.options.mirrored else len(network.signs) // 2
        signs, diagonals = (torch.tensor(values[:heads]).to(dictionary) for values in network)
        weights = in_dictionary(diagonals, dictionary)
        return ReLULinearAttention(signs.repeat(len(dictionary), 1), weights).requires_grad_(False)

    def margins(self, network: ReLULinearAttention) -> Float[Tensor, "replica pattern i j"]:
        """y g of ``network`` for every pattern and task; NaN where i = j."""
        g, phi = self.source.dictionary, self.asked
        d, both = phi.shape[-1], torch.eye(phi.shape[-1]).to(phi)
        moments = 2 * self.options.data.gamma * (both[:, None] + both[None]) @ g[:, None].mT
        labels = torch.tensor(theory.PATTERNS.prod(-1)).to(phi)
        answers = [
            network.answer(moments.flatten(1, 2), (one.flatten(1, 2) @ g.mT)).view(-1, d, d) for one in phi.unbind(1)
        ]
        found = labels[:, None, None] * torch.stack(answers, 1)
        return found.masked_fill(both.bool(), torch.nan)

    @property
    def passed(self) -> Bool[Tensor, "replica 1"]:
        """Nothing moves."""
        return torch.ones(len(self.asked), 1, dtype=torch.bool, device=self.asked.device)

    def forward(self, draws: Draws) -> None:
        """Nothing moves."""


@cache
def _places(features: int) -> tuple[Tensor, Tensor]:
    """All i and j."""
    i, j = torch.meshgrid(torch.arange(features), torch.arange(features), indexing="ij")
    return i.flatten(), j.flatten()
