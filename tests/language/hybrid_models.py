"""Tiny models whose layers differ, that read more than text, or whose cache is of another kind."""

from typing import Any

import torch
import transformers as library

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
EVERY_OTHER = ["sliding_attention", "full_attention"] * 2
LINEAR = ["linear_attention", "full_attention"] * 2
ANGLES = {"rope_type": "default", "rope_theta": 1e4}
EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}
VISION = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
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
GEMMA4 = {
    "sliding_window": 16,
    "layer_types": EVERY_OTHER,
    "global_head_dim": 8,
    "vocab_size_per_layer_input": 100,
    "hidden_size_per_layer_input": 8,
    "num_kv_shared_layers": 0,
}
GEMMA3N = {
    "sliding_window": 16,
    "layer_types": EVERY_OTHER,
    "vocab_size_per_layer_input": 100,
    "hidden_size_per_layer_input": 8,
    "num_kv_shared_layers": 0,
    "laurel_rank": 4,
    "intermediate_size": [64] * 4,
    "activation_sparsity_pattern": [0.0] * 4,
}
SHARED = {"num_kv_shared_layers": 2}
LLAMA4 = {"attention_chunk_size": 16, "intermediate_size_mlp": 64, "rope_parameters": ANGLES, **EXPERTS}
WINDOWED = {"sliding_window": 16, "layer_types": EVERY_OTHER}

TEXT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", {"sliding_window": 16}),
    "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM", WINDOWED),
    "gpt-oss": ("GptOssConfig", "GptOssForCausalLM", {"sliding_window": 16, "rope_parameters": ANGLES, **EXPERTS}),
    "llama4": ("Llama4TextConfig", "Llama4ForCausalLM", LLAMA4),
    "ministral": ("MinistralConfig", "MinistralForCausalLM", WINDOWED),
    "gemma4": ("Gemma4TextConfig", "Gemma4ForCausalLM", GEMMA4),
    "qwen3-next": ("Qwen3NextConfig", "Qwen3NextForCausalLM", {"layer_types": LINEAR, **QWEN3_NEXT}),
    "minimax": ("MiniMaxConfig", "MiniMaxForCausalLM", {"layer_types": LINEAR, "block_size": 8, **EXPERTS}),
    "deepseek-v3": ("DeepseekV3Config", "DeepseekV3ForCausalLM", LATENT),
    "deepseek-v2": ("DeepseekV2Config", "DeepseekV2ForCausalLM", LATENT),
    "gemma3n": ("Gemma3nTextConfig", "Gemma3nForCausalLM", GEMMA3N),
    "gemma4-shared": ("Gemma4TextConfig", "Gemma4ForCausalLM", GEMMA4 | SHARED),
    "gemma3n-shared": ("Gemma3nTextConfig", "Gemma3nForCausalLM", GEMMA3N | SHARED),
    "doge": ("DogeConfig", "DogeForCausalLM", {"keep_window_size": 16}),
    "diffllama": ("DiffLlamaConfig", "DiffLlamaForCausalLM", {}),
    "windowed-mistral": ("MistralConfig", "MistralForCausalLM", {"sliding_window": 16}),
}
OF_OTHERS = ("gemma4-shared", "gemma3n-shared")
"""Layer 2 reads what layer 0 holds, and layer 3 what layer 1 does."""
HYBRIDS = ("gemma2", "gemma3", "gpt-oss", "llama4", "ministral", "gemma4", "gemma3n", *OF_OTHERS, "qwen3-next")
IN_CHUNKS = ("gemma2", "gemma3", "gpt-oss", "llama4", "ministral", "deepseek-v2", "deepseek-v3", "doge", "diffllama")
PICTURES = ("gemma3-vision", "qwen2-vision", "mistral3-vision", "gemma4-vision")


def hybrid(name: str, **more: Any) -> Any:
    """A model of 4 layers, of which 1 and 3 see everything (of Llama 4 only 3, of the windowed Mistral none)."""
    config, model, options = TEXT[name]
    sizes = SIZES | options | more
    if name.startswith(("deepseek", "doge")):
        del sizes["head_dim"]
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        made = getattr(library, model)(getattr(library, config)(**sizes)).eval()
        for module in made.modules():
            if hasattr(module, "dt_proj"):  # or all tokens would weigh alike, of which a window keeps any
                module.A.data.normal_()
        made.get_input_embeddings().weight.data[0].normal_(std=0.2)  # or padding that no mask hides would do nothing
        return made


def with_pictures(name: str) -> Any:
    """A model that reads pictures, too, of small sizes."""
    rope = {"rope_parameters": ANGLES | {"mrope_section": [1, 1, 2]}}
    qwen = {"depth": 1, "embed_dim": 16, "hidden_size": 32, "num_heads": 2}
    whole, text, options, vision = {
        "gemma3-vision": ("Gemma3", "Gemma3TextConfig", WINDOWED, VISION),
        "qwen2-vision": ("Qwen2VL", "Qwen2VLTextConfig", rope, qwen),
        "mistral3-vision": ("Mistral3", "MistralConfig", {}, {"model_type": "pixtral"} | VISION),
        "gemma4-vision": ("Gemma4", "Gemma4TextConfig", GEMMA4, None),
    }[name]
    of_text = getattr(library, text)(**SIZES | options)
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        config = getattr(library, f"{whole}Config")(text_config=of_text, vision_config=vision)
        return getattr(library, f"{whole}ForConditionalGeneration")(config).eval()
