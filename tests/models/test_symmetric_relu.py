"""Symmetrised ReLU neurons."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from featscope.models import OrthogonalRows, SymmetricReLU, SymmetricReLUNetwork, soft_threshold
from featscope.options import ConfigError
from featscope.streams import Streams


def by_definition(u: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(u - b[..., None, :]) - torch.relu(-u - b[..., None, :])


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.1, 1.0, 10.0]))
def test_it_is_the_difference_of_two_relus_and_odd(seed, size):
    u, b = numbers(2, 5, 3, seed=seed), size * numbers(2, 3, seed=seed + 1).abs()
    assert torch.allclose(soft_threshold(u, b), by_definition(u, b), atol=1e-14)
    assert torch.equal(soft_threshold(-u, b), -soft_threshold(u, b))


def test_its_gradients_are_those_of_the_two_relus():
    u, b = numbers(2, 5, 3).requires_grad_(), (0.5 * numbers(2, 3, seed=1).abs()).requires_grad_()
    weights = numbers(2, 5, 3, seed=2)
    found = torch.autograd.grad((weights * soft_threshold(u, b)).sum(), (u, b))
    expected = torch.autograd.grad((weights * by_definition(u, b)).sum(), (u, b))
    assert all(torch.allclose(f, e, atol=1e-14) for f, e in zip(found, expected, strict=True))
    assert torch.autograd.gradcheck(soft_threshold, (u, b))


def test_replicas_are_asked_one_by_one_when_that_is_wanted():
    network, x = SymmetricReLUNetwork(numbers(3, 4, 5)), numbers(3, 6, 5, seed=1)
    network.bias.copy_(numbers(3, 4, seed=2).abs())
    each = network.one_by_one(x)
    first = next(each)
    with torch.no_grad():
        network.bias.fill_(100.0)
    assert first.shape == (6, 4)
    assert first.any()
    assert not any(one.any() for one in each)  # they had not been made before
    network.bias.copy_(numbers(3, 4, seed=2).abs())
    assert torch.allclose(torch.stack([*network.one_by_one(x)]), network(x), atol=1e-14)


def test_at_zero_threshold_the_network_is_linear():
    network = SymmetricReLUNetwork(numbers(2, 3, 4))
    x = numbers(2, 5, 4, seed=1)
    assert torch.equal(network(x), x @ network.weight.mT)


def test_only_weights_are_trained_and_biases_are_in_the_state():
    network = SymmetricReLUNetwork(numbers(2, 3, 4))
    assert [name for name, _ in network.named_parameters()] == ["weight"]
    assert set(network.state_dict()) == {"weight", "bias"}


def test_initial_weights_are_normal_with_the_norm_asked_for():
    """Mean of 512 squared norms, each with relative spread √(2/400): standard error 0.3 %, 5 σ."""
    source = SimpleNamespace(dictionary=torch.zeros(2, 400, 7))
    network = SymmetricReLU(width=256, init_norm=0.3).build(source, Streams(0, range(2)).at("weights"))
    assert network.weight.shape == (2, 256, 400)
    assert float(network.weight.detach().square().sum(-1).mean()) == pytest.approx(0.09, rel=5 * (2 / 400 / 512) ** 0.5)
    assert (network.bias == 0).all()


@pytest.mark.parametrize("options", [{"width": 0}, {"init_norm": 0.0}, {"init_norm": float("nan")}])
def test_wrong_options_are_refused(options):
    (field,) = options
    with pytest.raises(ConfigError, match=f"SymmetricReLU.{field} = "):
        SymmetricReLU(**options)


@pytest.mark.parametrize(("width", "rows"), [(6, 6), (99, 25)])
def test_orthogonal_rows_see_no_feature_and_not_each_other(width, rows):
    """Never more than there are dimensions without a feature."""
    features = torch.linalg.qr(numbers(2, 32, 7).float())[0]
    network = OrthogonalRows(width).build(SimpleNamespace(dictionary=features), Streams(0, range(2)).at("weights"))
    weight = network.weight.detach()
    assert weight.shape == (2, rows, 32)
    assert torch.allclose(weight @ weight.mT, torch.eye(rows), atol=1e-5)
    assert (weight @ features).abs().max() < 1e-3  # float32; the last of many is what little the others leave
    assert not torch.allclose(weight[0], weight[1])
    assert (network.bias == 0).all()


def test_there_is_at_least_one_orthogonal_row():
    with pytest.raises(ConfigError, match=r"OrthogonalRows.width = 0"):
        OrthogonalRows(0)
