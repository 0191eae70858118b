"""The slow reference of a cache that has lost entries: the whole text again, with all that is lost masked by hand."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from featscope.language.attention import Attention, watched
from featscope.language.decoder import blocks, cache_of

TOLERANCE = 1e-4
EXACT = "donot_use_mm_for_euclid_dist"


class _Keys:
    """Sees the keys of each layer."""

    def __init__(self) -> None:
        self.of: dict[int, Tensor] = {}

    def before(self, attention: Attention) -> None:
        self.of[attention.layer] = attention.key.detach().clone()

    def after(self, attention: Attention) -> None:
        pass


@torch.no_grad()
def held(method: Any, ids: Tensor, **options: Any) -> dict[int, Tensor]:
    """Which tokens of the prompt each layer still holds once it is read ``[kv_head, token]``, by their keys.

    Args:
        method: generates.
        ids: one prompt ``[1, token]``.
        options: of ``generate``.
    """
    keys = _Keys()
    with watched(method.model, keys):
        method.model(ids, use_cache=False)
    out = method.generate(ids, return_dict_in_generate=True, **options | {"max_new_tokens": 1, "do_sample": False})
    layers = cache_of(out).layers
    found = {}
    for layer, whole in keys.of.items():
        distances = torch.cdist(whole[0], layers[layer].keys[0], compute_mode=EXACT)  # [kv_head, token, entry]
        if not bool((distances.amin(1) < TOLERANCE).all()):
            raise LookupError(f"layer {layer} holds entries that are no token's")
        found[layer] = distances.amin(2) < TOLERANCE
    return found


@torch.no_grad()
def masked_logits(model: Any, sequence: Tensor, length: int, kept: dict[int, Tensor]) -> Tensor:
    """Logits of all new tokens ``[1, new, token]`` if those see ``kept`` of the prompt, and each other, alone.

    Args:
        model: any decoder.
        sequence: prompt and new tokens ``[1, token]``.
        length: of the prompt.
        kept: see `held`.
    """
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")  # whose masks are written out
    try:
        with _hiding(model, length, kept):
            return model(sequence[:, :-1], use_cache=False).logits[:, length - 1 :]
    finally:
        model.set_attn_implementation(before)


@contextmanager
def _hiding(model: Any, length: int, kept: dict[int, Tensor]) -> Iterator[None]:
    """Within it tokens behind the prompt do not see what is not kept of it."""

    def hide(module: Any, given: Any, options: dict[str, Any]) -> Any:
        mask, groups = options["attention_mask"], module.config.num_attention_heads // len(kept[module.layer_idx])
        queries = mask.shape[2]
        lost = torch.zeros(len(kept[module.layer_idx]), queries, mask.shape[3], dtype=torch.bool)
        lost[:, length:, :length] = ~kept[module.layer_idx][:, None]
        lost = lost.repeat_interleave(groups, 0)[None]
        hidden = mask.expand(-1, lost.shape[1], -1, -1).masked_fill(lost, torch.finfo(mask.dtype).min)
        return given, options | {"attention_mask": hidden}

    modules = [module for block in blocks(model) for module in block.children()]
    attentions = [module for module in modules if getattr(module, "layer_idx", None) in kept]
    hooks = [module.register_forward_pre_hook(hide, with_kwargs=True) for module in attentions]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
