"""What selectors that look into one layer's attention have in common."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from featscope.language.attention import Attention
from featscope.language.decoder import require_attention, require_context, require_seeing, text_config
from featscope.language.first_pass import attention_at, attention_in_chunks
from featscope.language.keep import Keep, operations_of, require_keep
from featscope.language.prompt import Prompt
from featscope.language.selection import Forcing, Pool, places_of, require_rule, require_window, select
from featscope.options import require


@dataclass(frozen=True)
class OfLayer(Forcing):
    """Base of selectors that look into the attention of one layer: the layers below it read the whole prompt.

    Attributes:
        layer: r, the layer that chooses, from 0 as in the model's configuration; `choose_layer` finds one.
        keep: k, the tokens kept: a number, a share of the prompt, or a `Cost`.
        window: last tokens of the prompt that are among these in any case, as the question is.
        pool: how scores of neighbours are pooled.
        kernel: neighbours that are pooled, an odd number.
        force_keep: other places kept in any case, from the prompt's first token, or its last if negative.
        block: neighbours that are kept or dropped together, counted from the prompt's first token.
        chunk: tokens that go through a layer at once, where the selector reads by itself; None for all. Smaller ones
            need less memory for the same result, up to rounding.
    """

    layer: int
    keep: Keep
    window: int = 32
    pool: Pool = "avg"
    kernel: int = 5
    force_keep: Sequence[int] = ()
    block: int = 1
    chunk: int | None = None

    def __post_init__(self) -> None:
        require_keep(self, cost=True)
        require_window(self)
        who = type(self).__name__
        object.__setattr__(self, "force_keep", places_of(who, self.force_keep))  # what is given may be read once
        require_rule(who, self.keep, self.pool, self.kernel, self.force_keep, self.window)
        require(self, "block", self.block >= 1, ">= 1")
        require(self, "chunk", self.chunk is None or self.chunk >= 1, ">= 1, or None")

    @property
    def rows(self) -> int | None:
        """Last queries that it looks at; None for all."""
        raise NotImplementedError

    def scores(self, reached: Attention, prompt: Prompt) -> Float[Tensor, "batch token"]:
        """What the choice goes by, larger for tokens that are kept."""
        raise NotImplementedError

    def require(self, model: PreTrainedModel) -> None:
        """Raise `ConfigError` unless ``layer`` of ``model`` can choose."""
        layers = text_config(model).num_hidden_layers
        cure = "Layers count from 0; choose_layer finds one for your model."
        require(self, "layer", 0 <= self.layer < layers, f"0 to {layers - 1}", cure)
        require_attention(model, self.layer)

    def spent(self, model: PreTrainedModel, length: int) -> float:
        """Operations of the layers below."""
        return operations_of(model, length, range(self.layer))

    def choose(self, reached: Attention, prompt: Prompt, keep: int) -> Int[Tensor, "batch kept"]:
        """The ``keep`` tokens of the largest scores, given what enters the layer's attention."""
        found = self.scores(reached, prompt)
        return select(found, prompt.real, keep, self.pool, self.kernel, self.always_kept, self.block)

    @torch.no_grad()
    def select(self, model: PreTrainedModel, prompt: Prompt, keep: int) -> Int[Tensor, "batch kept"]:
        """The same, after the layers below have read ``prompt``; nothing of what they made of it is held.

        Raises:
            ConfigError: the prompt is longer than the model's context, or hidden from the layer by its window.
        """
        require_context(model, prompt)
        require_seeing(model, prompt, [self.layer])
        if self.chunk is None:
            return self.choose(attention_at(model, prompt, self.layer), prompt, keep)
        queries: list[Tensor] = []
        for reached in attention_in_chunks(model, prompt, self.layer, self.chunk):
            queries.append(reached.query)
            if self.rows is not None:
                queries = [torch.cat(queries, 2)[:, :, -self.rows :]]
        return self.choose(reached._replace(query=torch.cat(queries, 2)), prompt, keep)
