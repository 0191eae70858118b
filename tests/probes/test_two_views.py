"""What two views have in common, against expectations over the data and the mask. Seed 0; tolerances are 5 σ."""

import pytest
import torch

from featscope.data import SparseCoding
from featscope.models import SymmetricReLU
from featscope.probes.two_views import TwoViews
from featscope.streams import Streams
from featscope.theory.decoupling import activity, noise_variance
from featscope.views import RandomMask, SameSample

DATA = SparseCoding(features=6, input_dim=32, noise=0.5)
P, S2, SHARE = activity(6, 2.0), noise_variance(6, 0.5), 6 / 32


def seen(view, bias: float = 0.0, data: SparseCoding = DATA, replicas: int = 2) -> TwoViews:
    streams = Streams(0, range(replicas))
    source = data.build(streams.at("dictionary"))
    network = SymmetricReLU(40, 1.0).build(source, streams.at("weights"))
    network.bias.fill_(bias)
    return TwoViews(network, source, view, streams)


@torch.no_grad()
def test_the_mask_takes_noise_out_of_the_positive_term_and_without_it_all_is_left():
    """E[h_i(x) x] = (pP + s² I) w_i holds s² and the diagonal of pP, which the mask takes away."""
    assert seen(RandomMask()).noise_left().tolist() == pytest.approx([0, 0], abs=0.05)
    assert seen(SameSample()).noise_left().tolist() == pytest.approx([1 + P * SHARE / S2] * 2, abs=0.05)


@torch.no_grad()
@pytest.mark.parametrize(
    ("view", "along", "across"), [(SameSample(), P + S2, S2), (RandomMask(), P * (1 - SHARE), -P * SHARE)]
)
def test_growth_is_the_eigenvalue_of_the_expected_step(view, along, across):
    found = seen(view).growth()
    assert found[0].tolist() == pytest.approx([along] * 2, abs=0.05 * P)
    assert found[1].tolist() == pytest.approx([across] * 2, abs=0.05 * P)


@torch.no_grad()
def test_the_covariance_of_two_halves_is_its_closed_form_and_that_of_two_wholes_is_not():
    """The ratio for halves is that of two numbers near 0 in some networks: their median is looked at."""
    quiet = SparseCoding(features=6, input_dim=32, noise=0.01)
    halves, wholes = seen(RandomMask(), data=quiet, replicas=16), seen(SameSample(), data=quiet, replicas=16)
    assert float(halves.covariance_ratio().median()) == pytest.approx(1, abs=0.1)
    weight, inside = halves.network.weight, halves.network.weight @ halves.source.dictionary
    signal, all_of_it = inside.square().sum((-2, -1)), weight.square().sum((-2, -1))
    expected = (P * signal + S2 / 50 * all_of_it) / (P * (signal - SHARE * all_of_it))
    torch.testing.assert_close(wholes.covariance_ratio().float(), expected, rtol=0.1, atol=0)


@torch.no_grad()
@pytest.mark.parametrize("bias", [0.0, 0.3])
def test_halves_of_the_noise_do_not_agree_and_the_noise_agrees_with_itself(bias):
    assert seen(RandomMask(), bias).agreement_on_noise().tolist() == pytest.approx([0, 0], abs=0.02)
    assert seen(SameSample(), bias).agreement_on_noise().tolist() == pytest.approx([1, 1], rel=1e-6)


@torch.no_grad()
def test_the_positive_term_is_a_mean_over_samples():
    views = seen(SameSample())
    linear = views.positive_term("one") @ views.source.dictionary.double()
    expected = (P + S2) * views.network.weight @ views.source.dictionary
    assert linear.shape == (2, 40, 6)
    torch.testing.assert_close(linear.float(), expected, rtol=0, atol=0.05)
    assert not torch.equal(views.positive_term("one"), views.positive_term("other"))


@torch.no_grad()
@pytest.mark.parametrize(("view", "is_there"), [(RandomMask(), 1.0), (SameSample(), 0.0)])
def test_the_mask_moves_neurons_and_spills_features_and_without_it_nothing_does(view, is_there):
    assert seen(view).perturbation_ratio().tolist() == pytest.approx([is_there] * 2, abs=0.1)
    assert seen(view).crosstalk().tolist() == pytest.approx([is_there] * 2, abs=0.25)
