"""A tiny model of each kind, random weights, its prompts, and a tokenizer."""

from typing import Any

import torch
import transformers as library
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers import models as token_models

SIZES = {
    "vocab_size": 100,
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
WINDOWED = {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"] * 2}
ANGLES = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}
EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}
LINEAR = {"layer_types": ["linear_attention", "full_attention"] * 2}
LLAMA4 = {"attention_chunk_size": 16, "intermediate_size_mlp": 64, **ANGLES, **EXPERTS}
QWEN3_NEXT = {
    "num_experts": 2,
    "num_experts_per_tok": 1,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
LATENT = {
    "num_key_value_heads": 4,
    "n_routed_experts": 4,
    "n_group": 1,
    "topk_group": 1,
    "num_experts_per_tok": 1,
    "moe_intermediate_size": 16,
    "kv_lora_rank": 8,
    "q_lora_rank": 8,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "first_k_dense_replace": 1,
}
VISION = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}
PICTURES = "Gemma 3 with pictures, asked with text"
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama": ("Llama", {}),
    "Mistral": ("Mistral", {"sliding_window": None}),
    "Qwen 2": ("Qwen2", {}),
    "Qwen 3": ("Qwen3", {}),
    "Phi-3": ("Phi3", {}),
    "Gemma": ("Gemma", {}),
    "Gemma 2": ("Gemma2", {"sliding_window": 16}),
    "Gemma 3, text": ("Gemma3", WINDOWED),
    PICTURES: ("Gemma3", WINDOWED),
    "GPT-OSS": ("GptOss", {"sliding_window": 16, **ANGLES, **EXPERTS}),
    "Llama 4, text": ("Llama4", LLAMA4),
    "Ministral": ("Ministral", WINDOWED),
    "Qwen3-Next": ("Qwen3Next", LINEAR | QWEN3_NEXT),
    "DeepSeek 3 (MLA)": ("DeepseekV3", LATENT),
    "MiniMax": ("MiniMax", LINEAR | {"block_size": 8, **EXPERTS}),
}
"""Of 4 layers, of which 1 and 3 see the whole prompt (of Llama 4 only 3); the first six have no windows."""


def tiny(kind: str = "Llama") -> Any:
    """A model of this kind, or None where the installed transformers has none."""
    name, options = KINDS[kind]
    sizes = SIZES | options
    if name in ("Phi3", "DeepseekV3"):
        del sizes["head_dim"]
    text = getattr(library, f"{name}TextConfig", None) or getattr(library, f"{name}Config", None)
    if text is None:
        return None
    torch.manual_seed(0)
    if kind == PICTURES:
        return library.Gemma3ForConditionalGeneration(
            library.Gemma3Config(text_config=text(**sizes), vision_config=VISION)
        ).eval()
    return getattr(library, f"{name}ForCausalLM")(text(**sizes)).eval()


def prompt(length: int = 60, seed: int = 0) -> torch.Tensor:
    """Random tokens ``[1, length]``, none of them special."""
    return torch.randint(3, SIZES["vocab_size"], (1, length), generator=torch.Generator().manual_seed(seed))


def words() -> Any:
    """A tokenizer of words ``w3`` to ``w99``, split at blanks."""
    known = {"<pad>": 0, "<s>": 1, "</s>": 2} | {f"w{i}": i for i in range(3, 100)}
    tokenizer = Tokenizer(token_models.WordLevel(known, unk_token="w3"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return library.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
