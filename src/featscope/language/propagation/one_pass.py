"""One reading of a prompt, in which layers may choose, only chosen tokens go on, and caches drop entries."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, cast

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from featscope.language.attention import Attention, require_seen, watched
from featscope.language.caches.full import Full, Selected
from featscope.language.caches.press import Press
from featscope.language.decoder import blocks, cache_argument, cache_of, kinds_of, require_context, text_config
from featscope.language.method import new_tokens
from featscope.language.output import with_kept
from featscope.language.partial_cache import (
    PartialLayer,
    partial_cache,
    require_one_reading,
    require_own_cache,
    row_places,
)
from featscope.language.parts import Cache, LayerSelector
from featscope.language.prompt import Prompt
from featscope.options import ConfigError

Stage = tuple[LayerSelector, int]
"""A selector, and how many tokens it chooses."""
_OF_ALL_LAYERS = {"attention_mask", "position_embeddings", "position_ids", "cache_position"}


def generate_in_one_pass(
    model: PreTrainedModel,
    prompt: Prompt,
    stages: Sequence[Stage],
    cache: Cache,
    entries: int,
    options: dict[str, Any],
    *,
    narrow: bool,
) -> Any:
    """What ``model.generate`` returns, with ``kept``.

    ``kept`` are the places that each layer holds ``[layer, batch, kv_head, kept]`` where caches drop entries; -1 on the
    left where it is fewer, and in layers with a window, which keep it as they always do (see `partial_cache`).
    Otherwise they are the chosen tokens ``[batch, kept]``, of several selections the last one's.

    Args:
        model: generates.
        prompt: what is read.
        stages: who chooses tokens, and how many; each among those that the one before chose.
        cache: what layers hold.
        entries: of each key head, on average.
        options: those of ``generate``.
        narrow: whether layers above a selector's read the chosen tokens alone.

    Raises:
        ConfigError: the prompt is longer than the model's context, or model or options do not go with it.
    """
    cache.require(model)  # whose attention may be another one than when the method was made
    require_one_reading(model, options)
    new = new_tokens(model, options, prompt.ids.shape[-1])
    require_context(model, prompt, new)
    its: Any = model
    one = _OnePass(model, prompt, stages, cache, entries, narrow)
    if type(cache) is not Full or (narrow and _has_masks_above(model, stages[0][0].layer)):
        require_own_cache(model)
        chosen_by = stages[0][0].layer if stages else None
        one.held = partial_cache(model, prompt, new, chosen_by, narrow=narrow)
        options = options | {cache_argument(its.forward): one.held}
    pressing = cache.pressing(model, prompt, one.held) if isinstance(cache, Press) else nullcontext()
    with watched(model, one), one.narrowing(), pressing:
        output = its.generate(prompt.ids, attention_mask=prompt.mask, **options)
    require_seen(model, bool(one.chosen or one.read))
    if (held := cache_of(output)) is not None and one.uneven:
        held.update = _refuse
    return with_kept(output, one.all_kept())


def _refuse(*arguments: Any, **options: Any) -> None:
    raise ConfigError(
        "the cache holds more entries in some heads or layers than in others, which only the method that made it can "
        "go on from: the model would attend to what fills up heads, and has one mask for all layers. Ask anew with the "
        "whole text."
    )


class _OnePass:
    """Watches one generation: selectors choose, hidden states are narrowed, layers drop entries.

    Attributes:
        chosen: what each selector has chosen so far, places in the prompt.
        among: the same, places among what its layer read.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        prompt: Prompt,
        stages: Sequence[Stage],
        cache: Cache,
        entries: int,
        narrow: bool,
    ) -> None:
        self.model, self.prompt, self.stages = model, prompt, stages
        self.cache, self.entries, self.narrow = cache, entries, narrow
        self.layers = text_config(model).num_hidden_layers
        self.held: Any = None
        self.chosen: list[Int[Tensor, "batch kept"]] = []
        self.among: list[Int[Tensor, "batch kept"]] = []
        self.kept: dict[int, Int[Tensor, "batch kv_head kept"]] = {}
        self.hidden: dict[int, Bool[Tensor, "batch kv_head kept"]] = {}
        self.read: set[int] = set()
        self.latest: int | None = None  # the layer whose attention was the last to be computed
        self.waiting: list[Attention] = []

    @property
    def uneven(self) -> bool:
        """Whether heads of a layer, or layers that see everything, hold different numbers of entries."""
        if type(self.cache) is Full:  # layers above a selector's hold what was chosen
            return bool(self.chosen) and self.chosen[-1].shape[-1] < self.prompt.ids.shape[-1]
        counts = {layer.held for layer in self.held.layers if isinstance(layer, PartialLayer)}
        return len(counts) > 1 or any(bool((hidden != hidden[:, :1]).any()) for hidden in self.hidden.values())

    def stage(self, layer: int) -> int:
        """How many selections narrowed what ``layer`` reads; 0 where it reads the whole prompt."""
        return sum(layer > selector.layer for selector, _ in self.stages) if self.narrow else 0

    def before(self, attention: Attention) -> Attention | None:
        _require_mask_of_all(self.model, attention)
        if len(self.chosen) < len(self.stages) and attention.layer == self.stages[len(self.chosen)][0].layer:
            self._choose(attention, *self.stages[len(self.chosen)])
        if not self.stage(attention.layer) and not isinstance(self._layer(attention), PartialLayer):
            mask, keys = attention.mask, attention.key.shape[2]  # of another layer, where layers share entries
            longer = isinstance(mask, Tensor) and mask.shape[-1] > keys
            return attention._replace(mask=mask[..., -keys:]) if longer else None
        self._require_due(attention)
        return attention._replace(mask=self._mask(attention))

    def _choose(self, attention: Attention, selector: LayerSelector, keep: int) -> None:
        read = self._copied(attention)
        if not self.chosen:
            self.among.append(selector.choose(attention, read, keep))
            self.chosen.append(self.among[0])
            return
        before = self.chosen[-1]
        self.among.append(selector.choose(attention, read.take(before, 0), keep))
        self.chosen.append(self._original(self.among[-1][:, None], before)[:, 0])

    def after(self, attention: Attention) -> None:
        held, narrowed = self._layer(attention), self.stage(attention.layer) > 0
        self.latest = attention.layer
        if isinstance(held, PartialLayer):
            held.fresh = False
        if attention.layer in self.read or not (narrowed or isinstance(held, PartialLayer)):
            return
        self.read.add(attention.layer)
        if not isinstance(held, PartialLayer):
            return
        held.seen = self.prompt.ids.shape[-1]
        if isinstance(self.cache, Press) or type(self.cache) is Full:
            return
        if cast(Tensor, held.keys).shape[1] != attention.key.shape[1]:
            raise ConfigError(
                "the model's cache holds one compressed entry a token for all heads (multi-head latent attention, as "
                f"DeepSeek's), and {type(self.cache).__name__} keeps a set for each head: allowed is a cache with "
                "keys of each head. Use GemFilter, which leaves the cache to the model."
            )
        self.waiting.append(_without_states(attention))
        for waiting in [one for one in self.waiting if self._is_decided(one.layer)]:
            self._drop(waiting.layer, attention if waiting.layer == attention.layer else waiting)
        self.waiting = [one for one in self.waiting if not self._is_decided(one.layer)]

    def _is_decided(self, layer: int) -> bool:
        """Whether what ``layer`` will hold is known, once it has read."""
        return not isinstance(self.cache, Selected) or self._holds(layer) < len(self.chosen)

    def _holds(self, layer: int) -> int:
        """Whose choice ``layer`` holds where caches hold chosen tokens: that of its own selector, or the next above."""
        return min(self.stage(layer), len(self.stages) - 1)

    def _require_due(self, attention: Attention) -> None:
        """Raise `ConfigError` unless a layer reads its prompt once, then one token at a time."""
        again, read = attention.layer in self.read, attention.query.shape[2]
        stage = self.stage(attention.layer)
        whole = self.chosen[stage - 1] if stage else self.prompt.ids
        due = 1 if again else whole.shape[-1]
        if again and read > due and self.latest == attention.layer and self.layers > 1:
            raise ConfigError(
                f"layer {attention.layer} of {type(self.model).__name__} computes attention more than once in a pass "
                "(as differential attention does), and a cache cannot be cut between: allowed is a model that computes "
                "it once. Use GemFilter or full attention there."
            )
        if read != due or not (again or attention.key.shape[2] == due):
            raise ConfigError(
                f"layer {attention.layer} reads {read} tokens where {due} were due: the model reads its prompt in "
                "pieces or anew (prefill_chunk_size, or Phi-3 beyond its original context), which an evicted cache "
                "cannot follow. Use GemFilter or full attention there."
            )

    def _drop(self, layer: int, attention: Attention) -> None:
        """Let ``layer`` hold what the cache keeps of what it has read."""
        held, heads, stage = self.held.layers[layer], attention.key.shape[1], self.stage(layer)
        whole = self._copied(attention).real
        places = torch.arange(whole.shape[-1], device=whole.device).masked_fill(~whole, -1)
        if stage:
            places = self.chosen[stage - 1]
        real = places >= 0
        entries = self.cache.budget(self.entries, layer, self.layers)
        if isinstance(self.cache, Selected):
            its = self._holds(layer)
            kept = row_places(self.among[its], real.shape[-1])[:, None] if its == stage else None
            self.kept[layer] = self.chosen[its][:, None].expand(-1, heads, -1)
        elif real.shape[-1] <= entries:
            kept, self.kept[layer] = None, places[:, None].expand(-1, heads, -1)
        else:
            found = self.cache.choose(attention, real, entries)
            kept = row_places(found, real.shape[-1])
            self.kept[layer] = self._original(found, places)
            if getattr(self.cache, "ragged", False):
                self.hidden[layer] = found < 0
        if kept is not None:
            held.keep(kept.expand(-1, heads, -1))
        most = max(self.held.layers[done].held for done in self.kept)
        held.dropped.fewest = held.seen - most

    @staticmethod
    def _original(found: Tensor, places: Tensor) -> Tensor:
        """Places in the prompt of what was found among ``places``."""
        original = places[:, None].expand(-1, found.shape[1], -1).gather(2, found.clamp(min=0))
        return original.masked_fill(found < 0, -1)

    def _layer(self, attention: Attention) -> Any:
        """The cache of an attention's layer, once there is one."""
        layers = self.held.layers if self.held is not None else []
        return layers[attention.layer] if attention.layer < len(layers) else None

    def _copied(self, attention: Attention) -> Prompt:
        """The prompt with a row for each beam or sample."""
        copies = attention.key.shape[0] // len(self.prompt.ids)
        return Prompt(*(part.repeat_interleave(copies, 0) for part in self.prompt))

    def _mask(self, attention: Attention) -> Any:
        """The model's mask, made for the layer that holds most, cut to what this one holds: padding comes first."""
        mask, rows, keys = attention.mask, attention.query.shape[2], attention.key.shape[2]
        if isinstance(mask, Tensor):
            mask = mask[..., -rows:, -keys:] if mask.ndim == 4 else mask[..., -keys:]
        elif mask is not None and mask.shape[-2:] != (rows, keys):
            raise ConfigError(
                f"attn_implementation = {self.model.config._attn_implementation!r} makes one mask for all layers, and "
                "here they hold different numbers of tokens: allowed is sdpa, eager or a flash kernel"
            )
        if attention.layer not in self.hidden or not self._layer(attention).fresh:  # another reading hides nothing
            return mask
        hidden = self.hidden[attention.layer]
        hidden = nn.functional.pad(hidden, (0, keys - hidden.shape[-1]))
        hidden = hidden.repeat_interleave(attention.query.shape[1] // hidden.shape[1], 1)[:, :, None]
        least = torch.finfo(attention.query.dtype).min
        if mask is None:
            mask = torch.zeros((), dtype=attention.query.dtype, device=hidden.device)
        elif mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=attention.query.dtype).masked_fill(~mask, least)
        return mask.expand_as(hidden).masked_fill(hidden, least)

    @contextmanager
    def narrowing(self) -> Iterator[None]:
        """Within it, layers above a selector's are given the chosen tokens alone, at their own positions."""
        done: set[int] = set()
        mine = threading.get_ident()

        def cut(layer: int, given: tuple[Any, ...], options: dict[str, Any]) -> Any:
            stage = self.stage(layer)
            if layer in done or len(self.chosen) < stage or threading.get_ident() != mine:
                return None
            done.add(layer)
            length = self.prompt.ids.shape[-1]
            own = [name for name, value in options.items() if isinstance(value, Tensor) and name not in _OF_ALL_LAYERS]
            if own or len(given) != 1:
                raise ConfigError(
                    f"layers of {type(self.model).__name__} each read {', '.join(own) or 'more than hidden states'}, "
                    "too, of which KeepHidden does not know what belongs to which token: allowed are layers that read "
                    "nothing else. Use ReadAgain"
                )
            places, hidden = row_places(self.chosen[stage - 1], length), given[0]
            if hidden.shape[1] != places.shape[1]:  # the layer is the first above its selector
                hidden = _at(hidden, row_places(self.among[stage - 1], hidden.shape[1]), 1)
            angles = options.get("position_embeddings")
            if isinstance(angles, Tensor):
                options = options | {"position_embeddings": _at(angles, places, -2)}
            elif angles is not None:
                options = options | {"position_embeddings": tuple(_at(angle, places, -2) for angle in angles)}
            if options.get("position_ids") is not None:
                options = options | {"position_ids": _at(options["position_ids"], places, -1)}
            return (hidden,), options

        handles = [
            block.register_forward_pre_hook(lambda _, given, options, i=i: cut(i, given, options), with_kwargs=True)
            for i, block in enumerate(blocks(self.model))
            if self.stage(i)
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def all_kept(self) -> Tensor | None:
        """What each layer holds, or what was chosen; None where a press does not say."""
        if not self.kept:
            if not self.chosen:
                return None
            copies = self.chosen[-1].shape[0] // len(self.prompt.ids)
            return self.chosen[-1][::copies]
        heads = max(kept.shape[1] for kept in self.kept.values())
        most = max(kept.shape[2] for kept in self.kept.values())
        first = next(iter(self.kept.values()))
        copies = first.shape[0] // len(self.prompt.ids)  # of each prompt, one a beam
        found = first.new_full((self.layers, len(self.prompt.ids), heads, most), -1)
        for layer, kept in self.kept.items():
            found[layer, :, : kept.shape[1], most - kept.shape[2] :] = kept[::copies]
        return found


def _has_masks_above(model: PreTrainedModel, layer: int) -> bool:
    """Whether some kind of attention begins above ``layer``: masks are made for the first layer of each."""
    kinds = kinds_of(model)
    return not {*kinds} <= {*kinds[: layer + 1]}


def _require_mask_of_all(model: PreTrainedModel, attention: Attention) -> None:
    """Raise `ConfigError` where heads have masks of their own, made from what a layer holds before it is watched."""
    mask = attention.mask
    if isinstance(mask, Tensor) and mask.ndim == 4 and mask.shape[1] > 1:
        raise ConfigError(
            f"each head of {type(model).__name__} makes a mask of its own from the tokens that its layer holds, which "
            "would be others: allowed is a model with one mask for all heads. Use GemFilter or full attention there."
        )


def _without_states(attention: Attention) -> Attention:
    """It with no queries and keys. Slices of them would hold the memory of all."""
    (batch, heads, _, channels), queries = attention.key.shape, attention.query
    key = attention.key.new_empty(batch, heads, 0, channels)
    return attention._replace(query=queries.new_empty(0, *queries.shape[1:]), key=key)


def _at(values: Tensor, places: Int[Tensor, "batch kept"], axis: int) -> Tensor:
    """``values`` at ``places`` along the axis of tokens; the axis of prompts is the one before, or of length 1."""
    axis = axis % values.ndim
    values = values.expand(*values.shape[: axis - 1], len(places), *values.shape[axis:])
    index = places.view(*[1] * (axis - 1), *places.shape, *[1] * (values.ndim - axis - 1))
    return values.gather(axis, index.expand(*values.shape[:axis], places.shape[1], *values.shape[axis + 1 :]))
