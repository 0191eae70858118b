"""A whole step on pairs in machine code against autograd in float64 on inputs that are made."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from featscope.kernels import pairs
from featscope.losses import InfoNCE
from featscope.losses.similarity import Masked
from featscope.models.symmetric_relu import soft_threshold

SIDES = st.integers(1, 40)


def parts_of(places, batch, inputs, neurons, features):
    draw = torch.Generator().manual_seed(batch * inputs + neurons)

    def normal(*shape):
        return torch.randn(*shape, generator=draw)

    replicas = len(places)
    weight, dictionary = 0.4 * normal(replicas, neurons, inputs), normal(replicas, inputs, features)
    codes, noise = normal(replicas, 2 * batch, features), normal(max(places) + 1, 2 * batch, inputs)
    threshold, std = normal(replicas, neurons).abs(), normal(replicas).abs()
    return weight, threshold, dictionary, codes, std, noise, torch.tensor(places, dtype=torch.int32)


def by_autograd(weight, threshold, dictionary, codes, std, noise, places, kept=None):
    weight, threshold, dictionary, codes, std, noise = (
        one.double() for one in (weight, threshold, dictionary, codes, std, noise)
    )
    x = codes @ dictionary.mT + std[:, None, None] * noise[places.long()]
    first, second = soft_threshold(x @ weight.requires_grad_().mT, threshold).chunk(2, 1)
    if kept is not None:
        first, second = (Masked(one * kept.double()[:, None], one) for one in (first, second))
    loss = InfoNCE().in_batch(first, second)
    loss.sum().backward()
    return loss.detach(), weight.grad


@given(st.lists(st.integers(0, 2), min_size=1, max_size=4), st.integers(2, 40), SIDES, SIDES, SIDES)
def test_loss_and_gradient_are_those_of_autograd(places, batch, inputs, neurons, features):
    parts = parts_of(places, batch, inputs, neurons, features)
    before = [one.clone() for one in parts]
    loss, slope = pairs.gradient(*parts)
    expected, of_weight = by_autograd(*parts)
    size = float(of_weight.abs().amax())
    torch.testing.assert_close(loss.double(), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(slope.double(), of_weight, rtol=1e-3, atol=1e-4 * size + 1e-6)
    assert all(torch.equal(one, other) for one, other in zip(parts, before, strict=True))


@given(st.integers(2, 20), SIDES, SIDES)
def test_hidden_neurons_are_learned_but_not_compared_by(batch, inputs, neurons):
    parts = (*parts_of([1, 0], batch, inputs, neurons, 3), (torch.arange(2 * neurons) % 3 > 0).float().view(2, -1))
    loss, slope = pairs.gradient(*parts)
    expected, of_weight = by_autograd(*parts)
    size = float(of_weight.abs().amax())
    torch.testing.assert_close(loss.double(), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(slope.double(), of_weight, rtol=1e-3, atol=1e-4 * size + 1e-6)


@pytest.mark.parametrize("part", ["weight", "dictionary", "codes", "std"])
def test_what_is_not_finite_shows_in_its_replica_alone(part):
    parts = parts_of([0, 0, 1], 5, 11, 4, 3)
    place = ["weight", "threshold", "dictionary", "codes", "std"].index(part)
    parts[place][1] = torch.nan
    loss, slope = pairs.gradient(*parts)
    assert loss.isfinite().tolist() == [True, False, True]
    assert slope.flatten(1).isfinite().all(1).tolist() == [True, False, True]
