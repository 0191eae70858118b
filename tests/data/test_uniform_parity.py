"""Uniform parities and multi-index laws: labels, and what is refused."""

import pytest
import torch

from featscope.data import MultiIndex, UniformParity
from featscope.options import ConfigError
from featscope.streams import Streams

STREAMS = Streams(0, [0, 1])


def test_labels_are_products_of_the_block():
    source = UniformParity(9, 4).build(STREAMS.at("law"))
    assert source.inside.sum(1).tolist() == [4, 4]
    assert torch.allclose(source.features.norm(dim=-1), torch.ones(2, 1, dtype=torch.float64))
    x, y, part = source.sample(STREAMS.at("sample"), 500)
    assert set(x.unique().tolist()) == {-1.0, 1.0}
    for replica in range(2):
        assert torch.equal(y[replica], x[replica][:, source.inside[replica]].prod(-1))
    assert (part == -1).all()


def test_shuffled_labels_are_of_nothing():
    source = UniformParity(9, 2, shuffled=True).build(STREAMS.at("law"))
    x, y, _ = source.sample(STREAMS.at("sample"), 4000)
    assert set(y.unique().tolist()) == {-1.0, 1.0}
    assert abs(float(y.mean())) < 0.05
    assert abs(float((y[0] * x[0][:, source.inside[0]].prod(-1)).mean())) < 0.1


def test_the_linear_part_is_along_the_first_direction():
    source = MultiIndex(6, 3, 0.0, 1.0, 0.0, 0.0).build(STREAMS.at("law"))
    x, y = source.sample(STREAMS.at("sample"), 20, torch.float64)
    torch.testing.assert_close(y, (x @ source.features[:, 0, :, None])[..., 0])


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (UniformParity, {"block": 3}, "block = 3 .* even"),
        (UniformParity, {"dimension": 10}, "dimension = 10 .* odd"),
        (MultiIndex, {"dimension": 1}, "dimension = 1 .* >= 2"),
        (MultiIndex, {"directions": 31}, "directions = 31 .* 1 to"),
        (MultiIndex, {"quadratic": 0.5}, "quadratic = 0.5 .* sum to 1"),
    ],
)
def test_options_out_of_range_are_named(kind, options, message):
    with pytest.raises(ConfigError, match=message):
        kind(**options)
