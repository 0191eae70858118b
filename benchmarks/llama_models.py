"""Llamas with random weights, of the shapes that are measured, and what computes their attention."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import LlamaForCausalLM

from benchmarks.flash_of_torch import KERNEL, install
from featscope.language.random_models import llama_config
from featscope.theory.token_selection import Geometry

LLAMA = Geometry(layers=32, heads=32, kv_heads=8, channels=128, width=4096, hidden=14336, vocabulary=128256)
DRAFT = Geometry(layers=4, heads=32, kv_heads=8, channels=64, width=2048, hidden=8192, vocabulary=128256)
SMALL = Geometry(layers=8, heads=8, kv_heads=2, channels=16, width=128, hidden=448, vocabulary=1024)
SMALL_DRAFT = Geometry(layers=4, heads=4, kv_heads=2, channels=16, width=64, hidden=224, vocabulary=1024)
FLASH = "flash_attention_2"


def build(size: Geometry, context: int, device: str, dtype: torch.dtype) -> Any:
    """The model, made where it stays, and as wide as it stays."""
    rope = {"rope_type": "default", "rope_theta": 500000.0}
    config = llama_config(size, context, rope_parameters=rope, dtype=dtype)
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            return LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(before)


def weight_bytes(model: Any) -> int:
    """Of all weights."""
    return sum(weight.numel() * weight.element_size() for weight in model.parameters())


@contextmanager
def attending(models: Sequence[Any], by: str, device: str, *, force: bool, chunks: bool) -> Iterator[str]:
    """Within it ``models`` compute attention ``by`` this function of transformers; yields what that runs.

    Args:
        models: that read.
        by: "sdpa" or "flash_attention_2".
        device: of the models.
        force: whether SDPA may use nothing but torch's FlashAttention on a GPU.
        chunks: whether prompts are read in chunks, whose mask that kernel does not take; then another may help.
    """
    forced = by == "sdpa" and force and device != "cpu"
    runs = install() if by == FLASH else "torch's choice"
    if runs == KERNEL and device == "cpu":
        runs = "attention by its definition, through a stand-in for the package flash_attn"
    backends = [SDPBackend.FLASH_ATTENTION]
    if forced:
        runs = "torch's FlashAttention 2, and nothing else"
    if forced and chunks:
        backends, runs = [*backends, SDPBackend.EFFICIENT_ATTENTION], "torch's FlashAttention 2 or efficient attention"
    before = [model.config._attn_implementation for model in models]
    for model in models:
        model.config._attn_implementation = by  # `set_attn_implementation` asks for a package, and for a GPU
    try:
        with sdpa_kernel(backends) if forced else nullcontext():
            yield runs
    finally:
        for model, name in zip(models, before, strict=True):
            model.config._attn_implementation = name
