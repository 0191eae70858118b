"""One layer of softmax attention and nothing else, for numbers modulo p (dissertation, Section 4.5).

    W^P [ W_h^Vᵀ E softmax(Eᵀ W_h^K W_h^Qᵀ E) ]_h

Columns of E are tokens, so that softmax normalises each column, over keys. There is no residual, MLP, norm, scale, mask
or position; heads are stacked and then projected, here onto the labels.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featscope.numbers import per_replica
from featscope.options import require, require_word
from featscope.streams import Draws

Read = Literal["last", "equals"]
"""In which column the answer is read, which the source leaves open: that of the last number, or that of a token "="
after it, as in the code that the source builds on."""


@dataclass(frozen=True)
class AttentionOnly:
    """Options of `AttentionOnlyNetwork`.

    Attributes:
        heads: m.
        hidden: dimension of an embedding.
        head_dim: of keys, queries and values of a head.
        read: where the answer is read.
        scale: of all weights at the start, in units of one over the root of what they sum over.
    """

    floats_per_replica = True

    heads: int = 16
    hidden: int = 32
    head_dim: int = 8
    read: Read = "last"
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name in ("heads", "hidden", "head_dim"):
            require(self, name, getattr(self, name) >= 1, ">= 1")
        require_word(self, "read")
        require(self, "scale", self.scale > 0, "> 0")

    def build(self, source: Any, draws: Draws) -> "AttentionOnlyNetwork":
        """A network with random weights for the p of ``source``."""
        p, h, d, n = source.options.modulus, self.heads, self.hidden, self.head_dim
        tokens = p + (self.read == "equals")
        shapes = {"embedding": (d, tokens), "key": (h, d, n), "query": (h, d, n), "value": (h, d, n)}
        weights = {name: draws.normal(*shape) / d**0.5 for name, shape in shapes.items()}
        weights["projection"] = draws.normal(p, h * n) / (h * n) ** 0.5
        return AttentionOnlyNetwork(
            **{name: per_replica(self.scale, one) * one for name, one in weights.items()}, read=self.read
        )


class AttentionOnlyNetwork(nn.Module):
    """One layer of attention.

    Args:
        embedding: E; the last column is "=" if the answer is read there.
        key: W^K of each head.
        query: W^Q.
        value: W^V.
        projection: W^P, of the stacked heads onto labels.
        read: where the answer is read.
    """

    def __init__(
        self,
        embedding: Float[Tensor, "replica hidden token"],
        key: Float[Tensor, "replica head hidden dim"],
        query: Float[Tensor, "replica head hidden dim"],
        value: Float[Tensor, "replica head hidden dim"],
        projection: Float[Tensor, "replica label stacked"],
        read: Read = "last",
    ) -> None:
        super().__init__()
        self.embedding, self.key, self.query = nn.Parameter(embedding), nn.Parameter(key), nn.Parameter(query)
        self.value, self.projection = nn.Parameter(value), nn.Parameter(projection)
        self.read = read

    @property
    def numbers(self) -> Float[Tensor, "replica hidden number"]:
        """The embeddings of numbers."""
        return self.embedding[..., : self.projection.shape[1]]

    def scores(
        self, embedding: Float[Tensor, "replica hidden token"]
    ) -> Float[Tensor, "replica head key_token query_token"]:
        """Eᵀ W^K W^Qᵀ E of any tokens: keys down, queries across."""
        keys, queries = (embedding[:, None].mT @ weights for weights in (self.key, self.query))
        return keys @ queries.mT

    def attention_matrices(self) -> Float[Tensor, "replica head key_token query_token"]:
        """W^KQ of each head in the coordinates of numbers, E_numᵀ W^K W^Qᵀ E_num."""
        return self.scores(self.numbers)

    def forward(
        self,
        points: Int[Tensor, "replica point input"],
        scores: Float[Tensor, "replica head key_token query_token"] | None = None,
    ) -> Float[Tensor, "replica point label"]:
        """Logits. Scores and what each token brings to each label are tables over tokens, from which rows are taken.

        Args:
            points: numbers to add.
            scores: of any tokens, in place of the network's own.
        """
        replicas, heads, tokens = len(points), self.key.shape[1], self.embedding.shape[-1]
        if self.read == "equals":
            points = torch.cat([points, torch.full_like(points[..., :1], tokens - 1)], -1)
        table = (self.scores(self.embedding) if scores is None else scores).flatten(2)
        pairs = (points * tokens + points[..., -1:]).flatten(1)
        asked = table.gather(2, pairs[:, None].expand(-1, heads, -1)).view(replicas, heads, *points.shape[1:])
        attention = asked.softmax(-1)
        on_tokens = attention.new_zeros(*attention.shape[:3], tokens)
        on_tokens = on_tokens.scatter_add(-1, points[:, None].expand_as(attention), attention)
        stacked = self.projection.unflatten(-1, (heads, -1)).transpose(1, 2)
        brought = self.embedding[:, None].mT @ self.value @ stacked.mT
        return on_tokens.transpose(1, 2).flatten(2) @ brought.flatten(1, 2)
