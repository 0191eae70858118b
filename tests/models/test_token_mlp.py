"""Fixed attention and bilateral-ReLU neurons, against a loop over tokens in NumPy."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from featscope.models import TokenMLP, TokenMLPNetwork
from featscope.options import ConfigError
from featscope.streams import Streams

REPLICAS, PAIRS, TOKENS, INPUTS, NEURONS = 2, 5, 3, 4, 6


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def network(attention: str, *, bias: float = 2.0) -> TokenMLPNetwork:
    made = TokenMLPNetwork(numbers(REPLICAS, NEURONS, INPUTS), TOKENS, attention)
    made.bias.copy_(bias * numbers(REPLICAS, NEURONS, seed=1).abs())
    return made


SEQUENCES = numbers(REPLICAS, PAIRS, TOKENS, INPUTS, seed=2)


def attended(x: np.ndarray, attention: str) -> np.ndarray:
    """z^(r), a row a token, of one sequence ``[token, input]``."""
    z = np.zeros_like(x)
    for r in range(len(x)):
        scores = np.array([x[r] @ other for other in x])
        if attention == "uniform":
            weights = np.full(len(x), 1 / len(x))
        elif attention == "linear":
            weights = scores / len(x)
        else:
            weights = np.exp(scores) / np.exp(scores).sum()
        for weight, other in zip(weights, x, strict=True):
            z[r] += weight * other
    return z


def by_loop(made: TokenMLPNetwork, attention: str) -> np.ndarray:
    """h_i(X) = Σ_r ReLU(<w_i, z^(r)> - b_i) - ReLU(-<w_i, z^(r)> - b_i)."""
    h = np.zeros((REPLICAS, PAIRS, NEURONS))
    for k, n, i in np.ndindex(*h.shape):
        w, b = made.weight[k, i].detach().numpy(), float(made.bias[k, i])
        for z in attended(SEQUENCES[k, n].numpy(), attention):
            h[k, n, i] += max(w @ z - b, 0) - max(-(w @ z) - b, 0)
    return h


@pytest.mark.parametrize("bias", [0.0, 2.0])
@pytest.mark.parametrize("attention", ["uniform", "linear", "softmax"])
def test_it_is_the_loop(attention, bias):
    made = network(attention, bias=bias)
    expected = by_loop(made, attention)
    np.testing.assert_allclose(made(SEQUENCES).detach().numpy(), expected, rtol=1e-12, atol=1e-14)
    if bias:
        assert 0 < (expected == 0).mean() < 1  # some neurons are silent, some not


@pytest.mark.parametrize("attention", ["uniform", "linear", "softmax"])
def test_its_gradient_is_gated_by_token(attention):
    """∇_w h_i(X) = Σ_r 1[|<w_i, z^(r)>| >= b_i] z^(r) (P (21))."""
    made = network(attention)
    out = numbers(REPLICAS, PAIRS, NEURONS, seed=3)
    (found,) = torch.autograd.grad((out * made(SEQUENCES)).sum(), made.weight)
    expected = np.zeros(found.shape)
    for k, n, i in np.ndindex(REPLICAS, PAIRS, NEURONS):
        for z in attended(SEQUENCES[k, n].numpy(), attention):
            if abs(made.weight[k, i].detach().numpy() @ z) >= float(made.bias[k, i]):
                expected[k, i] += float(out[k, n, i]) * z
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-14)


def test_under_uniform_attention_mean_tokens_will_do():
    made = network("uniform")
    assert torch.allclose(made(SEQUENCES.mean(-2)), made(SEQUENCES), atol=1e-14)
    single = TokenMLPNetwork(made.weight.detach()[0], TOKENS)  # without a replica axis
    single.bias.copy_(made.bias[0])
    for x in (SEQUENCES[0], SEQUENCES[0].mean(-2)):
        assert torch.allclose(single(x), made(SEQUENCES)[0], atol=1e-14)


def test_without_biases_a_neuron_sees_the_number_of_tokens_times_their_mean():
    made = network("uniform", bias=0.0)
    assert torch.allclose(made(SEQUENCES), SEQUENCES.sum(-2) @ made.weight.mT, atol=1e-14)


def source(inputs: int) -> SimpleNamespace:
    return SimpleNamespace(dictionary=torch.zeros(2, inputs, 7), tokens=TOKENS, means=None)


@pytest.mark.parametrize("attention", ["uniform", "linear", "softmax"])
def test_the_source_is_told_whether_mean_tokens_will_do(attention):
    asked = source(5)
    TokenMLP(width=2, attention=attention).build(asked, Streams(0, range(2)).at("weights"))
    assert asked.means == (attention == "uniform")


def test_only_weights_are_trained_and_start_normal_with_the_norm_asked_for():
    """1000 squared norms, each with relative spread √(2/200): standard error 0.3 %, 5 of them; once in 10^6 seeds."""
    config = TokenMLP(width=500, init_norm=0.3, attention="linear")
    made = config.build(source(200), Streams(0, range(2)).at("weights"))
    assert [name for name, _ in made.named_parameters()] == ["weight"]
    assert set(made.state_dict()) == {"weight", "bias"}
    assert (made.tokens, made.attention) == (TOKENS, "linear")
    assert (made.bias == 0).all()
    squared = made.weight.detach().square().sum(-1)
    assert squared.shape == (2, 500)
    assert float(squared.mean()) == pytest.approx(0.09, rel=5 * (2 / 200 / 1000) ** 0.5)


@pytest.mark.parametrize("options", [{"width": 0}, {"init_norm": 0.0}, {"init_norm": float("nan")}])
def test_wrong_options_are_refused(options):
    (field,) = options
    with pytest.raises(ConfigError, match=f"TokenMLP.{field} = .* is out of range"):
        TokenMLP(**options)


def test_a_network_that_wants_tokens_refuses_means_as_a_second_network_on_its_source_asks_for():
    """Means have as many axes as one replica's tokens: samples and replicas would be taken for each other."""
    made = network("softmax")
    means = numbers(*made.weight.shape[:-2], 6, made.weight.shape[-1])
    with pytest.raises(ValueError, match="attention = 'softmax' looks at tokens, and mean tokens were given"):
        made(means)
