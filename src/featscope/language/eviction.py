"""Methods that read the whole prompt in every layer, then drop most of the cache: SnapKV, H2O, GemFilter-One-Run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import Cache, DynamicCache, DynamicLayer, PreTrainedModel
from transformers.cache_utils import DynamicSlidingWindowLayer

from featscope.language.attention import Attention, attention_weights, watched
from featscope.language.decoder import require_context, require_decoder, require_seeing, seeing, text_config
from featscope.language.method import OfModel, require_own_input
from featscope.language.output import with_kept
from featscope.language.prompt import Prompt, asked_prompt
from featscope.language.selection import Pool, last_row_scores, require_rule, require_window, select
from featscope.options import ConfigError, require

_ROWS_AT_ONCE = 256


class _PartialLayer(DynamicLayer):
    """A layer's cache that has dropped a part of what it has seen; the rest keeps its positions."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.seen = 0

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        self.seen += key_states.shape[-2]
        return super().update(key_states, value_states, *args, **kwargs)

    def get_seq_length(self) -> int:
        """Tokens seen: the position of the next one."""
        return self.seen

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """What is held stands, for the mask, for the last tokens seen. Padding comes first in both."""
        held = 0 if self.keys is None or not self.keys.numel() else self.keys.shape[-2]
        return held + query_length, self.seen - held

    def keep(self, places: Int[Tensor, "batch kv_head kept"]) -> None:
        """Drop all but ``places``."""
        if self.keys is None or self.values is None:
            raise ValueError("the layer has read no prompt")
        index = places[..., None]
        self.keys = self.keys.gather(2, index.expand(*places.shape, self.keys.shape[-1]))
        self.values = self.values.gather(2, index.expand(*places.shape, self.values.shape[-1]))


@dataclass
class Eviction(OfModel):
    """Base of methods that drop keys and values of the prompt once it is read; those of new tokens stay.

    A prompt of at most ``keep`` tokens is kept whole.

    Attributes:
        model: a decoder with rotary embedding.
        keep: k, the entries that each layer and each key head keeps of the prompt.
    """

    model: Any
    keep: int

    def __post_init__(self) -> None:
        require_decoder(self.model)
        require(self, "keep", self.keep >= 1, ">= 1")

    def choose(
        self,
        attention: Attention,
        real: Bool[Tensor, "batch token"],
        before: Int[Tensor, "batch kv_head kept"] | None,
    ) -> Int[Tensor, "batch kv_head kept"] | None:
        """The places that ``attention``'s layer keeps, ascending; -1 as in `select`.

        Args:
            attention: of the layer that has just read the prompt.
            real: which tokens are no padding.
            before: the choice of the layer below, if there is one. Without a choice (None), the layer keeps what the
                next one chooses.
        """
        raise NotImplementedError

    def generate(self, input_ids: Any = None, attention_mask: Any = None, **options: Any) -> Any:
        """What ``model.generate`` returns. Its ``kept`` are the places kept ``[layer, batch, kv_head, kept]``.

        Layers whose window hides a part of the prompt keep that window, as they always do; their ``kept`` are -1.

        Args:
            input_ids: prompts, a tensor ``[batch, token]``, padded on the left.
            attention_mask: 0 at padding; found by the padding token if None, as in the model's ``generate``.
            options: those of the model's ``generate``.

        Raises:
            ConfigError: the prompt is longer than the model's context, no layer sees all of it, or the model's cache
                cannot drop entries.
        """
        _require_own_cache(self.model, options)
        prompt, options = asked_prompt(self.model, input_ids, attention_mask, options)
        new = options.get("max_new_tokens") or self.model.generation_config.max_new_tokens or 0
        require_context(self.model, prompt, new)
        cache = self._cache(prompt, new)
        dropping = _Dropping(self, cache, prompt)
        with watched(self.model, dropping):
            output = self.model.generate(prompt.ids, attention_mask=prompt.mask, past_key_values=cache, **options)
        return with_kept(output, dropping.all_kept(text_config(self.model).num_hidden_layers))

    def chosen_by(self) -> int | None:
        """The layer that chooses for all; None if each does for itself."""
        return None

    def _cache(self, prompt: Prompt, new: int) -> Cache:
        """A cache that drops entries in layers that see all of the prompt, and is the model's own in the others."""
        cache = DynamicCache(config=self.model.config)
        length = int(prompt.real.sum(-1).max())
        own = [type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in cache.layers]
        evicted = [layer for layer in seeing(self.model, length + new) if layer < len(own) and own[layer]]
        if not evicted or self.chosen_by() not in (None, *evicted):
            layer = self.chosen_by()
            require_seeing(self.model, prompt, [len(own) - 1 if layer is None else layer])
            raise ConfigError(
                f"no layer of {type(self.model).__name__} both sees all of {length + new} tokens and has a cache of "
                "its own that can drop some: allowed is a model with such layers. Use GemFilter."
            )
        if len(evicted) == len(own):  # without layers of its own before it reads: Phi-3 would take another for finished
            return Cache(layer_class_to_replicate=_PartialLayer)
        for layer in evicted:
            cache.layers[layer] = _PartialLayer()
        return cache


def _require_own_cache(model: PreTrainedModel, options: Mapping[str, Any]) -> None:
    """Raise `ConfigError` for options of ``generate`` that an evicted cache does not follow."""
    require_own_input(options)
    for name in ("assistant_model", "prompt_lookup_num_tokens", "cache_implementation", "prefill_chunk_size"):
        if options.get(name) or getattr(model.generation_config, name, None):
            raise ConfigError(f"{name} cannot be used where the cache is evicted: leave it out, or set it to None")
    its: Any = model
    if not its._supports_default_dynamic_cache():
        raise ConfigError(
            f"{type(model).__name__} has a cache of its own kind, which cannot drop entries: allowed is a model that "
            "transformers' DynamicCache serves. Use GemFilter, which leaves the cache to the model."
        )
    if not options.get("use_cache", True):
        raise ConfigError("use_cache = False leaves nothing to evict: allowed is True")


class _Dropping:
    """Drops entries of each layer once it has read the prompt."""

    def __init__(self, method: Eviction, cache: Cache, prompt: Prompt) -> None:
        self.method, self.cache, self.prompt = method, cache, prompt
        self.kept: dict[int, Int[Tensor, "batch kv_head kept"]] = {}
        self.last: Int[Tensor, "batch kv_head kept"] | None = None
        self.waiting: list[int] = []

    def before(self, attention: Attention) -> None:
        pass

    def all_kept(self, layers: int) -> Int[Tensor, "layer batch kv_head kept"]:
        """What each layer kept; -1 where it drops nothing by choice, and where others have more key heads."""
        heads = max(kept.shape[1] for kept in self.kept.values())
        first = next(iter(self.kept.values()))
        copies = first.shape[0] // len(self.prompt.ids)  # of each prompt, one a beam
        none = first.new_full((layers, len(self.prompt.ids), heads, first.shape[-1]), -1)
        for layer, kept in self.kept.items():
            none[layer, :, : kept.shape[1]] = kept[::copies]
        return none

    def after(self, attention: Attention) -> None:
        held: Any = self.cache.layers[attention.layer] if attention.layer < len(self.cache.layers) else None
        if not isinstance(held, _PartialLayer):
            return
        length, read = self.prompt.ids.shape[-1], attention.query.shape[2]
        if attention.layer in self.kept and read == 1:
            return
        if attention.layer in self.kept or not read == attention.key.shape[2] == length:
            raise ConfigError(
                f"layer {attention.layer} reads {read} tokens where {1 if self.kept else length} were due: the model "
                "reads its prompt in pieces or anew (prefill_chunk_size, or Phi-3 beyond its original context), which "
                "an evicted cache cannot follow. Use GemFilter or full attention there."
            )
        batch, heads = attention.key.shape[:2]
        if cast(Tensor, held.keys).shape[1] != heads:
            raise ConfigError(
                "the model's cache holds one compressed entry a token for all heads (multi-head latent attention, as "
                f"DeepSeek's), and {type(self.method).__name__} keeps a set for each head: allowed is a cache with "
                "keys of each head. Use GemFilter, which leaves the cache to the model."
            )
        real = self.prompt.real.repeat_interleave(batch // len(self.prompt.real), 0)
        if length <= self.method.keep:
            everything = torch.arange(length, device=real.device).masked_fill(~real, -1)
            self.last = everything[:, None].expand(-1, heads, -1)
        else:
            self.last = self.method.choose(attention, real, self.last)
        self.waiting.append(attention.layer)
        if self.last is None:
            return
        # Where a prompt is shorter than what others keep, padding stays before it, and the mask hides it.
        count = self.last.shape[-1]
        places = torch.where(self.last < 0, length - count + torch.arange(count, device=real.device), self.last)
        for layer in self.waiting:
            waiting: Any = self.cache.layers[layer]
            waiting.keep(places)
            self.kept[layer] = self.last
        self.waiting = []


@dataclass
class SnapKV(Eviction):
    """Keeps what the last queries of the prompt attend to (Li et al. 2024, arXiv 2404.14469).

    A layer's key head keeps the last ``window`` entries and the older ones of the largest attention weights, summed
    over these queries and the heads of the group, and averaged over neighbours. The original repeats keys for every
    query head and keeps a set for each; one set a key head needs a cache smaller by the size of the group.

    Attributes:
        window: last tokens, whose queries choose and which are kept.
        pool: how weights of neighbours are pooled.
        kernel: neighbours that are pooled, an odd number.
    """

    window: int = 32
    pool: Pool = "avg"
    kernel: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "window", self.window >= 1, ">= 1")
        cure = "The window is part of what is kept: keep more, or choose a smaller window."
        require(self, "keep", self.keep > self.window, f"> window = {self.window}", cure)
        require_rule("SnapKV", self.keep, self.pool, self.kernel)

    def choose(
        self,
        attention: Attention,
        real: Bool[Tensor, "batch token"],
        before: Int[Tensor, "batch kv_head kept"] | None,
    ) -> Int[Tensor, "batch kv_head kept"]:
        """The window, and what it attends to."""
        received = attention_weights(attention, real, slice(-self.window, None)).sum((2, 3))
        return _best_and_recent(received, real, self.keep, self.window, self.pool, self.kernel)


@dataclass
class H2O(Eviction):
    """Keeps what all queries of the prompt attend to: heavy hitters (Zhang et al. 2023, arXiv 2306.14048).

    A layer's key head keeps the last ``recent`` entries and the older ones of the largest attention weights, summed
    over all queries. Entries are dropped once, after the prompt, as in the paper's comparison; the original goes on
    while it generates. Weights are formed again for the sum: time grows as the square of the prompt's length.

    Attributes:
        recent: last tokens, kept in any case.
    """

    recent: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "recent", self.recent >= 1, ">= 1")
        cure = "Recent entries are part of what is kept: keep more, or fewer of them."
        require(self, "keep", self.keep > self.recent, f"> recent = {self.recent}", cure)

    def choose(
        self,
        attention: Attention,
        real: Bool[Tensor, "batch token"],
        before: Int[Tensor, "batch kv_head kept"] | None,
    ) -> Int[Tensor, "batch kv_head kept"]:
        """Recent entries, and those that got the most attention."""
        rows = attention.query.shape[2]
        blocks = [slice(start, min(start + _ROWS_AT_ONCE, rows)) for start in range(0, rows, _ROWS_AT_ONCE)]
        received = sum(attention_weights(attention, real, block).sum((2, 3)) for block in blocks)
        return _best_and_recent(cast(Tensor, received), real, self.keep, self.recent, "none", 1)


def _best_and_recent(
    received: Float[Tensor, "batch kv_head token"],
    real: Bool[Tensor, "batch token"],
    keep: int,
    recent: int,
    pool: Pool,
    kernel: int,
) -> Int[Tensor, "batch kv_head kept"]:
    """The last ``recent`` places, and before them the ``keep`` - ``recent`` that received most."""
    batch, heads, length = received.shape
    old = real[:, : length - recent].repeat_interleave(heads, 0)
    best = select(received[..., : length - recent].flatten(0, 1), old, keep - recent, pool, kernel)
    last = torch.arange(length - recent, length, device=real.device)
    newest = last.masked_fill(~real[:, length - recent :], -1)[:, None].expand(-1, heads, -1)
    return torch.cat([best.unflatten(0, (batch, heads)), newest], -1)


@dataclass
class GemFilterOneRun(Eviction):
    """GemFilter's choice without its second pass (the ablation of Section G.4.5).

    All layers read the whole prompt, then each keeps the entries that ``layer`` chose, at their own positions. It
    costs as much as full attention; the first new token comes from the untouched cache.

    Attributes:
        layer: r, the layer that chooses, from 0.
        window: last tokens that are kept in any case. 0 is the paper's rule.
        pool: how scores of neighbours are pooled.
        kernel: neighbours that are pooled, an odd number.
        force_keep: other places kept in any case, from the prompt's first token, or its last if negative.
    """

    layer: int = field(kw_only=True)
    window: int = 32
    pool: Pool = "avg"
    kernel: int = 5
    force_keep: Sequence[int] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        layers = text_config(self.model).num_hidden_layers
        require(self, "layer", 0 <= self.layer < layers, f"0 to {layers - 1}", "Layers count from 0.")
        require_window(self)
        require_rule("GemFilterOneRun", self.keep, self.pool, self.kernel, self.force_keep, self.window)

    def chosen_by(self) -> int | None:
        """``layer``."""
        return self.layer

    def choose(
        self,
        attention: Attention,
        real: Bool[Tensor, "batch token"],
        before: Int[Tensor, "batch kv_head kept"] | None,
    ) -> Int[Tensor, "batch kv_head kept"] | None:
        """What ``layer`` chose."""
        if attention.layer != self.layer:
            return before
        heads = attention.key.shape[1]
        products = last_row_scores(attention.query, attention.key)
        force = (*range(-self.window, 0), *self.force_keep)
        chosen = select(products, real, self.keep, self.pool, self.kernel, force)
        return chosen[:, None].expand(-1, heads, -1)
