"""A whole step in machine code against autograd in float64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from featscope.kernels import contrastive
from featscope.losses import InfoNCE
from featscope.models.symmetric_relu import soft_threshold

SIDES = st.integers(1, 40)


def inputs_of(replicas, batch, keys, inputs, neurons):
    draw = torch.Generator().manual_seed(batch * keys + inputs)
    x = torch.randn(replicas, 2 * batch + keys, inputs, generator=draw)
    weight = torch.randn(replicas, neurons, inputs, generator=draw) * 0.5
    threshold = torch.rand(replicas, neurons, generator=draw)
    anchor, positive, negatives = x.split([batch, batch, keys], 1)
    return weight, threshold, anchor.contiguous(), positive, negatives  # replicas are not equally far apart


def by_autograd(weight, threshold, *inputs):
    weight = weight.double().requires_grad_()
    f, g, h = (soft_threshold(x.double() @ weight.mT, threshold.double()) for x in inputs)
    loss = InfoNCE()(f, g.detach(), h.detach())
    loss.sum().backward()
    return loss.detach(), weight.grad


@given(st.integers(1, 3), SIDES, SIDES, SIDES, SIDES)
def test_loss_and_gradient_are_those_of_autograd(replicas, batch, keys, inputs, neurons):
    parts = inputs_of(replicas, batch, keys, inputs, neurons)
    before = [one.clone() for one in parts]
    loss, slope = contrastive.gradient(*parts)
    expected, of_weight = by_autograd(*parts)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(slope.double(), of_weight, rtol=1e-3, atol=1e-5 * float(of_weight.abs().amax()) + 1e-6)
    assert all(torch.equal(one, other) for one, other in zip(parts, before, strict=True))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_is_not_finite_shows_in_the_loss_of_its_replica_alone(place):
    parts = inputs_of(3, 5, 7, 11, 4)
    parts[2 + place][1, 3, 2] = torch.nan
    loss, slope = contrastive.gradient(*parts)
    assert loss.isfinite().tolist() == [True, False, True]
    assert slope.flatten(1).isfinite().all(1).tolist() == [True, False, True]
