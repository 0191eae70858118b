"""A prompt read by the layers below one, whole or in chunks, and what enters the attention of that one."""

import inspect
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Cache, DynamicCache, PreTrainedModel
from transformers.masking_utils import (
    create_causal_mask,
    create_chunked_causal_mask,
    create_sliding_window_causal_mask,
)

from featscope.language.attention import Attention, watched
from featscope.language.decoder import blocks, cache_argument, kinds_of, text_config, text_model
from featscope.language.prompt import Prompt
from featscope.options import ConfigError

_MASKS = {
    "full_attention": create_causal_mask,
    "sliding_attention": create_sliding_window_causal_mask,
    "chunked_attention": create_chunked_causal_mask,
}
_WHOLE = {"allow_is_causal_skip": False}  # a mask even where a kernel needs none: some layers add to it
_FEW = 2  # tokens that tell what layers are given
_OF_ALL_LAYERS = {"position_embeddings", "position_ids"}  # tensors that a layer may be given beside what it reads


class Reached(Exception):  # noqa: N818 - it ends a pass that has what it needs; nothing is wrong
    """The pass is where it was to go."""


class Until:
    """Ends a forward pass at the attention of a layer, and has it."""

    attention: Attention

    def __init__(self, layer: int) -> None:
        self.layer = layer

    def before(self, attention: Attention) -> None:
        if attention.layer == self.layer:
            self.attention = attention
            raise Reached

    def after(self, attention: Attention) -> None:
        pass


def attention_at(model: PreTrainedModel, prompt: Prompt, layer: int, cache: Cache | None = None) -> Attention:
    """What enters the attention of ``layer``: the model's own pass, up to there.

    Args:
        model: reads the prompt.
        prompt: what is read. With a cache, the mask is that of all tokens and ``ids`` are the new ones.
        layer: its number.
        cache: of what was read before, which grows up to that layer; None for none.

    Raises:
        ConfigError: that layer has no attention, or compiled code hides it.
    """
    reached = Until(layer)
    new = prompt.ids.shape[1]
    with watched(model, reached), suppress(Reached):
        its = text_model(model)
        its(
            prompt.ids,
            attention_mask=prompt.mask,
            position_ids=prompt.positions[:, -new:],
            use_cache=cache is not None,
            **{cache_argument(its.forward): cache},
        )
    if not hasattr(reached, "attention"):
        raise ConfigError(
            f"layer = {layer} of {type(model).__name__} has no attention that could be watched: choose one that "
            "has, of a model without torch.compile"
        )
    return reached.attention


def attention_in_chunks(model: PreTrainedModel, prompt: Prompt, layer: int, chunk: int) -> Iterator[Attention]:
    """The same for each chunk of the prompt, layer by layer: only one layer's keys and values exist at a time.

    Raises:
        ConfigError: layers need what cannot be cut into chunks.
    """
    (hidden, given), *_ = _entering(model, prompt)
    _require_chunks(model, layer, chunk, given)
    _require_alike(model, prompt, layer, chunk)
    pieces = [slice(start, start + chunk) for start in range(0, hidden.shape[1], chunk)]
    for below in range(layer):
        for piece, result in _through(model, below, hidden, given, prompt, pieces):
            hidden[:, piece] = result
    reached = Until(layer)
    with watched(model, reached):
        for _ in _through(model, layer, hidden, given, prompt, pieces):
            yield reached.attention


def _require_chunks(model: PreTrainedModel, layer: int, chunk: int, given: dict[str, Any]) -> None:
    takes = inspect.signature(blocks(model)[0].forward).parameters
    own = sorted(name for name, value in given.items() if isinstance(value, Tensor) and name not in _OF_ALL_LAYERS)
    kinds = sorted(set(kinds_of(model)[: layer + 1]) - _MASKS.keys())
    problem = None
    if not {"cache", "past_key_values"} & takes.keys() or "position_embeddings" not in given:
        problem = "do not take a cache and position_embeddings"
    elif own:
        problem = f"each read {', '.join(own)}, too"
    elif kinds:
        problem = f"are partly of kind {', '.join(kinds)}"
    if problem:
        raise ConfigError(
            f"chunk = {chunk} needs layers of attention that read nothing else: those of {type(model).__name__} "
            f"{problem}. Leave out chunk."
        )


def _require_alike(model: PreTrainedModel, prompt: Prompt, layer: int, chunk: int) -> None:
    """See that layers are given what `_through` gives them: some models hand it out layer by layer in their own loop.

    Looked at with the first tokens alone, of which the model's own pass hands out everything.
    """
    few = Prompt(prompt.ids[:, -_FEW:], prompt.real[:, -_FEW:])
    (hidden, first), *others = _entering(model, few, layer)
    for number, (_, given) in enumerate(others, 1):
        try:
            angles = _angles(model, kinds_of(model)[number], hidden, few, first["position_embeddings"])
        except KeyError:  # none of this kind
            angles = None
        expected = first | {"position_embeddings": angles}
        if differs := sorted(n for n in expected.keys() | given.keys() if not _same(expected.get(n), given.get(n))):
            raise ConfigError(
                f"chunk = {chunk} needs layers that are given the same: layer {number} of {type(model).__name__} has "
                f"{', '.join(differs)} of its own. Leave out chunk."
            )


def _same(one: Any, other: Any) -> bool:
    """Whether tensors, or several of them, are equal; of all else nothing is asked."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, Tensor | tuple) or isinstance(other, Tensor | tuple):
        return isinstance(one, Tensor) and isinstance(other, Tensor) and torch.equal(one, other)
    return True


def _through(
    model: PreTrainedModel,
    layer: int,
    hidden: Tensor,
    given: dict[str, Any],
    prompt: Prompt,
    pieces: Sequence[slice],
) -> Iterator[tuple[slice, Tensor]]:
    """What ``layer`` makes of each piece of ``hidden``; nothing where an observer ends it."""
    cache, kind = DynamicCache(), kinds_of(model)[layer]
    block: Any = blocks(model)[layer]
    angles = _angles(model, kind, hidden, prompt, given["position_embeddings"])
    make: Any = _MASKS[kind]
    whole = _WHOLE if _WHOLE.keys() <= inspect.signature(make).parameters.keys() else {}
    for piece in pieces:
        part, positions = hidden[:, piece], prompt.positions[:, piece]
        seen = prompt.mask[:, : piece.start + part.shape[1]]
        own = {
            "position_embeddings": _cut(angles, piece),
            "position_ids": positions,
            "attention_mask": make(text_config(model), part, seen, cache, positions, layer_idx=layer, **whole),
            cache_argument(block.forward): cache,
            "use_cache": True,
        }
        try:
            result = block(part, **given | own)
        except Reached:
            result = part
        yield piece, result if isinstance(result, Tensor) else result[0]


def _angles(model: PreTrainedModel, kind: str, hidden: Tensor, prompt: Prompt, first: Any) -> Any:
    """Rotary angles of layers of this kind, which may have their own; ``first`` are those of the first layer."""
    rotary = getattr(text_model(model), "rotary_emb", None)
    if rotary is None or "layer_type" not in inspect.signature(rotary.forward).parameters:
        return first
    return rotary(hidden, prompt.positions, kind)


def _cut(angles: Any, piece: slice) -> Any:
    """Those of a part of the tokens, ``[..., token, channel]``."""
    return angles[..., piece, :] if isinstance(angles, Tensor) else tuple(angle[..., piece, :] for angle in angles)


def _entering(model: PreTrainedModel, prompt: Prompt, layer: int = 0) -> list[tuple[Tensor, dict[str, Any]]]:
    """What enters each layer up to ``layer``: for the first embedded tokens; and the other arguments but the mask."""
    found: list[tuple[Tensor, dict[str, Any]]] = []
    mine = threading.get_ident()

    def keep(module: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        if threading.get_ident() != mine:  # which reads something else with the same model
            return
        given = {name: value for name, value in options.items() if name != "attention_mask"}
        given |= {f"input {i}": other for i, other in enumerate(arguments) if i and other is not None}
        found.append((arguments[0], given))
        if len(found) > layer:
            raise Reached

    handles = [one.register_forward_pre_hook(keep, with_kwargs=True) for one in blocks(model)[: layer + 1]]
    mask = prompt.mask
    if not layer:
        mask = torch.zeros(1, 1, 1, 1, device=mask.device)  # of four axes, it is taken for finished: none is built
    try:
        with suppress(Reached):
            text_model(model)(prompt.ids, attention_mask=mask, position_ids=prompt.positions, use_cache=False)
    finally:
        for handle in handles:
            handle.remove()
    return found
