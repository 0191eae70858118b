"""A small decoder on numbers modulo p, many replicas as one program: a_1 ... a_k =, with the answer read at "=".

Pre-norm blocks of causal attention and a GELU MLP, learned positions, a linear read-out onto labels; norms have no
weights of their own, and there is no dropout. The signs between numbers, which are always the same, are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm, scaled_dot_product_attention

from featscope.options import require
from featscope.streams import Draws


@dataclass(frozen=True)
class Decoder:
    """Options of `DecoderNetwork`.

    Attributes:
        layers: blocks.
        width: of the residual stream.
        heads: in a block.
        head_dim: of keys, queries and values of a head; width over heads if 0.
    """

    layers: int = 2
    width: int = 32
    heads: int = 4
    head_dim: int = 0

    def __post_init__(self) -> None:
        for name in ("layers", "width", "heads"):
            require(self, name, getattr(self, name) >= 1, ">= 1")
        require(self, "head_dim", self.head_dim >= 0, ">= 0; 0 for width over heads")
        fits = self.head_dim > 0 or self.width % self.heads == 0
        require(self, "heads", fits, "a divisor of width", "Or set head_dim.")

    def build(self, source: Any, draws: Draws) -> "DecoderNetwork":
        """A network with random weights for the k and p of ``source``."""
        k, p, d = source.options.inputs, source.options.modulus, self.width
        inner = self.heads * (self.head_dim or d // self.heads)
        small = (2 * self.layers) ** -0.5  # each block adds its part

        def weights(rows: int, columns: int, scale: float = 1.0) -> Tensor:
            return scale * draws.normal(rows, columns) / rows**0.5

        embedding, position = draws.normal(p + 1, d), 0.3 * draws.normal(k + 1, d)
        blocks = [
            (weights(d, 3 * inner), weights(inner, d, small), weights(d, 4 * d), weights(4 * d, d, small))
            for _ in range(self.layers)
        ]
        return DecoderNetwork(embedding, position, blocks, weights(d, p), self.heads)


class DecoderNetwork(nn.Module):
    """Blocks of attention and MLP.

    Args:
        embedding: of numbers, and of "=" last.
        position: embedding of each place.
        blocks: of each, what makes queries, keys and values; what projects heads back; the MLP's two layers.
        readout: of the stream at "=".
        heads: in a block.
    """

    def __init__(
        self,
        embedding: Float[Tensor, "replica token width"],
        position: Float[Tensor, "replica place width"],
        blocks: list[tuple[Tensor, Tensor, Tensor, Tensor]],
        readout: Float[Tensor, "replica width label"],
        heads: int,
    ) -> None:
        super().__init__()
        self.embedding, self.position = nn.Parameter(embedding), nn.Parameter(position)
        self.blocks = nn.ModuleList([nn.ParameterList(map(nn.Parameter, block)) for block in blocks])
        self.readout, self.heads = nn.Parameter(readout), heads

    @property
    def numbers(self) -> Float[Tensor, "replica number width"]:
        """The embeddings of numbers."""
        return self.embedding[:, :-1]

    def norm(self) -> Float[Tensor, "replica"]:
        """Euclidean norm of all weights."""
        squares = [p.flatten(1).square().sum(1) for p in self.parameters()]
        return torch.stack(squares).sum(0).sqrt()

    def forward(self, points: Int[Tensor, "replica point input"]) -> Float[Tensor, "replica point label"]:
        """Logits. In the last block only "=" asks; nothing else is read."""
        tokens = torch.cat([points, torch.full_like(points[..., :1], self.embedding.shape[1] - 1)], -1)
        width = self.embedding.shape[-1]
        rows = self.embedding.gather(1, tokens.flatten(1)[..., None].expand(-1, -1, width))
        stream = rows.view(*tokens.shape, width) + self.position[:, None]
        for place, block in enumerate(self.blocks, 1):
            stream = self._through(stream, list(block.parameters()), only_last=place == len(self.blocks))
        return _normed(stream[:, :, -1]) @ self.readout

    def _through(self, stream: Tensor, block: Sequence[Tensor], only_last: bool) -> Tensor:
        attention, back, up, down = block
        inner = back.shape[1]
        seen = _normed(stream)
        if only_last:
            stream = stream[:, :, -1:]
        asking = seen[:, :, -1:] if only_last else seen
        query = self._by_head(asking, attention[..., :inner])
        key, value = (self._by_head(seen, attention[..., at : at + inner]) for at in (inner, 2 * inner))
        attended = scaled_dot_product_attention(query, key, value, is_causal=not only_last)
        stream = stream + _times(attended.transpose(2, 3).flatten(3), back)
        return stream + _times(gelu(_times(_normed(stream), up)), down)

    def _by_head(self, tokens: Tensor, weights: Tensor) -> Float[Tensor, "replica point head place dim"]:
        return _times(tokens, weights).unflatten(-1, (self.heads, -1)).transpose(2, 3)


def _normed(stream: Tensor) -> Tensor:
    return layer_norm(stream, stream.shape[-1:])


def _times(
    tokens: Float[Tensor, "replica point place a"], weights: Float[Tensor, "replica a b"]
) -> Float[Tensor, "replica point place b"]:
    return (tokens.flatten(1, 2) @ weights).unflatten(1, tokens.shape[1:3])
