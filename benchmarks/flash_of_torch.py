"""A module `flash_attn` where that package is not installed: its functions call the FlashAttention kernels of torch.

It is not the package of Dao et al., of whose version 2 torch carries a copy for CUDA, which is what runs here. All
between a model and that kernel is what transformers runs for "flash_attention_2"; only its question whether the package
is installed is answered here. Dropout, windows, soft caps, sinks and paged caches are not taken: this serves models
without them, such as Llama. On a CPU, which has no such kernel, attention is computed by its definition, for trials.
"""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import modeling_flash_attention_utils as looked_up

KERNEL = "torch's FlashAttention 2, through a stand-in for the package flash_attn"


def install() -> str:
    """Let transformers find these functions; the package itself stays in use where there is one. Says what runs."""
    if "flash_attn" not in sys.modules and find_spec("flash_attn") is not None:
        return "the package flash_attn"
    padding = {"pad_input": looked_up._pad_input, "unpad_input": looked_up._unpad_input}
    functions = (flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache)
    _module("flash_attn", {one.__name__: one for one in functions} | {"__path__": []})
    _module("flash_attn.bert_padding", padding)
    looked_up.is_flash_attn_2_available = lambda *_, **__: True
    return KERNEL


def _module(name: str, members: dict[str, Any]) -> None:
    sys.modules[name] = ModuleType(name)
    sys.modules[name].__dict__.update(members, __spec__=ModuleSpec(name, None))


def flash_attn_func(
    q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None = None, causal: bool = False
) -> Tensor:
    """Attention ``[batch, token, head, channel]``; where causal, the last query sees all keys."""
    if q.is_cuda:
        return _kernel(q, k, v, None, None, q.shape[1], k.shape[1], softmax_scale, causal)
    seen = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).tril(k.shape[1] - q.shape[1]) if causal else None
    heads = [one.transpose(1, 2) for one in (q, k, v)]
    return scaled_dot_product_attention(*heads, attn_mask=seen, scale=softmax_scale, enable_gqa=True).transpose(1, 2)


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: Any,
    max_seqlen_k: Any,
    softmax_scale: float | None = None,
    causal: bool = False,
) -> Tensor:
    """The same of texts one behind the other, ``[token, head, channel]``."""
    if q.is_cuda:
        most = int(max_seqlen_q), int(max_seqlen_k)
        return _kernel(q, k, v, cu_seqlens_q, cu_seqlens_k, *most, softmax_scale, causal)
    sizes = [starts.diff().tolist() for starts in (cu_seqlens_q, cu_seqlens_k, cu_seqlens_k)]
    texts = zip(*(one.split(size) for one, size in zip((q, k, v), sizes, strict=True)), strict=True)
    return torch.cat([flash_attn_func(*(one[None] for one in text), softmax_scale, causal)[0] for text in texts])


def flash_attn_with_kvcache(*arguments: Any, **options: Any) -> Tensor:
    """Of paged caches: not here."""
    raise NotImplementedError("the stand-in for flash_attn has no paged caches")


def _kernel(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Tensor:
    *lengths, scale, causal = rest
    return torch.ops.aten._flash_attention_forward(q, k, v, *lengths, 0.0, causal, False, scale=scale)[0]
