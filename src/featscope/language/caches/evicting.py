"""What caches that drop entries by a score have in common."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from featscope.language.attention import Attention
from featscope.language.keep import Keep, require_keep
from featscope.language.selection import Pool, require_rule, select
from featscope.options import require


@dataclass(frozen=True)
class Evicting:
    """Base of caches in which each layer's key head keeps the last entries and the older ones of the largest scores.

    Attributes:
        keep: k, the entries that each key head keeps: a number, or a share of what is read. That is the prompt, or,
            where `ReadAgain` reads them, the chosen tokens.
        window: last entries that are among these in any case.
        pool: how scores of neighbours are pooled.
        kernel: neighbours that are pooled, an odd number.
    """

    keep: Keep
    window: int = 32
    pool: Pool = field(default="none", kw_only=True)
    kernel: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        require_keep(self, cost=False)
        require(self, "window", self.window >= 1, ">= 1")
        cure = "The window is part of what is kept: keep more, or choose a smaller window."
        fine = not isinstance(self.keep, int) or self.keep > self.window
        require(self, "keep", fine, f"> window = {self.window}", cure)
        require_rule(type(self).__name__, self.keep, self.pool, self.kernel)

    def scores(self, attention: Attention, real: Bool[Tensor, "batch token"]) -> Float[Tensor, "batch kv_head token"]:
        """What the choice goes by, larger for entries that are kept."""
        raise NotImplementedError

    def require(self, model: PreTrainedModel) -> None:
        """Any model can whose cache can drop entries, which is looked at with the prompt."""

    def forced(self) -> int:
        """The window."""
        return self.window

    def budget(self, keep: int, layer: int, layers: int) -> int:
        """``keep``, in every layer."""
        return keep

    def choose(
        self, attention: Attention, real: Bool[Tensor, "batch token"], keep: int
    ) -> Int[Tensor, "batch kv_head kept"]:
        """The window, and before it the ``keep`` - window places of the largest scores."""
        received = self.scores(attention, real)
        batch, heads, length = received.shape
        old = real[:, : length - self.window].repeat_interleave(heads, 0)
        flat = received[..., : length - self.window].flatten(0, 1)
        best = select(flat, old, keep - self.window, self.pool, self.kernel)
        last = torch.arange(length - self.window, length, device=real.device)
        newest = last.masked_fill(~real[:, length - self.window :], -1)[:, None].expand(-1, heads, -1)
        return torch.cat([best.unflatten(0, (batch, heads)), newest], -1)
