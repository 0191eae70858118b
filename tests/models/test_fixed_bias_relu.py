"""The network with fixed biases, its start, and its first step."""

import pytest
import torch

from featscope.data.labelled_gaussians import GaussianMixture
from featscope.models.fixed_bias_relu import FixedBiasReLU, FixedBiasReLUNetwork
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.training.feature_step import FeatureStep, MarginLoss, alignment_to, fitting, margin_loss

STREAMS = Streams(0, range(2))
SOURCE = GaussianMixture(20).build(STREAMS.at("law"))


def test_the_start_is_symmetric_and_says_nothing():
    network = FixedBiasReLU(5, 3.0, 0.1, 0.2).build(SOURCE, STREAMS.at("weights"))
    w, a, b = network.weight, network.readout, network.bias
    assert torch.equal(w[:, 5:10], -w[:, :5])
    assert torch.equal(w[:, 10:], w[:, :10])
    assert torch.equal(a[:, 10:], -a[:, :10])
    assert torch.allclose(b[0, :10], torch.tensor([0.3] * 5 + [-0.3] * 5))
    x = SOURCE.sample(STREAMS.at("x"), 50).x
    assert network(x).abs().max() < 1e-5
    with torch.no_grad():
        network.readout[:, 10:] = 0
    expected = (((x @ w[:, :10].mT - b[:, None, :10]).relu()) @ a[:, :10, None])[..., 0]
    assert torch.allclose(network(x), expected, atol=1e-5)


def test_weights_and_readout_have_deviations_of_their_own():
    network = FixedBiasReLU(5000, 3.0, 0.1, 0.3).build(SOURCE, STREAMS.at("weights"))
    assert float(network.weight.detach().std()) == pytest.approx(0.1, rel=0.01)
    assert float(network.readout.detach().std()) == pytest.approx(0.3, rel=0.03)


def test_a_step_leaves_nothing_of_the_start_and_parts_are_of_the_same_network():
    step = FeatureStep(FixedBiasReLU(10, 4.0), 200, count=8)
    whole = step.build(SOURCE, STREAMS.at("weights"))
    assert torch.equal(whole.start_weight, step.start.build(SOURCE, STREAMS.at("weights")).weight)
    best, worst = (
        FeatureStep(step.start, 200, keep=keep, count=8, frozen=True).build(SOURCE, STREAMS.at("weights"))
        for keep in ("aligned", "misaligned")
    )
    assert best.weight.shape == (2, 8, 20)
    assert not best.weight.requires_grad
    assert best.readout.requires_grad
    nearness = alignment_to(whole.weight, SOURCE.features)
    least = alignment_to(best.weight, SOURCE.features).amin(1)
    assert torch.allclose(least, nearness.topk(8, dim=1).values[:, -1])
    assert (alignment_to(worst.weight, SOURCE.features).amax(1) <= least).all()
    for part in (best, worst):
        found = (part.weight[:, :, None] == whole.weight[:, None]).all(-1)
        assert found.any(2).all()
        place = found.long().argmax(2)
        assert torch.equal(part.readout, whole.readout.gather(1, place))
        assert torch.equal(part.bias, whole.bias.gather(1, place))


def test_neurons_that_fit_are_near_the_feature_and_begin_to_fire_at_its_bends():
    feature = torch.tensor([[[1.0, 0.0]]])
    toward, away = [1.0, 0.1], [-1.0, 0.1]
    weight = torch.tensor([[toward, toward, toward, away, away, [0.5, 1.0]]])
    bias = torch.tensor([[0.1, 1.0, 3.0, 1.1, 2.9, 1.0]])
    network = FixedBiasReLUNetwork(weight, torch.ones(1, 6), bias)
    assert fitting(network, feature, torch.tensor([1.0, -1.0]), 2).tolist() == [[1, 3]]
    assert fitting(network, feature, torch.tensor([1.0, -1.0]), 3).tolist() == [[1, 3, 0]]
    assert fitting(network, feature, torch.tensor([3.0, 2.9]), 2).tolist() == [[2, 1]]  # each once


def test_no_neuron_stays_twice_where_few_are_near_a_feature(monkeypatch):
    monkeypatch.setattr(SOURCE, "bends", torch.tensor([0.0, 1.0]), raising=False)
    step = FeatureStep(FixedBiasReLU(10, 4.0), 200, keep="fitting", count=40)
    with pytest.raises(ConfigError, match=r"count = 40 .* at most, as so few neurons have a cosine of 0\.9"):
        step.build(SOURCE, STREAMS.at("weights"))


def test_losses_are_1_at_0_and_fall():
    margins = torch.tensor([-1.0, 0.0, 1.0, 2.0])
    assert margin_loss(margins, "hinge").tolist() == [2, 1, 0, 0]
    logistic = margin_loss(margins, "logistic")
    assert logistic[1].item() == pytest.approx(1)
    assert (logistic.diff() < 0).all()
    network = FixedBiasReLU(3).build(SOURCE, STREAMS.at("weights"))
    assert MarginLoss(samples=7)(network, SOURCE, STREAMS.at("batch")).shape == (2,)
    for kind in ("hinge", "logistic"):
        at_start = MarginLoss(kind, 7)(network, SOURCE, STREAMS.at("batch"))  # where it says 0
        torch.testing.assert_close(at_start, torch.ones_like(at_start))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FixedBiasReLU(quarter=0), "quarter = 0 .* >= 1"),
        (lambda: FixedBiasReLU(threshold=-1.0), "threshold = -1.0 .* >= 0"),
        (lambda: FixedBiasReLU(spread=0.0), "spread = 0.0 .* > 0"),
        (lambda: FixedBiasReLU(readout=0.0), "readout = 0.0 .* > 0"),
        (lambda: MarginLoss(samples=0), "samples = 0 .* >= 1"),
        (lambda: FeatureStep(samples=0), "samples = 0 .* >= 1"),
        (lambda: FeatureStep(rate=0.0), "rate = 0.0 .* > 0"),
        (lambda: FeatureStep(FixedBiasReLU(2), count=9), "count = 9 .* 1 to 8"),
    ],
)
def test_options_out_of_range_are_named(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
