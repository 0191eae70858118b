"""GemFilter: an early layer chooses the tokens, the whole model reads only those."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featscope.language.attention import Attention
from featscope.language.context import Context
from featscope.language.decoder import (
    require_attention,
    require_context,
    require_decoder,
    require_seeing,
    text_config,
)
from featscope.language.eviction import Eviction
from featscope.language.first_pass import attention_at, attention_in_chunks
from featscope.language.method import FullCache, Method, OfModel, counted_from, require_own_input
from featscope.language.output import with_kept, with_prompt
from featscope.language.prompt import Prompt, asked_prompt, padding_token, read_prompt
from featscope.language.selection import (
    Pool,
    Row,
    largest_row,
    require_rule,
    require_window,
    scores,
    select,
    summed_queries,
)
from featscope.options import ConfigError, require


@dataclass
class GemFilter(OfModel):
    """Two-pass generation from long prompts (dissertation, Chapter 9, Algorithm 2).

    The first pass runs the layers below ``layer`` on the whole prompt and keeps no cache; the queries and keys of
    ``layer`` choose ``keep`` tokens (`featscope.language.selection`). The second is the model's own ``generate`` on
    these tokens, at positions 0 to keep - 1: sampling, beams, streamers and stopping criteria work, and see the kept
    tokens as the prompt.

    Attributes:
        model: a decoder with rotary embedding; or another method (`SnapKV`, say), whose model this then is, and which
            does the second pass.
        layer: r, the layer that chooses, from 0 as in the model's configuration; `choose_layer` finds one.
        keep: k, the tokens kept.
        window: last tokens of the prompt that are among these in any case, as the question is. 0 is the paper's rule,
            which keeps neither question nor first token for what they are.
        pool: how scores of neighbours are pooled. The paper's text says maximum, its code averages.
        kernel: neighbours that are pooled, an odd number.
        force_keep: other places kept in any case, from the prompt's first token, or its last if negative.
        row: whose query chooses; "last" is GemFilter, the others are the ablation of Section 9.4.4.
        chunk: tokens that go through a layer at once in the first pass; None for all. Smaller ones need less memory
            for the same result, up to rounding.
    """

    model: Any
    layer: int
    keep: int
    window: int = 32
    pool: Pool = "avg"
    kernel: int = 5
    force_keep: Sequence[int] = ()
    row: Row = "last"
    chunk: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.model, GemFilter):
            raise ConfigError("model = GemFilter has a second pass already: allowed is a model, SnapKV or H2O")
        second = self.model if isinstance(self.model, (FullCache, Eviction)) else None
        self.model = second.model if second else self.model
        require_decoder(self.model)
        self.second: Method = second or FullCache(self.model)
        layers = text_config(self.model).num_hidden_layers
        cure = "Layers count from 0; choose_layer finds one for your model."
        require(self, "layer", 0 <= self.layer < layers, f"0 to {layers - 1}", cure)
        require_attention(self.model, self.layer)
        require_window(self)
        require_rule("GemFilter", self.keep, self.pool, self.kernel, self.force_keep, self.window)
        require(self, "row", self.row in ("last", "middle", "largest"), "last, middle or largest")
        require(self, "chunk", self.chunk is None or self.chunk >= 1, ">= 1, or None")

    def generate(self, input_ids: Any = None, attention_mask: Any = None, **options: Any) -> Any:
        """Generate from the kept tokens.

        Args:
            input_ids: prompts, a tensor ``[batch, token]``, padded on the left.
            attention_mask: 0 at padding; found by the padding token if None, as in the model's ``generate``.
            options: those of the model's ``generate``.

        Returns:
            what the model's ``generate`` returns: the whole prompt with what was generated. Its attribute ``kept`` is
            what `select` returned.

        Raises:
            ConfigError: the prompt is longer than the model's context, or hidden from the filter layer by its window.
        """
        require_own_input(options)
        prompt, options = asked_prompt(self.model, input_ids, attention_mask, options)
        return self.answer(prompt, self._select(prompt), **options)

    def read(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Context:
        """Read a document once, to ask about it many times.

        Args:
            input_ids: documents ``[batch, token]``, padded on the left.
            attention_mask: as of `generate`.

        Raises:
            ConfigError: a document is longer than the model's context, or another row than the last chooses.
        """
        require(self, "row", self.row == "last", "last, where a document is asked about")
        return Context(self, read_prompt(self.model, input_ids, attention_mask))

    def answer(self, prompt: Prompt, kept: Int[Tensor, "batch kept"], **options: Any) -> Any:
        """The second pass alone: generate from the tokens of ``prompt`` at ``kept``, as `generate` does."""
        require_own_input(options)
        short = prompt.take(kept, padding_token(self.model) or 0)
        options = counted_from(prompt.ids.shape[-1], self.model, options)
        output = self.second.generate(short.ids, short.mask, **options)
        if short.ids.shape != prompt.ids.shape:
            _spend(output)
        return with_kept(with_prompt(output, short.ids.shape[-1], prompt.ids), kept)

    def select(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Int[Tensor, "batch kept"]:
        """The first pass alone: places of the kept tokens, ascending; -1 on the left of prompts shorter than others."""
        return self._select(read_prompt(self.model, input_ids, attention_mask))

    @torch.no_grad()
    def _select(self, prompt: Prompt) -> Int[Tensor, "batch kept"]:
        require_context(self.model, prompt)
        require_seeing(self.model, prompt, [self.layer])
        if self.chunk is None:
            return self.choose(attention_at(self.model, prompt, self.layer), prompt)
        queries: list[Tensor] = []
        for reached in attention_in_chunks(self.model, prompt, self.layer, self.chunk):
            queries = [*([] if self.row == "last" else queries), self._queries(reached)]
        return self._chosen(torch.cat(queries, 2), reached.key, prompt)

    def choose(self, reached: Attention, prompt: Prompt) -> Int[Tensor, "batch kept"]:
        """The tokens of ``prompt`` that the filter layer chooses, given what enters its attention."""
        return self._chosen(self._queries(reached), reached.key, prompt)

    def _chosen(self, queries: Tensor, key: Tensor, prompt: Prompt) -> Int[Tensor, "batch kept"]:
        found = scores(self._choosing(queries, key, prompt), key)
        force = (*range(-self.window, 0), *self.force_keep)
        return select(found, prompt.real, self.keep, self.pool, self.kernel, force)

    def _queries(self, reached: Attention) -> Float[Tensor, "batch kv_head row channel"]:
        """Summed queries, of the rows that may choose."""
        rows = reached.query[:, :, -1:] if self.row == "last" else reached.query
        return summed_queries(rows, reached.key.shape[1])

    def _choosing(self, queries: Tensor, key: Tensor, prompt: Prompt) -> Float[Tensor, "batch kv_head channel"]:
        """The summed queries of the row that chooses."""
        if self.row == "last":
            return queries[:, :, -1]
        if self.row == "middle":
            length = prompt.real.sum(-1)
            chosen = prompt.ids.shape[-1] - length + length // 2
        else:
            chosen = largest_row(queries, key, prompt.real)
        return queries[torch.arange(len(chosen)), :, chosen]


def _spend(output: Any) -> None:
    """Let the cache of an ``output`` refuse to go on: it holds the kept tokens, and the output's text is the whole."""
    cache = getattr(output, "past_key_values", None)
    if cache is not None:
        cache.update = _refuse


def _refuse(*arguments: Any, **options: Any) -> None:
    raise ConfigError(
        "past_key_values of GemFilter's output hold the kept tokens of a prompt, at places that are not those of its "
        "sequences: going on from them would read tokens twice. To go on, or to ask again, use "
        "context = gem.read(ids), context.ask(question) and context.add(turn)."
    )
