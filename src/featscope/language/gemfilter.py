"""GemFilter: an early layer chooses the tokens, the whole model reads only those."""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel
from transformers.masking_utils import create_causal_mask

from featscope.language.attention import Attention, watched
from featscope.language.eviction import Eviction
from featscope.language.method import (
    FullCache,
    Method,
    require_decoder,
    require_fitting,
    require_own_prompt,
    with_kept,
    with_prompt,
)
from featscope.language.prompt import Prompt, padding_token, read_prompt
from featscope.language.selection import Pool, Row, largest_row, require_rule, scores, select, summed_queries
from featscope.options import ConfigError, require


@dataclass
class GemFilter:
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
        pool: how scores of neighbours are pooled. The paper's text says maximum, its code averages.
        kernel: neighbours that are pooled, an odd number.
        force_keep: places kept in any case, from the prompt's first token, or its last if negative. Nothing in the
            rule keeps the first token or the question.
        row: whose query chooses; "last" is GemFilter, the others are the ablation of Section 9.4.4.
        chunk: tokens that go through a layer at once in the first pass; None for all. Smaller ones need less memory
            for the same result, up to rounding.
    """

    model: Any
    layer: int
    keep: int
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
        layers = self.model.config.num_hidden_layers
        cure = "Layers count from 0; choose_layer finds one for your model."
        require(self, "layer", 0 <= self.layer < layers, f"0 to {layers - 1}", cure)
        require_rule("GemFilter", self.keep, self.pool, self.kernel, self.force_keep)
        require(self, "row", self.row in ("last", "middle", "largest"), "last, middle or largest")
        require(self, "chunk", self.chunk is None or self.chunk >= 1, ">= 1, or None")

    def generate(self, input_ids: Tensor, attention_mask: Tensor | None = None, **options: Any) -> Any:
        """Generate from the kept tokens.

        Args:
            input_ids: prompts ``[batch, token]``, padded on the left.
            attention_mask: 0 at padding; found by the padding token if None, as in the model's ``generate``.
            options: those of the model's ``generate``.

        Returns:
            what the model's ``generate`` returns: the whole prompt with what was generated. Its attribute ``kept`` is
            what `select` returned.

        Raises:
            ConfigError: the prompt is longer than the model's context, or hidden from layers by sliding windows.
        """
        require_own_prompt(options)
        prompt = read_prompt(self.model, input_ids, attention_mask)
        kept = self._select(prompt)
        short = prompt.take(kept, padding_token(self.model) or 0)
        output = self.second.generate(short.ids, short.mask, **options)
        return with_kept(with_prompt(output, short.ids.shape[-1], prompt.ids), kept)

    def select(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Int[Tensor, "batch kept"]:
        """The first pass alone: places of the kept tokens, ascending; -1 on the left of prompts shorter than others."""
        return self._select(read_prompt(self.model, input_ids, attention_mask))

    @torch.no_grad()
    def _select(self, prompt: Prompt) -> Int[Tensor, "batch kept"]:
        require_fitting(self.model, prompt, range(self.layer + 1))
        query, key = self._whole(prompt) if self.chunk is None else self._chunked(prompt, self.chunk)
        return select(scores(query, key), prompt.real, self.keep, self.pool, self.kernel, self.force_keep)

    def _whole(self, prompt: Prompt) -> tuple[Tensor, Tensor]:
        """The choosing row's summed queries, and the keys, at the filter layer."""
        reached = attention_at(self.model, prompt, self.layer)
        rows = reached.query[:, :, -1:] if self.row == "last" else reached.query
        return self._choosing(summed_queries(rows, reached.key.shape[1]), reached.key, prompt), reached.key

    def _chunked(self, prompt: Prompt, chunk: int) -> tuple[Tensor, Tensor]:
        """The same, layer by layer, and chunk by chunk within a layer: only one layer's keys and values exist."""
        hidden, given = _entering(self.model, prompt)
        own_angles = any(isinstance(of_kind, dict) for of_kind in self.model.config.rope_parameters.values())
        takes = inspect.signature(_blocks(self.model)[0].forward).parameters
        if own_angles or "past_key_values" not in takes or not isinstance(given.get("position_embeddings"), tuple):
            raise ConfigError(
                f"chunk = {chunk} needs layers that share their rotary angles and take past_key_values: those of "
                f"{type(self.model).__name__} do not. Leave out chunk."
            )
        pieces = [slice(start, start + chunk) for start in range(0, hidden.shape[1], chunk)]
        for layer in range(self.layer):
            for piece, result in self._through(layer, hidden, given, prompt, pieces):
                hidden[:, piece] = result
        queries: list[Tensor] = []
        reached = _Until(self.layer)
        with watched(self.model, reached):
            for _ in self._through(self.layer, hidden, given, prompt, pieces):
                query, key = reached.attention.query, reached.attention.key
                rows = query[:, :, -1:] if self.row == "last" else query
                queries = [*([] if self.row == "last" else queries), summed_queries(rows, key.shape[1])]
        return self._choosing(torch.cat(queries, 2), key, prompt), key

    def _through(
        self, layer: int, hidden: Tensor, given: dict[str, Any], prompt: Prompt, pieces: Sequence[slice]
    ) -> Iterator[tuple[slice, Tensor]]:
        """What ``layer`` makes of each piece of ``hidden``; nothing where an observer ends it."""
        cache = DynamicCache()
        block: Any = _blocks(self.model)[layer]
        for piece in pieces:
            part = hidden[:, piece]
            positions = prompt.positions[:, piece]
            mask = create_causal_mask(
                self.model.config,
                part,
                prompt.mask[:, : piece.start + part.shape[1]],
                cache,
                positions,
                layer_idx=layer,
            )
            own = {
                "position_embeddings": tuple(angle[:, piece] for angle in given["position_embeddings"]),
                "position_ids": positions,
                "attention_mask": mask,
                "past_key_values": cache,
                "use_cache": True,
            }
            try:
                result = block(part, **given | own)
            except _ReachedError:
                result = part
            yield piece, result if isinstance(result, Tensor) else result[0]

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


def attention_at(model: PreTrainedModel, prompt: Prompt, layer: int) -> Attention:
    """What enters the attention of ``layer``: the model's own pass, up to there.

    Raises:
        ConfigError: that layer has no attention.
    """
    reached = _Until(layer)
    with watched(model, reached):
        _run(model, prompt)
    if not hasattr(reached, "attention"):
        raise ConfigError(f"layer = {layer} of {type(model).__name__} has no attention: choose one that has")
    return reached.attention


class _ReachedError(Exception):
    """The first pass has what it needs."""


class _Until:
    """Ends a forward pass at the attention of a layer, and has it."""

    attention: Attention

    def __init__(self, layer: int) -> None:
        self.layer = layer

    def before(self, attention: Attention) -> None:
        if attention.layer == self.layer:
            self.attention = attention
            raise _ReachedError

    def after(self, attention: Attention) -> None:
        pass


def _run(model: PreTrainedModel, prompt: Prompt) -> None:
    """The model on the prompt, without its head, until something raises `_ReachedError`."""
    with suppress(_ReachedError):
        model.base_model(prompt.ids, attention_mask=prompt.mask, position_ids=prompt.positions, use_cache=False)


def _blocks(model: PreTrainedModel) -> nn.ModuleList:
    """The model's layers: its only list of modules that has as many."""
    count = model.config.num_hidden_layers
    return next(m for m in model.base_model.children() if isinstance(m, nn.ModuleList) and len(m) == count)


def _entering(model: PreTrainedModel, prompt: Prompt) -> tuple[Tensor, dict[str, Any]]:
    """What enters the first layer: embedded tokens, and the other arguments."""
    found: dict[str, Any] = {}

    def stop(module: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        found["hidden"], found["options"] = arguments[0], options
        raise _ReachedError

    handle = _blocks(model)[0].register_forward_pre_hook(stop, with_kwargs=True)
    try:
        _run(model, prompt)
    finally:
        handle.remove()
    return found["hidden"], found["options"]
