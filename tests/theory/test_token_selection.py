"""The formulas of Theorem 9.3, against counts by hand."""

from dataclasses import replace

import pytest

from featscope.theory.token_selection import (
    Geometry,
    cache_numbers,
    decoding_operations,
    first_pass_operations,
    first_pass_share,
    prompt_memory_evicting,
    prompt_memory_first_pass,
    prompt_memory_full,
    prompt_operations,
)

SMALL = Geometry(layers=2, heads=2, kv_heads=1, channels=4, width=8, hidden=16, vocabulary=10)
LLAMA = Geometry(layers=32, heads=32, kv_heads=8, channels=128, width=4096, hidden=14336, vocabulary=128256)


def test_a_layer_by_hand():
    projections = 2 * 3 * 8 * (8 + 4 + 4)
    attention = 2 * (2 * 3 * 3 * 2 * 4)
    output, mlp = 2 * 3 * 8 * 8, 3 * 2 * 3 * 8 * 16
    assert SMALL.block(3, 3) == projections + attention + output + mlp
    assert prompt_operations(SMALL, 3) == 2 * SMALL.block(3, 3) + 2 * 8 * 10
    assert first_pass_operations(SMALL, 3, 1) == SMALL.block(3, 3) + projections
    assert decoding_operations(SMALL, 5) == 2 * SMALL.block(1, 5) + 160


def test_the_prompts_cost_tends_to_the_ratio_of_layers():
    assert first_pass_share(LLAMA, 10**7, 13) == pytest.approx(13 / 32, rel=1e-3)


def test_memory_of_llama_at_128_thousand_tokens():
    """Keys and values of bf16: 16.8 GB, half a gigabyte for a layer, and 0.13 GB for a thousand kept tokens."""
    n = 128 * 1024
    assert 2 * prompt_memory_full(LLAMA, n) == pytest.approx(17.2e9, rel=0.01)
    assert 2 * prompt_memory_first_pass(LLAMA, n) == pytest.approx(0.54e9, rel=0.01)
    assert 2 * cache_numbers(LLAMA, 1024) == pytest.approx(0.134e9, rel=0.01)
    assert prompt_memory_evicting(LLAMA, n, 1024) == prompt_memory_first_pass(LLAMA, n) + cache_numbers(LLAMA, 1024)


def test_grouped_queries_shrink_the_cache():
    assert cache_numbers(replace(SMALL, kv_heads=2), 7) == 2 * cache_numbers(SMALL, 7)


def test_heads_may_be_wider_together_than_the_stream():
    """Queries of 12 channels and keys and values of 6 from a stream of 8, and back."""
    wide = replace(SMALL, channels=6)
    assert wide.projections(3) == 2 * 3 * (8 * 12 + 2 * 8 * 6)
    assert wide.block(3, 5) == wide.projections(3) + 2 * (2 * 3 * 5 * 2 * 6) + 2 * 3 * 12 * 8 + 3 * 2 * 3 * 8 * 16
