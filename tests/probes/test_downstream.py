"""Linear heads on frozen features. Seeds are fixed; the checks leave 5 σ and more."""

import pytest
import torch

from featscope.probes.downstream import classification_accuracy, read_out, regression_error


def problem(noise: float, samples: int = 4000, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, 5, generator=generator)
    y = x @ torch.tensor([1.0, -2, 0, 0.5, 1]) + noise * torch.randn(samples, generator=generator)
    return x, y


def halves(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x[:2000], y[:2000], x[2000:], y[2000:]


def test_what_is_linear_is_regressed_and_what_is_noise_is_not():
    """Var(signal) = 6.25; with noise of variance 6.25 half of Var(y) is out of reach."""
    assert regression_error(*halves(*problem(0.0))) < 1e-5
    assert regression_error(*halves(*problem(2.5))) == pytest.approx(0.5, abs=0.05)
    x, y = problem(0.0)
    assert regression_error(*halves(x, y.roll(1))) == pytest.approx(1.0, abs=0.03)


def test_features_that_are_dead_know_nothing():
    _, y = problem(0.0)
    assert regression_error(*halves(torch.zeros(4000, 5), y)) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_the_scale_of_features_does_not_matter(scale):
    x, y = problem(1.0)
    assert regression_error(*halves(scale * x, y)) == pytest.approx(regression_error(*halves(x, y)), rel=1e-4)
    signs = y.sign()
    found = classification_accuracy(*halves(scale * x, signs))
    assert found == pytest.approx(classification_accuracy(*halves(x, signs)), abs=2e-3)


def test_signs_are_classified_and_zeros_left_out():
    x, y = problem(0.0)
    signs = y.sign()
    signs[::3] = 0
    assert classification_accuracy(*halves(x, signs)) > 0.99
    assert classification_accuracy(*halves(x, y.roll(1).sign())) == pytest.approx(0.5, abs=0.06)


def test_heads_of_replicas_learn_from_the_first_samples_and_are_tested_on_the_others():
    pairs = [problem(noise, samples=300, seed=seed) for seed, noise in enumerate((0.5, 3.0))]
    features, y = (torch.stack(parts) for parts in zip(*pairs, strict=True))
    errors, accuracies = read_out(features, y, 200)
    for replica, (x, of_x) in enumerate(pairs):
        assert float(errors[replica]) == regression_error(x[:200], of_x[:200], x[200:], of_x[200:])
        signs = of_x.sign()
        expected = classification_accuracy(x[:200], signs[:200], x[200:], signs[200:])
        assert float(accuracies[replica]) == expected
