"""The cache of SnapKV: what the last queries attend to."""

from dataclasses import dataclass, field

from jaxtyping import Bool, Float
from torch import Tensor

from featscope.language.attention import Attention, attention_weights
from featscope.language.caches.evicting import Evicting
from featscope.language.selection import Pool


@dataclass(frozen=True)
class LastQueries(Evicting):
    """Attention weights of the last ``window`` queries (SnapKV, Li et al. 2024, arXiv 2404.14469).

    Score of an entry: Σ_w softmax(q_w·K/√d), summed over the window's queries and the heads of the group, and averaged
    over neighbours. The original repeats keys for every query head and keeps a set for each; one set a key head needs a
    cache smaller by the size of the group.
    """

    pool: Pool = field(default="avg", kw_only=True)
    kernel: int = field(default=5, kw_only=True)

    def scores(self, attention: Attention, real: Bool[Tensor, "batch token"]) -> Float[Tensor, "batch kv_head token"]:
        """Weights that each entry gets from the window."""
        return attention_weights(attention, real, slice(-self.window, None)).sum((2, 3))
