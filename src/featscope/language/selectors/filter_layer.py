"""The rule of GemFilter: products of one query of a layer, or of some, with all of its keys."""

from dataclasses import dataclass
from typing import get_args

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.language.attention import Attention
from featscope.language.prompt import Prompt
from featscope.language.selection import Row, largest_row, scores, summed_queries
from featscope.language.selectors.of_layer import OfLayer
from featscope.options import require


@dataclass(frozen=True)
class FilterLayer(OfLayer):
    """One query's products with the keys of ``layer``, summed over heads (dissertation, Section 9.3.1 and Algorithm 2).

    Score of token i: Σ_j q_j·k_{j,i} over heads j, after rotary embedding, without softmax; the paper averages it over
    5 neighbours. ``window=0`` is the paper's rule, which keeps neither question nor first token for what they are.

    Attributes:
        row: whose query chooses; "last" is GemFilter, "window" sums the last ``window`` queries, "middle" and "largest"
            are the ablation of Section 9.4.4.
    """

    row: Row = "last"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "row", self.row in get_args(Row), "last, window, middle or largest")
        require(self, "window", self.row != "window" or self.window >= 1, ">= 1", "Its queries choose.")

    @property
    def rows(self) -> int | None:
        """The last one, those of the window, or all where another chooses."""
        return {"last": 1, "window": self.window}.get(self.row)

    def scores(self, reached: Attention, prompt: Prompt) -> Float[Tensor, "batch token"]:
        """Products of the row or rows that choose with all keys, summed over heads."""
        heads = reached.key.shape[1]
        if self.rows is not None:
            queries = summed_queries(reached.query[:, :, -self.rows :], heads)
            padding = ~prompt.real[:, None, -self.rows :, None]
            return scores(queries.masked_fill(padding, 0.0).sum(2), reached.key)
        queries = summed_queries(reached.query, heads)
        if self.row == "middle":
            length = prompt.real.sum(-1)
            chosen = prompt.ids.shape[-1] - length + length // 2
        else:
            chosen = largest_row(queries, reached.key, prompt.real)
        return scores(queries[torch.arange(len(chosen)), :, chosen], reached.key)
