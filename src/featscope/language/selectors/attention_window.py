"""What the last queries of one layer attend to."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from featscope.language.attention import Attention, attention_weights
from featscope.language.prompt import Prompt
from featscope.language.selectors.of_layer import OfLayer
from featscope.options import require


@dataclass(frozen=True)
class AttentionWindow(OfLayer):
    """Attention weights of the last ``window`` queries in ``layer``, summed over heads (FastKV, arXiv 2502.01068).

    Score of token i: Σ_j Σ_w softmax(q_{j,w}·K_j/√d)_i over heads j and the window's queries w, pooled over neighbours;
    the window itself is kept. This is how FastKV's token-selective propagation layer ranks tokens. With ``block`` of
    more than one token, whole blocks are kept by their mean, as in ChunkKV (arXiv 2502.00299).
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "window", self.window >= 1, ">= 1", "Its queries choose.")

    @property
    def rows(self) -> int | None:
        """Those of the window."""
        return self.window

    def scores(self, reached: Attention, prompt: Prompt) -> Float[Tensor, "batch token"]:
        """Weights that each token gets from the window, summed."""
        return attention_weights(reached, prompt.real, slice(-self.window, None)).sum((1, 2, 3))
