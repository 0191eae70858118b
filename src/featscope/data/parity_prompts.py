"""Prompts that show the parity of two hidden features and ask for one more (Shi 2024, dissertation, Section 5.5).

Rows are tokens: (x_l, y_l) with x = G φ, φ signs and y = φ_i φ_j, then the query (x_q, 0), whose label is wanted.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featscope.numbers import per_replica
from featscope.options import require
from featscope.streams import Draws


class ParityBatch(NamedTuple):
    """Some prompts.

    Attributes:
        prompts: ``samples`` rows (x, y), then the query (x_q, 0), float64.
        targets: the query's label, which a learner does not see.
        tasks: i and j.
    """

    prompts: Float[Tensor, "replica prompt token channel"]
    targets: Float[Tensor, "replica prompt"]
    tasks: Int[Tensor, "replica prompt 2"]


@dataclass(frozen=True)
class ParityPrompts:
    """Options of `ParityPromptSource`.

    Attributes:
        features: d.
        important: k; tasks among the first k features are S_1, all others S_2.
        gamma: γ, half the correlation of a task's features with its label: (φ_i, φ_j) is (1, 1) with probability
            1/4 + γ, (-1, -1) with 1/4 - γ, and the two others with 1/4.
        samples: examples in a prompt.
        others: p_T, probability of a task of S_2.
        flipped: share of the examples whose label is inverted; the query's is not.
    """

    floats_per_replica: ClassVar[bool] = True

    features: int = 8
    important: int = 2
    gamma: float = 0.1
    samples: int = 64
    others: float = 0.0
    flipped: float = 0.0

    def __post_init__(self) -> None:
        require(self, "features", self.features >= 2, ">= 2")
        require(self, "important", 2 <= self.important <= self.features, f"2 to features = {self.features}")
        require(self, "gamma", 0 < self.gamma < 0.25, "above 0 and below 1/4")
        require(self, "samples", self.samples >= 1, ">= 1")
        most = 0.5 if self.important < self.features else 0.0
        require(self, "others", 0 <= self.others <= most, f"0 to {most}", "Without other features S_2 is empty.")
        require(self, "flipped", 0 <= self.flipped <= 0.5, "0 to 1/2")

    def build(self, draws: Draws) -> "ParityPromptSource":
        """A source whose orthonormal dictionary G is drawn once and for all, uniformly."""
        q, r = torch.linalg.qr(draws.normal(self.features, self.features, dtype=torch.float64))
        return ParityPromptSource(q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None], self)


class ParityPromptSource(nn.Module):
    """Draws prompts.

    Attributes:
        dictionary: G, features in columns.
    """

    dictionary: Float[Tensor, "replica d d"]

    def __init__(self, dictionary: Float[Tensor, "replica d d"], options: ParityPrompts) -> None:
        super().__init__()
        self.options = options
        self.register_buffer("dictionary", dictionary)

    def tasks(self, draws: Draws, count: int) -> Int[Tensor, "replica prompt 2"]:
        """Pairs (i, j), i not j: of S_1 or, with probability p_T, of S_2; uniform on either."""
        k, d = self.options.important, self.options.features
        grid = torch.cartesian_prod(torch.arange(d), torch.arange(d)).to(self.dictionary.device)
        grid = grid[grid[:, 0] != grid[:, 1]]
        inside = (grid < k).all(1)
        first, second = grid[inside], grid[~inside]
        which, place = draws.uniform(2, count).unbind(1)
        chosen = first[(place * len(first)).long().clamp(max=len(first) - 1)]
        if len(second) == 0:
            return chosen
        other = second[(place * len(second)).long().clamp(max=len(second) - 1)]
        return torch.where((which < per_replica(self.options.others, which))[..., None], other, chosen)

    def signs(
        self, draws: Draws, tasks: Int[Tensor, "replica prompt 2"], count: int
    ) -> Float[Tensor, "replica prompt count d"]:
        """Hidden vectors φ, ``count`` for each task."""
        prompts = tasks.shape[1]
        signs = 2 * draws.coins(prompts, count, self.options.features, dtype=self.dictionary.dtype) - 1
        u = draws.uniform(prompts, count, dtype=signs.dtype)
        gamma = per_replica(self.options.gamma, u)
        first = torch.where(u < 0.5 + gamma, 1.0, -1.0).to(signs)
        alike = (u < 0.25 + gamma) | (u >= 0.75 + gamma)
        pair = torch.stack([first, torch.where(alike, first, -first)], -1)
        return signs.scatter(-1, tasks[:, :, None].expand(-1, -1, count, -1), pair)

    def sample(self, draws: Draws, count: int) -> ParityBatch:
        """``count`` prompts for each replica."""
        tasks = self.tasks(draws, count)
        signs = self.signs(draws, tasks, self.options.samples + 1)
        y = signs.gather(-1, tasks[:, :, None].expand(-1, -1, signs.shape[2], -1)).prod(-1)
        targets = y[..., -1].clone()
        flipped = per_replica(self.options.flipped, y)
        if isinstance(flipped, Tensor) or flipped:
            y = torch.where(draws.uniform(*y.shape[1:]) < flipped, -y, y)
        y[..., -1] = 0
        x = (signs.flatten(1, 2) @ self.dictionary.mT).view(signs.shape)
        return ParityBatch(torch.cat([x, y[..., None]], -1), targets, tasks)
