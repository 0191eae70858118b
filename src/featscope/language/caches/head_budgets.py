"""More entries for heads that spread their attention, fewer for those that do not."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from transformers import PreTrainedModel

from featscope.language.attention import Attention
from featscope.language.caches.evicting import Evicting
from featscope.language.decoder import text_config
from featscope.language.keep import Keep
from featscope.language.selection import best, pooled
from featscope.options import ConfigError, require


@dataclass(frozen=True)
class HeadBudgets:
    """The best entries of all key heads of a layer, whichever head they are in (AdaKV, arXiv 2407.11550, Algorithm 1).

    A layer of h key heads keeps the h·k entries of the largest scores among all of its heads', k of them a head on
    average; of each head the window and the best ``floor``·(k - window) others are kept in any case (the paper's
    safeguard). A layer holds as many entries a head as its head with the most; the others' are hidden, so that memory
    falls less than the number of entries does.

    Attributes:
        cache: whose scores count.
        floor: share of the average that each head keeps.
    """

    cache: Evicting
    floor: float = 0.2
    ragged: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require(self, "cache", isinstance(self.cache, Evicting), "LastQueries or AllQueries")
        require(self, "floor", 0 <= self.floor <= 1, "0 to 1")

    @property
    def keep(self) -> Keep:
        """That of ``cache``, on average over heads."""
        return self.cache.keep

    def require(self, model: PreTrainedModel) -> None:
        """Raise `ConfigError` unless each layer's attention takes a mask of its own for each head."""
        name = model.config._attn_implementation
        if name not in ("eager", "sdpa"):
            raise ConfigError(
                f"HeadBudgets hides entries head by head, which attn_implementation = {name!r} cannot: allowed is "
                "eager or sdpa. Load the model with one of them"
            )
        if getattr(text_config(model), "num_kv_shared_layers", 0):
            raise ConfigError(
                f"HeadBudgets hides entries in the layers that hold them, and the last of {type(model).__name__} read "
                "those of others: allowed is LastQueries or AllQueries"
            )

    def forced(self) -> int:
        """The window."""
        return self.cache.window

    def budget(self, keep: int, layer: int, layers: int) -> int:
        """``keep``, in every layer."""
        return keep

    def choose(
        self, attention: Attention, real: Bool[Tensor, "batch token"], keep: int
    ) -> Int[Tensor, "batch kv_head kept"]:
        """The window, and what is best among all heads' older entries."""
        received = self.cache.scores(attention, real)
        batch, heads, length = received.shape
        old = length - self.cache.window
        count = keep - self.cache.window
        seen = real[:, :old].repeat_interleave(heads, 0)
        flat = pooled(received[..., :old].flatten(0, 1), seen, self.cache.pool, self.cache.kernel)
        ranked = flat.masked_fill(~seen, -torch.inf).unflatten(0, (batch, heads))
        if safe := int(self.floor * count):
            first = best(ranked, safe)
            values = ranked.gather(2, first)
            ranked = ranked.scatter(2, first, values.where(values.isinf(), torch.inf))
        top = best(ranked.flatten(1), heads * count)
        chosen = torch.zeros_like(ranked, dtype=torch.bool).flatten(1).scatter(1, top, True).unflatten(1, (heads, old))
        held = torch.cat([chosen & real[:, None, :old], real[:, None, old:].expand(-1, heads, -1)], -1)
        places = torch.where(held, torch.arange(length, device=real.device), -1).sort(-1).values
        return places[..., length - int(held.sum(-1).max()) :]
