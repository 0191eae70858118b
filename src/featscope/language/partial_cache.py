"""A cache of which each layer can drop a part of what it has seen."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import Cache, DynamicCache, DynamicLayer, PreTrainedModel
from transformers.cache_utils import DynamicSlidingWindowLayer

from featscope.language.decoder import require_seeing, seeing, seeing_always
from featscope.language.method import setting
from featscope.language.prompt import Prompt
from featscope.options import ConfigError

DRAFTS = ("assistant_model", "assistant_early_exit", "prompt_lookup_num_tokens", "use_mtp")
"""Options of ``generate`` by which others write ahead; each reads the prompt from its start."""


class Dropped:
    """What the layers of one cache have in common.

    Attributes:
        fewest: tokens of the prompt that every layer has dropped; masks are made for the layer that holds most.
    """

    fewest = 0


class PartialLayer(DynamicLayer):
    """A layer's cache that has dropped a part of what it has seen; the rest keeps its positions.

    Attributes:
        fresh: whether new entries came whose attention is still to be computed. Attention of a layer whose cache is not
            fresh is that of another reading of the same model.
    """

    def __init__(self, dropped: Dropped, **options: Any) -> None:
        super().__init__(**options)
        self.dropped = dropped
        self.seen = 0
        self.fresh = False

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        self.seen += key_states.shape[-2]
        self.fresh = True
        return super().update(key_states, value_states, *args, **kwargs)

    def get_seq_length(self) -> int:
        """Tokens seen: the position of the next one."""
        return self.seen

    def get_mask_sizes(self, query_length: int | Tensor) -> tuple[int, int]:
        """What is held stands, for the mask, for the last tokens seen. Padding comes first in both."""
        if isinstance(query_length, Tensor):  # their places, as transformers 5.2 hands them over
            query_length = query_length.shape[0]
        return self.seen - self.dropped.fewest + query_length, self.dropped.fewest

    def crop(self, tokens_to_remove: int) -> None:
        """Forget the last tokens, which were seen no more."""
        before = self.held
        super().crop(tokens_to_remove)
        self.seen -= before - self.held

    @property
    def held(self) -> int:
        """Entries of each key head."""
        return 0 if self.keys is None or not self.keys.numel() else self.keys.shape[-2]

    def keep(self, places: Int[Tensor, "batch kv_head kept"]) -> None:
        """Drop all but ``places``."""
        if self.keys is None or self.values is None:
            raise ValueError("the layer has read no prompt")
        index = places[..., None]
        self.keys = self.keys.gather(2, index.expand(*places.shape, self.keys.shape[-1]))
        self.values = self.values.gather(2, index.expand(*places.shape, self.values.shape[-1]))


def partial_cache(
    model: PreTrainedModel, prompt: Prompt, new: int, chosen_by: int | None, *, narrow: bool = False
) -> Cache:
    """A cache that can drop entries in layers that see any text whole, and is the model's own in those with a window.

    Of a model that has windows alone it can in those that see all of the prompt.

    Args:
        model: reads the prompt.
        prompt: what is read.
        new: tokens to come.
        chosen_by: the layer that chooses for all; None if each does for itself.
        narrow: whether layers above that one read the chosen tokens alone, so that they hold these, window or not.

    Raises:
        ConfigError: there is no such layer.
    """
    cache, dropped = DynamicCache(config=model.config), Dropped()
    length = prompt.longest
    own = [type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in cache.layers]
    able = seeing(model, length + new)
    above = able if narrow and chosen_by is not None else []
    chosen = {*seeing_always(model, length + new), *(layer for layer in above if layer > (chosen_by or 0))}
    evicted = [layer for layer in sorted(chosen) if layer < len(own) and own[layer]]
    if not evicted or chosen_by not in (None, *able):
        require_seeing(model, prompt, [len(own) - 1 if chosen_by is None else chosen_by])
        raise ConfigError(
            f"no layer of {type(model).__name__} both sees all of {length + new} tokens and has a cache of "
            "its own that can drop some: allowed is a model with such layers. Use GemFilter."
        )
    if len(evicted) == len(own):  # without layers of its own before it reads: Phi-3 would take another for finished
        return Cache(layer_class_to_replicate=partial(PartialLayer, dropped))  # type: ignore[arg-type]
    for layer in evicted:
        cache.layers[layer] = PartialLayer(dropped)
    return cache


def require_one_reading(model: PreTrainedModel, options: Mapping[str, Any]) -> None:
    """Raise `ConfigError` for options of ``generate`` that read a prompt in pieces, or without a cache."""
    for name in (*DRAFTS, "cache_implementation", "prefill_chunk_size"):
        asked = setting(model, options, name)
        if asked and asked != "hybrid":  # Gemma's files on the Hub say so, and transformers makes nothing of it
            raise ConfigError(f"{name} cannot be used where the cache is evicted: leave it out, or set it to None")
    if options.get("negative_prompt_ids") is not None:
        raise ConfigError(
            "negative_prompt_ids cannot be used where the cache is evicted, as the model reads them beside the prompt: "
            "leave it out"
        )
    if setting(model, options, "use_cache") is False:
        raise ConfigError("use_cache = False leaves nothing to evict: allowed is True")


def require_own_cache(model: PreTrainedModel) -> None:
    """Raise `ConfigError` if ``model`` has a cache of another kind."""
    its: Any = model
    if not its._supports_default_dynamic_cache():
        raise ConfigError(
            f"{type(model).__name__} has a cache of its own kind, which cannot drop entries: allowed is a model that "
            "transformers' DynamicCache serves. Use GemFilter, which leaves the cache to the model."
        )


def row_places(kept: Int[Tensor, "*row kept"], length: int) -> Int[Tensor, "*row kept"]:
    """Where to find the entries of ``kept`` among ``length``: padding, which comes first, stands for -1.

    Where a prompt is shorter than what others keep, padding stays before it, and the mask hides it.
    """
    count = kept.shape[-1]
    return torch.where(kept < 0, length - count + torch.arange(count, device=kept.device), kept)
