"""The cache of H2O: what all queries attend to."""

from dataclasses import dataclass
from typing import cast

from jaxtyping import Bool, Float
from torch import Tensor

from featscope.language.attention import Attention, attention_weights
from featscope.language.caches.evicting import Evicting

_ROWS_AT_ONCE = 256


@dataclass(frozen=True)
class AllQueries(Evicting):
    """Attention weights of all queries: heavy hitters (H2O, Zhang et al. 2023, arXiv 2306.14048).

    Score of an entry: Σ_i softmax(q_i·K/√d), summed over all queries and the heads of the group. Entries are dropped
    once, after the prompt, as in the paper's comparison; the original goes on while it generates. Weights are formed
    again for the sum: time grows as the square of the prompt's length.
    """

    def scores(self, attention: Attention, real: Bool[Tensor, "batch token"]) -> Float[Tensor, "batch kv_head token"]:
        """Weights that each entry gets from all queries."""
        rows = attention.query.shape[2]
        blocks = [slice(start, min(start + _ROWS_AT_ONCE, rows)) for start in range(0, rows, _ROWS_AT_ONCE)]
        return cast(Tensor, sum(attention_weights(attention, real, block).sum((2, 3)) for block in blocks))
