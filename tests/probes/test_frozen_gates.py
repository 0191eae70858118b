"""Formulas of gradient and pseudo-loss, at any weights."""

import numpy as np
import pytest
import torch

from featscope.data import SparseTokens
from featscope.losses import InfoNCE
from featscope.models import TokenMLPNetwork
from featscope.probes.frozen_gates import FrozenGates
from featscope.streams import Streams

STREAMS = Streams(0, range(2))
DATA = SparseTokens(features=4, input_dim=6, minority=2, eps_min=0.5, activity=0.4, tokens=3, token_activity=0.7)


def frozen(weight: torch.Tensor, attention: str = "uniform", loss: InfoNCE | None = None):
    """Two replicas with the same weights, other features and other pairs; and the features."""
    source = DATA.build(STREAMS.at("dictionary"))
    source.means = attention == "uniform"
    network = TokenMLPNetwork(weight.expand(2, *weight.shape), DATA.tokens, attention)
    network.bias.fill_(0.3)
    pairs = source.pairs(STREAMS.at("batch"), 32, dtype=torch.float64)
    return FrozenGates(network, pairs, loss or InfoNCE()), source.dictionary


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("scale", ["tau", "1"])
@pytest.mark.parametrize("attention", ["uniform", "linear", "softmax"])
def test_gradient_and_pseudo_loss_are_the_network_s_under_any_attention_and_temperature(attention, scale):
    at, _ = frozen(drawn(5, 6), attention, InfoNCE(0.7, scale))
    for error in at.errors():
        assert error.shape == (2,)
        assert float(error.max()) < 1e-12
    assert float(at.gradient().abs().amin((1, 2)).max()) > 0


def test_the_pseudo_loss_is_above_its_tangent_and_on_it_at_the_weights_themselves():
    at, _ = frozen(drawn(5, 6))
    others = [at.w + step * drawn(2, 5, 6).double() for step in (0.1, -1.0, 5.0)]
    assert (at.above_tangent(others) > 0).all()
    assert at.above_tangent([*others, at.w]).abs().max() < 1e-12
    # the smallest height of all
    each = torch.stack([at.above_tangent([other]) for other in others])
    assert torch.equal(at.above_tangent(others), each.amin(0))


def test_with_gates_held_the_representation_is_affine_in_the_weights():
    at, _ = frozen(drawn(5, 6))
    theta, own = drawn(2, 5, 6).double(), at.representation(at.w)
    torch.testing.assert_close(at.representation(3 * theta - 2 * at.w), 3 * at.representation(theta) - 2 * own)
    torch.testing.assert_close(own, at.network(at.pairs.x).detach())


def test_the_optimal_learner_is_of_the_neurons_that_hold_one_feature():
    """Neurons on feature 0 (two, one with the other sign), on none, and on 2."""
    frame = DATA.build(STREAMS.at("dictionary")).dictionary[0]
    mixed = frame[:, 0] + frame[:, 1] + frame[:, 3]
    at, dictionary = frozen(torch.stack([2 * frame[:, 0], -frame[:, 0], mixed, 0.1 * frame[:, 2]]), loss=InfoNCE(4.0))
    expected = torch.stack([frame[:, 0], -frame[:, 0], 0 * mixed, 2 * frame[:, 2]])  # √τ/|M_j*|, √4/2 and √4/1
    torch.testing.assert_close(at.optimal(dictionary)[0], expected.double())


@pytest.mark.parametrize(("loss", "scale"), [(InfoNCE(0.5), 0.5), (InfoNCE(0.5, "1"), 1.0)])
def test_keys_that_show_an_anchor_s_signals_cost_at_least_their_number(loss, scale):
    """The floor against a loop; and below the loss of an oracle whose representation grows without bound."""
    frame = DATA.build(STREAMS.at("dictionary")).dictionary[0]
    at, _ = frozen(1e3 * frame.mT, loss=loss)
    for replica in range(2):
        codes = at.pairs.codes_y[replica].sign().numpy()
        alike = [sum((a == b).all() for b in codes) for a in codes]
        assert at.floor()[replica] == pytest.approx(scale * np.mean(np.log(alike)))
    assert at.pseudo_loss(at.w)[0] >= at.floor()[0] - 1e-3


def test_neurons_that_the_logits_do_not_see_are_taken_from_keys_alone():
    """Against autograd of a loss whose logits have the kept keys, and whose keys are constants (P (5))."""
    at, _ = frozen(drawn(5, 6), loss=InfoNCE(0.7))
    kept = torch.tensor([[True, False, True, True, False], [False, True, True, False, True]])
    theta = at.w.clone().requires_grad_()
    logits = at.representation(theta) @ (at.keys * kept[:, None]).mT / 0.7
    share = logits.detach().softmax(-1)
    pulled = (share - torch.eye(32, dtype=share.dtype)) @ at.keys  # what each representation is moved against
    (expected,) = torch.autograd.grad((pulled * at.representation(theta)).sum() / 32, theta)
    torch.testing.assert_close(at.gradient(kept), expected)
    assert float((at.gradient(kept) - at.gradient()).abs().max()) > 1e-3


def test_other_weights_are_as_far_off_as_weights_are_large():
    """300 numbers a scale: their root mean square within 5 standard errors, 0.2."""
    at, _ = frozen(4 * drawn(5, 6))
    near, far = torch.stack(at.around(STREAMS.at("around"), (0.1, 2.0), 5)).unflatten(0, (2, 5)) - at.w
    size = at.w.square().mean().sqrt()
    assert float(near.square().mean().sqrt() / size) == pytest.approx(0.1, rel=0.2)
    assert float(far.square().mean().sqrt() / size) == pytest.approx(2.0, rel=0.2)
