"""What masked noise does to neurons, against noise drawn many times and a loop over what is not a neuron's own."""

import pytest
import torch

from featscope.data import SparseCoding, SparseCodingSource, SparseSample
from featscope.models import SymmetricReLUNetwork
from featscope.probes.masked_noise import masked_firing, noise_pulls
from featscope.streams import Streams

DRAWS = Streams(0, [0]).at("nothing is drawn from here")
DATA, SAMPLES = SparseCoding(features=3, input_dim=8), 3
S2 = float(DATA.noise_variance)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Source(SparseCodingSource):
    """Samples that are always the same; all three features are there in most."""

    def __init__(self) -> None:
        super().__init__(DATA, torch.linalg.qr(normal(1, 8, 3))[0])

    def sample(self, draws: object, count: int, dtype: object = None) -> SparseSample:
        codes = normal(1, count, 3, seed=1).sign()
        codes[:, 0, 1] = 0
        noise = S2**0.5 * normal(1, count, 8, seed=2)
        return SparseSample(codes @ self.dictionary.mT + noise, codes, self.dictionary)


def halves(x: torch.Tensor, draws: object) -> tuple[torch.Tensor, torch.Tensor]:
    """2D and 2(I - D), always the same."""
    kept = 2.0 * (normal(*x.shape, seed=3) > 0)
    return kept * x, (2 - kept) * x


def network_of(dictionary: torch.Tensor) -> SymmetricReLUNetwork:
    """Two neurons; of the first feature the second one has most, with a minus sign."""
    held = torch.tensor([[0.3, 1.0, 0.2], [-1.2, 0.2, 0.4]], dtype=torch.float64)
    network = SymmetricReLUNetwork(held @ dictionary.mT + 0.15 * normal(1, 2, 8, seed=4))
    network.bias.copy_(torch.tensor([[0.4, 0.6]]))
    return network


@torch.no_grad()
def test_noise_pulls_as_noise_that_is_drawn_a_hundred_thousand_times():
    source = Source()
    network = network_of(source.dictionary)
    found = noise_pulls(network, source, halves, DRAWS, SAMPLES)
    signal, (weight,) = source.sample(None, SAMPLES).signal, network.weight
    pull = torch.zeros(2, 8, dtype=torch.float64)
    for one in range(SAMPLES):
        first, second = (mask[0, one] for mask in halves(torch.ones_like(signal), None))
        noise = S2**0.5 * normal(100_000, 8, seed=5 + one)
        u, v = ((mask * (signal[0, one] + noise)) @ weight.T for mask in (first, second))
        h = v.sign() * (v.abs() - network.bias).clamp(min=0)
        pull += (h * (u.abs() >= network.bias)).T @ (first * noise) / 100_000 / SAMPLES
    norm = weight.norm(dim=-1)
    basis = torch.linalg.qr(source.dictionary, mode="complete").Q[0, :, 3:]
    along = (pull @ source.dictionary[0]).abs()[[0, 1], [1, 0]]
    torch.testing.assert_close(found.dense[0], (pull @ basis).abs().amax(1) / norm, rtol=0.05, atol=0.002)
    torch.testing.assert_close(found.feature[0], along / norm, rtol=0.05, atol=0.002)


@torch.no_grad()
def test_what_is_sampled_is_of_the_samples_themselves():
    source = Source()
    network = network_of(source.dictionary)
    found = noise_pulls(network, source, halves, DRAWS, 500)
    sample, weight = source.sample(None, 500), network.weight
    first, second = halves(torch.ones_like(sample.x), None)
    h = network(second * sample.x)
    gated = h * (((first * sample.x) @ weight.mT).abs() >= network.bias[:, None])
    held = weight @ source.dictionary
    for neuron in range(2):
        drawn = (gated[0, :, neuron, None] * (first * sample.noise)[0]).mean(0)
        along = sum(held[0, neuron, j] * (drawn @ source.dictionary[0, :, j]) for j in range(3))
        assert float(found.sampled[0, neuron]) == pytest.approx(float(along / weight[0, neuron].square().sum()))
    torch.testing.assert_close(found.firing, (h != 0).double().mean(1))


@torch.no_grad()
def test_where_a_view_hides_everything_nothing_is_pulled():
    """Of few coordinates it happens: of 8, at four of a thousand samples."""

    def one_and_none(x, draws):
        kept = torch.tensor([0.0, 2.0] + [1.0] * (x.shape[1] - 2)).to(x)[:, None].expand(-1, x.shape[2])
        return kept * x, (2 - kept) * x

    source = Source()
    network = network_of(source.dictionary)
    both, neither = (noise_pulls(network, source, one_and_none, DRAWS, count) for count in (3, 2))
    assert all(part.isfinite().all() for part in both)
    assert (both.dense > 0).all()
    assert neither.dense.tolist() == neither.feature.tolist() == neither.closed.tolist() == [[0.0, 0.0]]


@torch.no_grad()
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_others_are_what_is_not_of_the_feature_that_a_neuron_has_most_of(share: float):
    source = Source()
    network = network_of(source.dictionary)
    found = masked_firing(network, source, halves, DRAWS, 400, share)
    sample = source.sample(None, 400)
    mask, _ = halves(torch.ones_like(sample.x), None)
    for neuron, own in enumerate((1, 0)):
        w, b = network.weight[0, neuron], network.bias[0, neuron]
        seen = (mask * sample.x)[0] @ w
        rest = (mask * (sample.x - sample.codes[..., [own]] * source.dictionary[:, None, :, own]))[0] @ w
        assert float(found.view[0, neuron]) == pytest.approx(float((seen.abs() >= b).double().mean()))
        assert float(found.others[0, neuron]) == pytest.approx(float((rest.abs() >= share * b).double().mean()))
