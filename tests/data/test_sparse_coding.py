"""Sparse coding data: shapes, moments, dictionaries and refused options."""

from math import log, sqrt

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from featscope.data import SparseCoding, linear_task
from featscope.options import ConfigError
from featscope.streams import Streams


def source_and_sample(config: SparseCoding, count: int, replicas: int = 2, dtype: torch.dtype = torch.float32):
    streams = Streams(0, range(replicas))
    source = config.build(streams.at("dictionary"))
    return source, source.sample(streams.at("batch"), count, dtype)


@given(
    dictionary=st.sampled_from(["hadamard", "qr", "canonical"]),
    features=st.integers(3, 16),
    log2_input_dim=st.integers(4, 6),
    seed=st.integers(0, 2**40),
)
def test_features_are_orthonormal(dictionary, features, log2_input_dim, seed):
    config = SparseCoding(features, 2**log2_input_dim, dictionary)
    m = config.build(Streams(seed, range(2)).at("dictionary")).dictionary
    assert m.shape == (2, 2**log2_input_dim, features)
    assert torch.allclose(m.mT @ m, torch.eye(features), atol=1e-5)


def test_hadamard_features_are_spread_evenly_and_differ_between_replicas():
    source, _ = source_and_sample(SparseCoding(8, 64), 1)
    assert torch.equal(source.dictionary.abs(), torch.full((2, 64, 8), 1 / 8))
    assert not torch.equal(source.dictionary[0], source.dictionary[1])


def test_canonical_features_are_single_coordinates():
    source, _ = source_and_sample(SparseCoding(8, 64, "canonical"), 1)
    assert torch.equal(source.dictionary[1], torch.eye(64, 8))


def test_inputs_are_signal_plus_noise():
    _, sample = source_and_sample(SparseCoding(8, 64), 100, dtype=torch.float64)
    assert torch.allclose(sample.x, torch.einsum("rif,rbf->rbi", sample.dictionary, sample.codes) + sample.noise)
    assert torch.allclose(sample.signal @ sample.dictionary, sample.codes, atol=1e-6)


def test_noiseless_inputs_are_the_signal():
    _, sample = source_and_sample(SparseCoding(8, 64, noise=0.0), 100)
    assert torch.equal(sample.x, sample.signal)


def test_codes_are_signs_with_the_probability_of_the_paper():
    """2 · 20,000 · 32 codes: p has standard error 0.0002, the mean 0.0003; 5 σ, one false alarm in 10^6."""
    config = SparseCoding(32, 64)
    _, sample = source_and_sample(config, 20_000)
    assert set(sample.codes.unique().tolist()) == {-1.0, 0.0, 1.0}
    p = 2 * log(log(32)) / 32
    assert config.activity == p
    assert float((sample.codes != 0).float().mean()) == pytest.approx(p, abs=5 * sqrt(p / 1_280_000))
    assert float(sample.codes.mean()) == pytest.approx(0, abs=5 * sqrt(p / 1_280_000))


def test_noise_has_the_variance_of_the_paper_and_no_correlation_with_codes():
    """2.56 million coordinates: variance to 5 · √2/1600 relative, 5 σ; correlations of 40,000 to 5/200."""
    config = SparseCoding(32, 64, noise=1.5)
    _, sample = source_and_sample(config, 20_000)
    assert config.noise_variance == 1.5 * sqrt(log(32)) / 32
    assert float(sample.noise.var()) == pytest.approx(config.noise_variance, rel=5 * sqrt(2 / 2_560_000))
    product = (sample.noise @ sample.dictionary * sample.codes).mean((0, 1))
    scale = sqrt(config.noise_variance * config.activity / 40_000)
    assert product.abs().max() < 5 * scale


def test_the_same_address_gives_the_same_samples_in_shards():
    config = SparseCoding(8, 64)
    whole, shard = Streams(5, range(4)), Streams(5, range(2, 4))
    samples = [
        config.build(streams.at("dictionary")).sample(streams.at("batch", 3), 16).x for streams in (whole, shard)
    ]
    assert torch.equal(samples[0][2:], samples[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": 2}, r"SparseCoding.features = 2 is out of range: allowed is >= 3"),
        ({"features": 64, "input_dim": 32}, r"SparseCoding.input_dim = 32 .* allowed is >= features = 64"),
        ({"input_dim": 500}, r"SparseCoding.input_dim = 500 .* a power of two\. Or take dictionary 'qr'"),
        ({"sparsity": 0.0}, r"SparseCoding.sparsity = 0.0"),
        ({"sparsity": 100.0}, r"SparseCoding.sparsity = 100.0 .* <= 1"),
        ({"noise": -1.0}, r"SparseCoding.noise = -1.0 .* >= 0"),
        ({"noise": float("inf")}, r"SparseCoding.noise = inf .* finite"),
        ({"noise": float("nan")}, r"SparseCoding.noise = nan .* finite"),
    ],
)
def test_wrong_options_are_named_with_what_is_allowed(options, message):
    with pytest.raises(ConfigError, match=message):
        SparseCoding(**options)


def test_task_vectors_have_sizes_between_a_half_and_three_halves_and_both_signs():
    task = linear_task(Streams(0, range(4)).at("task"), 50)
    assert ((task.abs() >= 0.5) & (task.abs() <= 1.5)).all()
    assert 0.3 < float((task > 0).float().mean()) < 0.7  # 5.6 σ of 200 fair coins
