"""Points and labels of modular addition."""

import pytest
import torch

from featscope.data.modular_addition import ModularAddition, all_labels, all_points, points_at
from featscope.options import ConfigError
from featscope.streams import Streams

STREAMS = Streams(0, range(3))


@pytest.mark.parametrize(("inputs", "modulus"), [(2, 5), (3, 4), (4, 3)])
def test_labels_are_sums_of_all_points_in_their_order(inputs, modulus):
    points = all_points(inputs, modulus)
    assert points.shape == (modulus**inputs, inputs)
    assert len(points.unique(dim=0)) == len(points)
    assert (points[:modulus, -1] == torch.arange(modulus)).all()  # the last number is the fastest
    assert (all_labels(inputs, modulus) == points.sum(1) % modulus).all()


def test_a_share_of_the_points_is_shown_another_one_to_each_replica():
    source = ModularAddition(2, 7, share=0.5).build(STREAMS.at("data"))
    assert source.shown.sum(1).tolist() == [24, 24, 24]
    assert not torch.equal(source.shown[0], source.shown[1])
    assert ModularAddition(2, 7).build(STREAMS.at("data")).shown.all()


def test_samples_are_uniform_over_all_points():
    source = ModularAddition(2, 5).build(STREAMS.at("data"))
    points = source.sample(STREAMS.at("batch"), 4000)
    assert points.shape == (3, 4000, 2)
    counts = torch.bincount(points[0, :, 0] * 5 + points[0, :, 1], minlength=25)
    assert counts.min() > 100
    assert counts.max() < 230


def test_cross_entropy_is_over_the_points_that_are_shown_or_the_others():
    source = ModularAddition(2, 5, share=0.4).build(STREAMS.at("data"))
    right = torch.nn.functional.one_hot(source.labels, 5).double().repeat(3, 1, 1)
    logits = torch.where(source.shown[..., None], 50 * right, torch.zeros(()).double())
    assert source.cross_entropy(logits).max() < 1e-10
    torch.testing.assert_close(source.cross_entropy(logits, shown=False), torch.full((3,), 5.0).double().log())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inputs": 1}, r"inputs = 1 .* >= 2"),
        ({"modulus": 2}, r"modulus = 2 .* >= 3\. Modulo 2"),
        ({"inputs": 6, "modulus": 97}, r"modulus = 97 .* at most 100,000,000 points"),
        ({"share": 0.0}, r"share = 0.0 .* > 0 and <= 1"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        ModularAddition(**options)


def test_places_are_those_of_the_order_of_all_points():
    assert torch.equal(points_at(torch.arange(5**3), 3, 5), all_points(3, 5))
