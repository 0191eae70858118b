"""The retriever's network as it is trained: what transformers computes, in bfloat16 in a third of the time.

On processors that have no fast products in bfloat16 it is in float32 (`quick`).
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu
from transformers import LlamaForCausalLM

_QUERIES = 256  # whose attention weights are formed at once on the processor


def hidden(
    model: LlamaForCausalLM, tokens: Int[Tensor, "row token"], dtype: torch.dtype | None = None
) -> tuple[Float[Tensor, "row token width"], list[Float[Tensor, "row token width"]]]:
    """Last hidden states, after the last norm, and what each layer reads, in the weights' precision.

    Products are in ``dtype``, or in what is `quick` here.

    Only for Llamas with as many key heads as query heads, biases in attention and none elsewhere, as `build` makes.
    """
    config: Any = model.config
    length = tokens.shape[1]
    size = config.head_dim
    dtype = dtype or quick(tokens.device)
    cos, sin = (table.to(tokens.device, dtype) for table in turns(length, size, config.rope_parameters["rope_theta"]))
    future = torch.full((length, length), -torch.inf, device=tokens.device).triu(1).to(dtype)

    def norm(states: Tensor, weight: Tensor) -> Tensor:
        return rms_norm(states, weight.shape, weight, config.rms_norm_eps)

    def together(*parts: Tensor) -> Tensor:
        return torch.cat(parts).to(dtype)

    states, read = model.model.embed_tokens(tokens), []
    for layer in model.model.layers:
        read.append(states)
        attention, mlp = layer.self_attn, layer.mlp
        sides = attention.q_proj, attention.k_proj, attention.v_proj
        seen = norm(states, layer.input_layernorm.weight).to(dtype)
        made = linear(seen, together(*(side.weight for side in sides)), together(*(side.bias for side in sides)))
        of_heads = made.view(*tokens.shape, 3, -1, size).permute(2, 0, 3, 1, 4)
        query, key = turned(of_heads[:2], cos, sin)
        mixed = _attend(query, key, of_heads[2], future).transpose(1, 2).flatten(2)
        states = states + linear(mixed, attention.o_proj.weight.to(dtype), attention.o_proj.bias.to(dtype))
        seen = norm(states, layer.post_attention_layernorm.weight).to(dtype)
        gate, up = linear(seen, together(mlp.gate_proj.weight, mlp.up_proj.weight)).chunk(2, -1)
        states = states + linear(silu(gate) * up, mlp.down_proj.weight.to(dtype))
    return norm(states, model.model.norm.weight), read


def logits(
    states: Float[Tensor, "*place width"], unembedding: Float[Tensor, "entry width"]
) -> Float[Tensor, "*place entry"]:
    """What is said of each state, by products in what is `quick`."""
    dtype = quick(states.device)
    return linear(states.to(dtype), unembedding.to(dtype)).float()


def quick(device: torch.device) -> torch.dtype:
    """bfloat16; float32 on processors without AVX-512.

    On one with AVX2 a product in bfloat16 took eight times as long as one in float32; others were not measured.
    """
    slow = device.type == "cpu" and torch.backends.cpu.get_cpu_capability() != "AVX512"
    return torch.float32 if slow else torch.bfloat16


def turns(length: int, size: int, base: float) -> tuple[Float[Tensor, "token size"], Float[Tensor, "token size"]]:
    """Cosines and sines of rotary positions; the first half of the sines has the sign of the half that it turns."""
    angles = torch.outer(torch.arange(length).float(), base ** (-torch.arange(0, size, 2) / size))
    return torch.cat((angles.cos(), angles.cos()), -1), torch.cat((-angles.sin(), angles.sin()), -1)


def turned(of_heads: Tensor, cos: Tensor, sin: Tensor) -> Float[Tensor, "... size"]:
    """Queries or keys at their rotary positions, whose cosines and sines `turns` has."""
    halves = of_heads.chunk(2, -1)
    return of_heads * cos + torch.cat(halves[::-1], -1) * sin


def _attend(query: Tensor, key: Tensor, value: Tensor, future: Tensor) -> Float[Tensor, "row head token size"]:
    """Attention to what is not in the future: on the processor some queries at a time, to tokens up to the last."""
    if query.is_cuda:
        return scaled_dot_product_attention(query, key, value, is_causal=True)
    q, k, v = (side.flatten(0, 1) for side in (query, key, value))
    mixed = []
    for begin in range(0, q.shape[1], _QUERIES):
        some, seen = slice(begin, begin + _QUERIES), slice(begin + _QUERIES)
        scores = torch.baddbmm(future[some, seen], q[:, some], k[:, seen].mT, alpha=query.shape[-1] ** -0.5)
        mixed.append(torch.bmm(scores.softmax(-1), v[:, seen]))
    return torch.cat(mixed, 1).view_as(query)
