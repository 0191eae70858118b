"""Networks that are trained: on the loss of all prompts, or towards the least norm at a margin of one."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.data import ParityPromptSource
from featscope.models import ReLULinearAttention
from featscope.options import require
from featscope.streams import Draws, Streams
from featscope.studies.icl_parity.endless import EveryPrompt, built

SHARP = (10.0, 300.0)
"""Sharpness of the smallest margin, over its size, at the start and at the end of a search."""


@dataclass(frozen=True)
class RandomHeads:
    """Options of a network at a random start, half of its heads positive.

    Attributes:
        heads: m.
        scale: standard deviation of the weights.
    """

    heads: int = 4
    scale: float = 0.3

    def __post_init__(self) -> None:
        require(self, "heads", self.heads >= 2 and self.heads % 2 == 0, "an even number >= 2")
        require(self, "scale", self.scale > 0, "> 0")

    def build(self, source: ParityPromptSource, draws: Draws) -> ReLULinearAttention:
        """The network."""
        d = source.options.features
        weights = self.scale * draws.normal(self.heads, d, d)
        signs = torch.ones_like(weights[..., 0, 0])
        signs[:, 1::2] = -1
        return ReLULinearAttention(signs, weights)


@dataclass(frozen=True)
class NearConstruction:
    """Options of a network near g_2* of Theorem 5.5.1, which keeps the signs of its heads.

    Attributes:
        noise: standard deviation of what is added to its matrices, in units of 1/(4γ).
        diagonal: whether they stay diagonal in the features.
    """

    noise: float = 0.05
    diagonal: bool = False

    def __post_init__(self) -> None:
        require(self, "noise", self.noise >= 0, ">= 0")

    def build(self, source: ParityPromptSource, draws: Draws) -> "SearchedNetwork":
        """The network."""
        d, g = source.options.features, source.dictionary.float()
        signs, diagonals = (torch.tensor(values).to(g) for values in built("large", source.options))
        noise = self.noise / (4 * source.options.gamma) * draws.normal(len(signs), d, d)
        return SearchedNetwork(signs.repeat(len(g), 1), torch.diag_embed(diagonals) + noise, g, self.diagonal)


class SearchedNetwork(ReLULinearAttention):
    """A network whose matrices V are trained in the coordinates of the features: W = G V Gᵀ.

    Args:
        signs: a.
        features: V.
        dictionary: G.
        diagonal: whether only their diagonals count.
    """

    dictionary: Float[Tensor, "replica d d"]

    def __init__(
        self,
        signs: Float[Tensor, "replica head"],
        features: Float[Tensor, "replica head d d"],
        dictionary: Float[Tensor, "replica d d"],
        diagonal: bool,
    ) -> None:
        super().__init__(signs, features)
        self.register_buffer("dictionary", dictionary)
        self.diagonal = diagonal

    @property
    def in_features(self) -> Float[Tensor, "replica head d d"]:
        """V."""
        return torch.diag_embed(self.weights.diagonal(dim1=-2, dim2=-1)) if self.diagonal else self.weights

    def answer_all(
        self, moments: Float[Tensor, "replica task d"], queries: Float[Tensor, "replica query d"]
    ) -> Float[Tensor, "replica task query"]:
        """See `ReLULinearAttention`; moments and queries are turned into the features' coordinates."""
        g = self.dictionary.to(moments)
        heads = ((moments @ g)[:, None] @ self.in_features.to(moments)) @ (queries @ g)[:, None].mT
        return (self.signs.to(moments)[:, None] @ heads.relu().flatten(2)).view(-1, *heads.shape[2:])


@dataclass(frozen=True)
class PopulationHinge:
    """The hinge loss of all prompts as they grow long, and a penalty on the weights.

    Attributes:
        decay: λ.
        related: whether a prompt shows the task that is asked for, or another one.
    """

    decay: float = 1e-4
    related: bool = True

    def __post_init__(self) -> None:
        require(self, "decay", self.decay >= 0, ">= 0")

    def build(self, source: ParityPromptSource, learner: nn.Module, streams: Streams) -> "PopulationHingeLoss":
        """The loss with all prompts at hand."""
        return PopulationHingeLoss(self, source)


class PopulationHingeLoss(nn.Module):
    """`PopulationHinge` at work."""

    def __init__(self, options: PopulationHinge, source: ParityPromptSource) -> None:
        super().__init__()
        self.options, others = options, source.options.others
        self.prompts = EveryPrompt(source, torch.float32, important=others == 0)
        inside = self.prompts.inside.float()
        weights = (1 - others) * inside / inside.sum(1, keepdim=True)
        if others:
            weights = weights + others * (1 - inside) / (1 - inside).sum(1, keepdim=True)
        self.register_buffer("weights", weights)

    def forward(self, learner: Any, source: Any, draws: Draws) -> Float[Tensor, "replica"]:
        """The loss of each replica."""
        tasks = self.prompts.hinge(self.prompts.margins(learner, not self.options.related))
        penalty = self.options.decay * learner.weights.square().flatten(1).sum(1)
        return (tasks * self.get_buffer("weights")).sum(1) + penalty


@dataclass(frozen=True)
class LeastNorm:
    """log of the squared norm over the square of the smallest margin, which is smoothed and made sharper and sharper.

    Answers grow in proportion to the weights, so what is least is the norm that a margin of one takes.
    """

    def build(self, source: ParityPromptSource, learner: nn.Module, streams: Streams) -> "LeastNormLoss":
        """The loss with all prompts at hand."""
        return LeastNormLoss(source)


class LeastNormLoss(nn.Module):
    """`LeastNorm` at work."""

    def __init__(self, source: ParityPromptSource) -> None:
        super().__init__()
        self.prompts = EveryPrompt(source, torch.float32)
        self.register_buffer("sharpness", torch.full_like(self.prompts.moments[:, 0, 0], SHARP[0]))

    def forward(self, learner: SearchedNetwork, source: Any, draws: Draws) -> Float[Tensor, "replica"]:
        """The loss of each replica."""
        sharpness, margins = self.get_buffer("sharpness"), self.prompts.margins(learner).flatten(1)
        smallest = -torch.logsumexp(-sharpness[:, None] * margins, 1) / sharpness
        return learner.in_features.square().flatten(1).sum(1).log() - 2 * smallest.clamp(min=1e-3).log()


@dataclass(frozen=True)
class Sharpening:
    """A rule: the smallest margin of a `LeastNormLoss` is smooth at first and becomes sharp.

    Attributes:
        steps: of the whole search.
    """

    steps: int

    def build(self, experiment: Any) -> "SharpeningRule":
        """The rule."""
        return SharpeningRule(self)


class SharpeningRule(nn.Module):
    """`Sharpening` at work."""

    def __init__(self, config: Sharpening) -> None:
        super().__init__()
        self.config = config

    def forward(self, experiment: Any, step: int) -> None:
        """Set it for the next step; it follows from the number of the step alone."""
        low, high = SHARP
        done = min(1.0, step / self.config.steps)
        experiment.objective.get_buffer("sharpness").fill_(low * (high / low) ** done)
