"""What a prompt is said to cost, of models whose layers or configurations differ from Llama's."""

import pytest
from hybrid_models import hybrid

from featscope.language.keep import operations_of
from featscope.options import ConfigError


def pairs_of(model, layer):
    """Operations of ``layer`` on pairs of tokens, twice 32 of them less those among each 32."""
    of = range(layer, layer + 1)
    return operations_of(model, 64, of) - 2 * operations_of(model, 32, of)


def test_products_of_queries_and_of_values_have_the_channels_that_a_layer_has():
    latent = hybrid("deepseek-v3", v_head_dim=24, qk_nope_head_dim=4)  # its head_dim is that of rotary angles alone
    assert pairs_of(latent, 1) == 2 * 4 * ((4 + 8) + 24) * 32**2
    own = hybrid("gemma4", global_head_dim=16, sliding_window=200)
    assert [pairs_of(own, layer) for layer in range(4)] == [4 * 4 * channels * 32**2 for channels in (8, 16, 8, 16)]


def test_experts_are_counted_whatever_a_configuration_calls_them():
    experts = {"enable_moe_block": True, "num_experts": 4, "top_k_experts": 1, "moe_intermediate_size": 16}
    model = hybrid("gemma4", **experts)
    sizes = [sum(p.numel() for p in layer.parameters()) for layer in model.model.layers]
    unused = [0.75 * sum(p.numel() for p in layer.experts.parameters()) for layer in model.model.layers]
    pairs = operations_of(model, 1) - 2 * (sum(sizes) - sum(unused))
    assert pairs == pytest.approx(2 * 4 * 8 * 4)
    model.config.top_k_experts = None
    with pytest.raises(ConfigError, match=r"none of num_experts_per_tok, .*: allowed is a number of tokens"):
        operations_of(model, 60)
