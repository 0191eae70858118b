"""Models with random weights: what is exact, and what a prompt costs, does not depend on weights."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from featscope.streams import Draws
from featscope.theory.token_selection import Geometry


def random_model(size: Geometry, context: int, draws: Draws, spread: float = 0.02) -> PreTrainedModel:
    """A Llama of these sizes in float32, ready to generate. It never stops by itself: no token is the end.

    Args:
        size: see `Geometry`.
        context: positions that it accepts.
        draws: of one replica; the weights follow from their next number.
        spread: standard deviation of the weights.
    """
    with _drawn_from(draws):
        model: Any = LlamaForCausalLM(llama_config(size, context, initializer_range=spread))
    return model.to(draws.device).eval()


def llama_config(size: Geometry, context: int, **more: Any) -> LlamaConfig:
    """Of a Llama of these sizes; ``more`` options are `transformers.LlamaConfig`'s."""
    return LlamaConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.width,
        intermediate_size=size.hidden,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        head_dim=size.channels,
        max_position_embeddings=context,
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=0,
        **more,
    )


def untrained(model: PreTrainedModel, draws: Draws) -> PreTrainedModel:
    """A model of the same kind and shapes whose weights are those of a start: they follow from the next draw."""
    with _drawn_from(draws):
        fresh: Any = AutoModelForCausalLM.from_config(model.config)
    return fresh.to(draws.device).eval()


@contextmanager
def _drawn_from(draws: Draws) -> Iterator[None]:
    """Within it torch's own generator, from which transformers takes weights, is at a place given by ``draws``."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(int(draws.choice(2**20, 1)))
        yield
