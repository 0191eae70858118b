"""The decoder: replica by replica the plain thing, and nothing seen before its time."""

import pytest
import torch
from torch.nn.functional import gelu, layer_norm

from featscope.data.modular_addition import ModularAddition
from featscope.models import Decoder
from featscope.options import ConfigError
from featscope.streams import Streams

STREAMS = Streams(0, range(2))


def built(**options):
    source = ModularAddition(3, 7, 0.5).build(STREAMS.at("data"))
    network = Decoder(**{"width": 8, "heads": 2, **options}).build(source, STREAMS.at("weights"))
    return network, source.sample(STREAMS.at("points"), 3)


def plain(network, replica, point, heads):
    """Token by token, every place of every block."""
    width = network.embedding.shape[-1]
    x = network.embedding[replica][[*point.tolist(), 7]] + network.position[replica]
    for attention, back, up, down in network.blocks:
        seen = layer_norm(x, (width,))
        query, key, value = (seen @ attention[replica]).chunk(3, -1)
        parts = []
        for q, k, v in zip(*(one.chunk(heads, -1) for one in (query, key, value)), strict=True):
            scores = q @ k.T / q.shape[-1] ** 0.5
            parts.append(torch.softmax(scores + torch.full_like(scores, -torch.inf).triu(1), -1) @ v)
        x = x + torch.cat(parts, -1) @ back[replica]
        x = x + gelu(layer_norm(x, (width,)) @ up[replica]) @ down[replica]
    return layer_norm(x, (width,))[-1] @ network.readout[replica]


@pytest.mark.parametrize("options", [{}, {"layers": 3}, {"head_dim": 3, "heads": 5}])
def test_logits_are_those_of_a_plain_decoder(options):
    network, points = built(**options)
    found = network(points)
    for replica in range(2):
        for place, point in enumerate(points[replica]):
            expected = plain(network, replica, point, options.get("heads", 2))
            torch.testing.assert_close(found[replica, place], expected, rtol=1e-4, atol=1e-5)


def test_the_norm_is_of_all_weights():
    network, _ = built()
    each = torch.cat([parameter[1].flatten() for parameter in network.parameters()])
    torch.testing.assert_close(network.norm()[1], each.norm())


def test_heads_that_do_not_fit_are_named():
    with pytest.raises(ConfigError, match=r"heads = 3 .* a divisor of width"):
        Decoder(width=8, heads=3)


def test_weights_begin_in_units_of_what_they_sum_over_and_what_blocks_add_is_smaller():
    """2,048 numbers of the smallest matrix: 5 standard errors are 8 %, of the 512 of positions 16 %."""
    network, _ = built(width=64, head_dim=8, layers=3)
    for block in network.blocks:
        scales = [float(one.detach().std() * one.shape[1] ** 0.5) for one in block]
        assert scales == pytest.approx([1, 6**-0.5, 1, 6**-0.5], rel=0.08)
    assert float(network.readout.detach().std()) == pytest.approx(1 / 8, rel=0.12)
    assert float(network.embedding.detach().std()) == pytest.approx(1, rel=0.12)
    assert float(network.position.detach().std()) == pytest.approx(0.3, rel=0.16)
