"""More entries for early layers, fewer for late ones."""

from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor
from transformers import PreTrainedModel

from featscope.language.attention import Attention
from featscope.language.caches.evicting import Evicting
from featscope.language.keep import Keep
from featscope.options import require


@dataclass(frozen=True)
class LayerBudgets:
    """Budgets that fall in equal steps from the first layer to the last (PyramidKV, arXiv 2406.02069).

    Beside its window the last of m layers keeps a share ``last`` of the average, the first 2 - ``last`` of it:
    k_l = w + (k - w)·(2 - last - 2(1 - last)·l/(m - 1)). Of a prompt of no more than k tokens, too, late layers drop
    some, where the paper's code keeps all; and what early layers cannot fill goes to no other.

    Attributes:
        cache: what chooses in each layer.
        last: of the last layer's budget in the average one; 1 for the same in all layers.
    """

    cache: Evicting
    last: float = 0.1

    def __post_init__(self) -> None:
        require(self, "cache", isinstance(self.cache, Evicting), "LastQueries or AllQueries")
        require(self, "last", 0 < self.last <= 1, "(0, 1]")

    @property
    def keep(self) -> Keep:
        """That of ``cache``, on average over layers."""
        return self.cache.keep

    def require(self, model: PreTrainedModel) -> None:
        """Any model can whose cache can drop entries."""

    def forced(self) -> int:
        """The window."""
        return self.cache.window

    def budget(self, keep: int, layer: int, layers: int) -> int:
        """k_l, rounded, and at least one more than the window."""
        middle = layer / (layers - 1) if layers > 1 else 0.5
        factor = 2 - self.last - 2 * (1 - self.last) * middle
        return self.cache.window + max(1, round((keep - self.cache.window) * factor))

    def choose(
        self, attention: Attention, real: Bool[Tensor, "batch token"], keep: int
    ) -> Int[Tensor, "batch kv_head kept"]:
        """What ``cache`` chooses."""
        return self.cache.choose(attention, real, keep)
