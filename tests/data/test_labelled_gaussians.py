"""Laws with two classes: margins, components, blocks."""

import pytest
import torch

from featscope.data.labelled_gaussians import GaussianMixture, LinearMargin
from featscope.data.structured_parity import StructuredParity
from featscope.options import ConfigError
from featscope.streams import Streams

STREAMS = Streams(0, range(2))


def _sample(options, count=4000):
    source = options.build(STREAMS.at("law"))
    return source, source.sample(STREAMS.at("sample"), count, torch.float64)


def test_linear_data_have_their_margin_and_nothing_else():
    source, (x, y, _) = _sample(LinearMargin(10, 0.5, 2.0))
    along = (x @ source.features.mT)[..., 0]
    assert (y * along).min() >= 0.5 - 1e-9
    assert (y * along).max() <= 3.5 + 1e-9
    assert torch.allclose((y * along).mean(1), torch.full((2,), 2.0, dtype=torch.float64), atol=0.06)
    off = x - along[..., None] * source.features
    assert off.square().sum(-1).mean().item() == pytest.approx(9, rel=0.05)
    assert (y[..., None] * off).mean(1).norm(dim=-1).max() < 0.1


def test_components_have_their_means_labels_and_weights():
    options = GaussianMixture(12, (1, -1, 3), (1, -1, -1), (5.0, 4.0, 3.0), (0.5, 0.3, 0.2), 0.5)
    source, (x, y, part) = _sample(options)
    assert torch.allclose(source.means.norm(dim=-1), source.norms.expand(2, 3))
    assert torch.allclose(source.features[:, 0], -source.features[:, 1])
    for component, (label, weight) in enumerate(zip(options.labels, options.weights, strict=True)):
        own = part == component
        assert own.double().mean().item() == pytest.approx(weight, abs=0.03)
        assert (y[own] == label).all()
        for replica in range(2):
            mean = x[replica, own[replica]].mean(0)
            assert (mean - source.means[replica, component]).norm() < 0.1
    spread = (x - source.means.gather(1, part[..., None].expand(-1, -1, 12))).square().mean().sqrt()
    assert spread.item() == pytest.approx(0.5, rel=0.02)


def test_means_are_as_long_as_noise_where_nothing_is_said():
    source = GaussianMixture(20).build(STREAMS.at("law"))
    torch.testing.assert_close(source.means.norm(dim=-1), torch.full((2, 4), 20.0**0.5, dtype=torch.float64))
    assert source.weights.tolist() == [0.25] * 4


def test_blocks_are_tuned_as_often_as_said_and_labels_are_parities():
    options = StructuredParity(25, 3, 3, 0.1, 0.2)
    source, (x, y, part) = _sample(options, 8000)
    phi = x @ source.dictionary.mT
    assert torch.allclose(phi, phi.round(), atol=1e-9)
    blocks = phi.round()[..., :9].unflatten(-1, (3, 3))
    assert (y == blocks.prod(-1).sum(-1).sign()).all()
    assert torch.allclose(x @ source.features.mT, blocks.sum(-1) / 3**0.5, atol=1e-9)
    for block in range(3):
        own = part == block
        assert own.double().mean().item() == pytest.approx(0.2, abs=0.02)
        assert (blocks[own][:, block].sum(-1).abs() == 3).all()
        assert (blocks[own].abs().sum((1, 2)) == 3).all()
        assert blocks[own].sum((1, 2)).mean().abs() < 0.2
    assert (blocks[part < 0].abs() == 1).all()
    torch.testing.assert_close(source.bends, torch.tensor([3.0, 1.0, -1.0, -3.0]) / 3**0.5)
    rest = phi.round()[..., 9:]
    assert [(rest == value).double().mean().item() for value in (1, 0)] == pytest.approx([0.2, 0.6], abs=0.01)


def test_replicas_have_directions_of_their_own_and_addresses_repeat():
    source, (x, _, _) = _sample(GaussianMixture(20))
    assert not torch.allclose(source.features[0], source.features[1])
    assert torch.equal(x, source.sample(STREAMS.at("sample"), 4000, torch.float64).x)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (LinearMargin, {"dimension": 1}, "dimension = 1 .* >= 2"),
        (LinearMargin, {"margin": 0.0}, "margin = 0.0 .* > 0"),
        (LinearMargin, {"mean": 0.1}, "mean = 0.1 .* >= margin"),
        (GaussianMixture, {"axes": (1,)}, "axes = .* two or more"),
        (GaussianMixture, {"axes": (1, -1, 2, 0)}, "axes = .* but 0"),
        (GaussianMixture, {"labels": (1, 1, 0, 1)}, "labels = .* -1 or 1"),
        (GaussianMixture, {"norms": (1.0,)}, "norms = .* empty, or 4"),
        (GaussianMixture, {"weights": (0.5, 0.5, 0.5, 0.5)}, "weights = .* empty, or 4"),
        (GaussianMixture, {"spread": 0.0}, "spread = 0.0 .* > 0"),
        (StructuredParity, {"block": 4}, "block = 4 .* odd"),
        (StructuredParity, {"blocks": 2}, "blocks = 2 .* odd"),
        (StructuredParity, {"dimension": 4}, "dimension = 4 .* >= block x blocks"),
        (StructuredParity, {"tuned": 0.6}, "tuned = 0.6 .* 1/2 over blocks"),
        (StructuredParity, {"other": 0.7}, "other = 0.7 .* <= 1/2"),
    ],
)
def test_options_out_of_range_are_named(kind, options, message):
    with pytest.raises(ConfigError, match=message):
        kind(**options)
