"""Tiny models of every architecture, and a tokenizer of words, built without files."""

from functools import cache
from tempfile import mkdtemp
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GemmaConfig,
    GemmaForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

ARCHITECTURES: dict[str, tuple[type, type]] = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "mistral": (MistralConfig, MistralForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "phi3": (Phi3Config, Phi3ForCausalLM),
    "gemma": (GemmaConfig, GemmaForCausalLM),
    "gemma2": (Gemma2Config, Gemma2ForCausalLM),  # eager attention, and a window in every other layer
}
VOCABULARY = 100


def tiny(name: str = "llama", **options: Any) -> Any:
    """A model of 4 layers with grouped queries; weights are large enough that attention is not uniform."""
    config, model = ARCHITECTURES[name]
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 256,
        "initializer_range": 0.2,
        "bos_token_id": 1,
        "eos_token_id": None,
        "pad_token_id": 0,
    }
    if name == "phi3":
        del sizes["head_dim"]
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        made = model(config(**sizes | options)).eval()
        made.get_input_embeddings().weight.data[0].normal_(std=0.2)  # or padding that no mask hides would do nothing
        return made


def long_phi3(original: int) -> Any:
    """A model whose rotary angles are others in texts of more than ``original`` tokens."""
    factors = {"short_factor": [1.0] * 4, "long_factor": [3.0] * 4, "original_max_position_embeddings": original}
    rope = {"rope_type": "longrope", "rope_theta": 1e4, **factors}
    return tiny("phi3", rope_parameters=rope, original_max_position_embeddings=original)


def prompt(length: int = 60, seed: int = 0) -> torch.Tensor:
    """Random tokens ``[1, length]``, none of them special."""
    return torch.randint(3, VOCABULARY, (1, length), generator=torch.Generator().manual_seed(seed))


def padded(*rows: torch.Tensor) -> torch.Tensor:
    """Prompts in one batch, padded on the left."""
    longest = max(row.shape[1] for row in rows)
    return torch.cat([torch.nn.functional.pad(row, (longest - row.shape[1], 0)) for row in rows])


def word_tokenizer() -> PreTrainedTokenizerFast:
    """Words ``w3`` to ``w99`` and a few others, split at blanks."""
    known = {"<pad>": 0, "<s>": 1, "</s>": 2} | {f"w{i}": i for i in range(3, VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(known, unk_token="w3"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>")


@cache
def saved_draft() -> str:
    """A folder with a model that can draft for all of these, and their tokenizer."""
    folder = mkdtemp()
    tiny(num_hidden_layers=2).save_pretrained(folder)
    word_tokenizer().save_pretrained(folder)
    return folder
