"""Caches that choose nothing themselves."""

from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor
from transformers import PreTrainedModel

from featscope.language.attention import Attention
from featscope.language.keep import Keep


@dataclass(frozen=True)
class Full:
    """Every layer holds all that it has read, in the model's own cache."""

    @property
    def keep(self) -> Keep | None:
        """All, or what others choose."""
        return None

    def require(self, model: PreTrainedModel) -> None:
        """Any model can."""

    def forced(self) -> int:
        """None."""
        return 0

    def budget(self, keep: int, layer: int, layers: int) -> int:
        """``keep``."""
        return keep

    def choose(
        self, attention: Attention, real: Bool[Tensor, "batch token"], keep: int
    ) -> Int[Tensor, "batch kv_head kept"]:
        """Never asked."""
        raise NotImplementedError


@dataclass(frozen=True)
class Selected(Full):
    """Every layer holds what it has read of the chosen tokens: the layers up to the selector's drop the others.

    With all tokens in all layers this is GemFilter-One-Run (dissertation, Section G.4.5); with chosen hidden states
    above the layer, PromptDistill's cache truncation (arXiv 2503.23274).
    """
