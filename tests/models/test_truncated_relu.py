"""Truncated-ReLU networks: smoothing by sampling, gradients by autograd, steps that forget, frozen and tangent."""

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

from featscope.data import DictionaryData
from featscope.models import Layers, TangentStart, UnbiasedStart, first_steps, pull, unbiased_start
from featscope.models.truncated_relu import smoothed, smoothed_slope, truncated_relu
from featscope.options import ConfigError
from featscope.streams import Streams

STREAMS = Streams(0, range(2))
SOURCE = DictionaryData(12, 3, samples=500, test=10).build(STREAMS.at("dictionary"))


def _mean_of_blurred(z, width):
    """E min(1, max(0, z + ξ)), the integral of its chances to be above each number from 0 to 1."""
    return quad(lambda t: norm.sf(t, z, width), 0, 1, epsabs=1e-13)[0]


def test_smoothing_is_the_closed_form_and_its_slope_the_derivative():
    z = torch.linspace(-1, 2, 31, dtype=torch.float64, requires_grad=True)
    values = smoothed(z, 0.3)
    np.testing.assert_allclose(values.detach(), [_mean_of_blurred(one, 0.3) for one in z.tolist()], atol=1e-12)
    (slope,) = torch.autograd.grad(values.sum(), z)
    np.testing.assert_allclose(smoothed_slope(z, 0.3).detach(), slope, atol=1e-12)
    assert torch.equal(smoothed(z, 0.0), truncated_relu(z))


def test_what_pulls_is_the_gradient_of_the_hinge_loss():
    x, y = (one.double() for one in SOURCE.train_set)
    start = unbiased_start(4, SOURCE, STREAMS.at("weights"))
    layers = Layers(*((one + 0.1 * torch.randn_like(one)).requires_grad_() for one in start))
    loss = (1 - y * layers(x, 0.2)).relu().mean(1).sum()
    weights, biases, outer = torch.autograd.grad(loss, layers)
    found = pull(Layers(*(one.detach() for one in layers)), x, y, 0.2)
    np.testing.assert_allclose(-layers.outer.detach()[..., None] * found.weights, weights, atol=1e-10)
    np.testing.assert_allclose(-layers.outer.detach() * found.biases, biases, atol=1e-10)
    np.testing.assert_allclose(-found.outer, outer, atol=1e-10)
    slopes = smoothed_slope(layers.drive(x).detach(), 0.2)
    np.testing.assert_allclose(found.active, slopes.mean(1))
    np.testing.assert_allclose(found.active_square, slopes.square().mean(1))


def test_the_start_answers_nothing_and_steps_forget():
    start = unbiased_start(4, SOURCE, STREAMS.at("weights"))
    assert start(SOURCE.train_set.inputs.double()).abs().max() < 1e-12
    (_, one, two), (first, second) = first_steps(start, SOURCE, 2)
    rate = 0.25**2 * SOURCE.scale.double()[:, 0] / (3 * 4**3)
    np.testing.assert_allclose(one.weights, (rate * start.outer)[..., None] * first.weights)
    np.testing.assert_allclose(one.outer, start.outer + rate * first.outer)
    np.testing.assert_allclose(two.weights, one.outer[..., None] * second.weights)
    np.testing.assert_allclose(two.outer, second.outer)
    np.testing.assert_allclose(first.inside, 1)


def test_the_start_has_the_deviations_of_the_theorem():
    """Of 20,000 neurons: relative standard error 0.5 %."""
    start = unbiased_start(20_000, SOURCE, STREAMS.at("weights"))
    np.testing.assert_allclose(start.weights.std((1, 2)), 1 / 3, rtol=0.02)
    np.testing.assert_allclose(start.biases.std(1), 1 / 9, rtol=0.03)
    np.testing.assert_allclose(start.outer.std(1), SOURCE.scale.flatten() ** 2 / (0.25 * 9), rtol=0.03)


def test_rare_classes_weigh_as_much_as_others():
    rare = DictionaryData(12, 3, negatives=0.9, samples=500, test=10).build(STREAMS.at("dictionary"))
    _, (found,) = first_steps(unbiased_start(4, rare, STREAMS.at("weights")), rare, 1)
    x, y = (one.double() for one in rare.train_set)
    chances = torch.where(y > 0, 0.5 / (y > 0).sum(1, keepdim=True), 0.5 / (y < 0).sum(1, keepdim=True))
    again = pull(unbiased_start(4, rare, STREAMS.at("weights")), x, y, 3**-1.5, chances)
    np.testing.assert_allclose(found.weights, again.weights, rtol=1e-5)


def test_frozen_features_are_standardised_and_only_the_second_layer_is_trained():
    frozen = UnbiasedStart(4, 2, True, True).build(SOURCE, STREAMS.at("weights"))
    features = frozen.features(SOURCE.train_set.inputs)
    np.testing.assert_allclose(features.mean(1), 0, atol=1e-4)
    live = (spread := features.std(1)) > 0  # some neurons see nothing
    assert live.sum() > 8
    np.testing.assert_allclose(spread[live], 1, rtol=1e-3)
    assert {name for name, one in frozen.named_parameters() if one.requires_grad} == {"outer", "offset"}
    assert torch.equal(frozen(SOURCE.train_set.inputs), torch.zeros_like(SOURCE.train_set.labels))
    one, two = (UnbiasedStart(4, n, True, True, n == 1).build(SOURCE, STREAMS.at("weights")) for n in (1, 2))
    lengths = [each.first.weights.norm(dim=-1).mean(1) for each in (one, two)]
    np.testing.assert_allclose(*lengths)


def test_the_tangent_model_is_the_linear_part_of_the_network():
    model = TangentStart(3).build(SOURCE, STREAMS.at("weights"))
    x = SOURCE.train_set.inputs[:, :20]
    moves = [0.1 * torch.randn_like(one) for one in model.start]
    _, wanted = torch.func.jvp(lambda *layers: Layers(*layers)(x), tuple(model.start), tuple(moves))
    for parameter, move in zip((model.weights, model.biases, model.outer), moves, strict=True):
        parameter.data.copy_(move)
    np.testing.assert_allclose(model(x).detach(), wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: UnbiasedStart(0), "neurons = 0"),
        (lambda: UnbiasedStart(4, 3), "assigned = 3"),
        (lambda: UnbiasedStart(4, standardised=True), "standardised = True"),
        (lambda: UnbiasedStart(4, 2, True, rescaled=True), "rescaled = True"),
        (lambda: TangentStart(0), "neurons = 0"),
    ],
)
def test_options_out_of_range_are_named(made, message):
    with pytest.raises(ConfigError, match=message):
        made()


def test_an_answer_of_exactly_1_pulls_and_is_not_inside():
    layers = Layers(torch.zeros(1, 1, 2), torch.ones(1, 1), torch.ones(1, 1))
    found = pull(layers, torch.zeros(1, 3, 2), torch.ones(1, 3), 0.0)
    assert (found.outer.item(), found.inside.item()) == (1, 0)
