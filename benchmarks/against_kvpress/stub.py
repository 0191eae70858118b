"""A stand-in for FlashAttention, which needs a GPU: the same numbers by its definition."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import AttentionMaskInterface
from transformers.masking_utils import flash_attention_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


@contextmanager
def stub(name: str) -> Iterator[list[int]]:
    """Within it a model may be on kernel ``name``; yields the layers that ran it."""
    ran: list[int] = []

    def kernel(
        module: Any, query: Any, key: Any, value: Any, attention_mask: Any, dropout: float = 0.0, **options: Any
    ) -> Any:
        if attention_mask is not None and attention_mask.ndim != 2:
            raise TypeError("flash attention takes a mask of two axes")
        ran.append(module.layer_idx)
        queries, keys = query.shape[2], key.shape[2]
        seen = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)[None, None]
        if attention_mask is not None:
            seen = seen & attention_mask[:, None, None, -keys:].bool()
        groups = query.shape[1] // key.shape[1]
        products = query @ key.repeat_interleave(groups, 1).mT * options["scaling"]
        weights = products.masked_fill(~seen, torch.finfo(products.dtype).min).softmax(-1)
        return (weights @ value.repeat_interleave(groups, 1)).transpose(1, 2), None

    if attention_patch := getattr(sys.modules.get("kvpress"), "attention_patch", None):
        kernel = attention_patch.attention_patch(kernel)  # kvpress wraps what is there when it is imported
    functions, masks = ALL_ATTENTION_FUNCTIONS._local_mapping, AttentionMaskInterface._global_mapping
    before = functions.get(name), masks.get(name)
    functions[name], masks[name] = kernel, flash_attention_mask
    try:
        yield ran
    finally:
        for mapping, own in zip((functions, masks), before, strict=True):
            if own is None:
                del mapping[name]
            else:
                mapping[name] = own
