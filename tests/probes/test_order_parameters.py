"""Measurements through order parameters, against closed forms and against arithmetic by hand."""

from dataclasses import asdict

import pytest
import torch

from featscope.data import PatchFeatures
from featscope.models import CubicPatchesNetwork, IdentityHead, OnlineNetwork
from featscope.models.population import OrderParameters, Population, PopulationNetwork, of_weights
from featscope.probes.order_parameters import head_decay, substitution, velocity_on_batches
from featscope.streams import Streams
from featscope.theory.prediction_head import head_decay_rate, patch_moments

MOMENTS = patch_moments(12, 4, 1.5, 1.2)
OF = Population.alike(1, **asdict(MOMENTS), noise_std=0.8, rate=0.2)
FAST = torch.tensor([1])


def state(b: list[list[float]], r: list[list[float]], e21: float) -> OrderParameters:
    """One trajectory whose second neuron is fast."""
    parts = (torch.tensor(x, dtype=torch.float64)[..., None] for x in (b, r, [[0.0, e21], [0.0, 0.0]]))
    return OrderParameters(*parts)


def test_the_head_decays_as_theory_says_once_noise_is_gone():
    y = state([[0.0, 0.9], [1.1, 0.0]], [[1e-9, 0.0], [0.0, 1e-9]], 1e-7)
    network = PopulationNetwork(y.pack().mT[None].contiguous(), 2, OF)
    found = float(head_decay(network, FAST))
    assert found == pytest.approx(float(head_decay_rate(1.1, 0.9, MOMENTS, 0.2)), rel=1e-4)


def test_what_substitution_is_like_is_arithmetic():
    learned = state([[0.1, 0.2], [0.5, 0.04]], [[0.3, 0.0], [0.0, 0.3]], 0.0)
    borrowed = state([[0.11, 0.19], [0.9, 0.05]], [[0.3, 0.0], [0.0, 0.3]], 0.1)
    peak = state([[0.1, 0.2], [-1.0, 0.1]], [[0.3, 0.05], [0.05, 0.2]], -0.3)
    found = substitution(learned, borrowed, peak, OF, FAST)
    assert float(found.others_moved) == pytest.approx(0.01 / 0.04)  # of B_12; B_11 is the one that may move
    assert bool(found.head_sign)  # E_21 < 0, B_11 < 0 and B_21 > 0
    assert float(found.borrowed) == pytest.approx(0.3 * 1.0 / 0.1**3)
    head = torch.tensor([1.0, -0.3], dtype=torch.float64)  # of the slow neuron
    noise = OF.noise_products(peak.r)[..., 0]
    signal = head @ peak.b[..., 0] ** 3
    heights = torch.tensor(MOMENTS.own) * signal**2 + MOMENTS.noise_patches * head @ noise @ head
    assert float(found.acceleration) == pytest.approx(float(heights[0] / heights[1]))
    # where the overlap that is lent is not ±1, so that its cube is not itself
    weaker = state([[0.1, 0.2], [-0.5, 0.1]], [[0.3, 0.05], [0.05, 0.2]], -0.3)
    found = substitution(learned, borrowed, weaker, OF, FAST)
    assert float(found.borrowed) == pytest.approx(0.3 * 0.5**3 / 0.1**3)
    heights = torch.tensor(MOMENTS.own) * (head @ weaker.b[..., 0] ** 3) ** 2
    heights = heights + MOMENTS.noise_patches * head @ noise @ head
    assert float(found.acceleration) == pytest.approx(float(heights[0] / heights[1]))
    other = state([[0.1, 0.2], [1.0, 0.1]], [[0.3, 0.05], [0.05, 0.2]], -0.3)
    assert not bool(substitution(learned, borrowed, other, OF, FAST).head_sign)


def test_velocity_on_batches_is_what_the_mean_gradient_does_to_order_parameters():
    """The loss is linear in weights and head, so that its gradient is known; the head has a rate of its own."""
    streams, rate = Streams(0, range(2)), 0.3
    source = PatchFeatures(input_dim=8, patches=6, feature_patches=2).build(streams.at("dictionary"))
    weight, off = streams.at("weights").normal(3, 8), streams.at("head").normal(3, 3)
    head = IdentityHead(off, torch.full((2, 1, 1), rate))

    def slopes(draws):
        return draws.normal(3, 8), draws.normal(3, 3)

    def loss(network, source, draws):
        to_weight, to_head = slopes(draws)
        of_weight, of_head = to_weight * network.encoder.weight, to_head * network.head.off_diagonal
        return of_weight.sum((1, 2)) + of_head.sum((1, 2))

    network = OnlineNetwork(CubicPatchesNetwork(weight), head)
    here, found = velocity_on_batches(network, source, loss, [streams.at("batch", n) for n in range(2)])

    each = [slopes(streams.at("batch", n)) for n in range(2)]
    moved, turned = (-(one + other).double() / 2 for one, other in zip(*each, strict=True))
    eye = torch.eye(3, dtype=torch.bool)

    def packed(time: float) -> torch.Tensor:
        w, e = weight.double() + time * moved, off.double() + time * rate * turned
        parts = (*of_weights(w, source.dictionary.double()), e.masked_fill(eye, 0.0))
        return OrderParameters(*(x.movedim(0, -1) for x in parts)).pack()

    torch.testing.assert_close(here, packed(0.0), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found, (packed(1e-4) - packed(-1e-4)) / 2e-4, rtol=1e-5, atol=1e-5)
