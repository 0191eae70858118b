"""Pairs of token sequences: the law of their codes, of their noise and of their means, and refused options.

Sampled checks fix seed 0. At another seed each is off by 5 standard errors, or has a p-value below 1e-5, about once in
10^5 runs; some 60 of them make one false alarm in 1500 seeds.
"""

from dataclasses import replace
from itertools import product
from math import comb, sqrt

import numpy as np
import pytest
import torch
from scipy import stats

from featscope.data import SparseTokens, SparseTokensSource, TokenPairs
from featscope.options import ConfigError
from featscope.streams import Draws, Streams

SMALL = SparseTokens(features=4, input_dim=12, minority=1, eps_min=0.4, activity=0.5, tokens=3, token_activity=0.4)
COUNT = 50_000


def draw(
    config: SparseTokens, count: int = COUNT, *, means: bool = True, replicas: range = range(2)
) -> tuple[SparseTokensSource, TokenPairs]:
    streams = Streams(0, replicas)
    source = config.build(streams.at("dictionary"))
    source.means = means  # as a learner says that looks at nothing else
    return source, source.pairs(streams.at("batch"), count)


def shown(config: SparseTokens) -> tuple[np.ndarray, np.ndarray]:
    """Codes of X and Y token by token, read off noiseless inputs: ``[pair, token, feature]``, replica 0."""
    source, pairs = draw(replace(config, noise_std=0.0), means=False)
    return tuple((x[0] @ source.dictionary[0]).numpy().round().astype(int) for x in (pairs.x, pairs.y))


@pytest.mark.parametrize("q", [1.0, 0.4, 0.05])
def test_a_pair_shares_features_and_signs_and_every_active_feature_is_in_some_token(q):
    x, y = shown(replace(SMALL, token_activity=q))
    for tokens in (x, y):
        assert set(np.unique(tokens)) <= {-1, 0, 1}
        signs = tokens.sum(1)
        assert (np.abs(signs) == np.abs(tokens).sum(1)).all()  # one sign in all tokens
    assert (np.sign(x.sum(1)) == np.sign(y.sum(1))).all()
    if q == 1.0:
        assert (x == x[:, :1]).all()


@pytest.mark.parametrize("q", [1.0, 0.4])
def test_features_are_as_frequent_as_asked_and_both_signs_are_alike(q):
    x, _ = shown(replace(SMALL, token_activity=q))
    p = np.array([0.5, 0.5, 0.5, 0.2])
    active = (x != 0).any(1)
    assert (np.abs(active.mean(0) - p) < 5 * np.sqrt(p * (1 - p) / COUNT)).all()
    assert (np.abs(np.sign(x.sum(1)).mean(0)) < 5 * np.sqrt(p / COUNT)).all()
    pairs = np.corrcoef(np.sign(x.sum(1)).T)[np.triu_indices(4, 1)]
    together = np.corrcoef(active.T)[np.triu_indices(4, 1)]
    assert np.abs(np.concatenate([pairs, together])).max() < 5 / sqrt(COUNT)  # features are independent


def test_each_feature_can_have_a_frequency_of_its_own():
    """In place of the two of majority and minority, which is still who comes last."""
    source, pairs = draw(replace(SMALL, frequencies=(1.0, 0.6, 0.6, 0.1), token_activity=1.0))
    p = np.array([0.5, 0.3, 0.3, 0.05])
    active = (pairs.codes_x[0] != 0).numpy()
    assert (np.abs(active.mean(0) - p) < 5 * np.sqrt(p * (1 - p) / COUNT)).all()
    assert source.minority == 1
    assert source.balanced().activity[0].tolist() == [0.5] * 4


@pytest.mark.parametrize("q", [0.4, 0.05])
def test_tokens_show_a_feature_independently_given_that_one_does_and_those_of_x_and_y_are_chosen_apart(q):
    """All 49 patterns of three tokens in X and three in Y, against products of Bernoulli laws, rejected if empty."""
    x, y = shown(replace(SMALL, token_activity=q))
    active = (x[..., 0] != 0).any(1)
    codes = [(np.abs(tokens[active][..., 0]) * [1, 2, 4]).sum(1) for tokens in (x, y)]
    law = {}
    for pattern in product((0, 1), repeat=3):
        if any(pattern):
            on = sum(pattern)
            law[pattern[0] + 2 * pattern[1] + 4 * pattern[2]] = q**on * (1 - q) ** (3 - on) / (1 - (1 - q) ** 3)
    expected = np.array([law[a] * law[b] for a in range(1, 8) for b in range(1, 8)]) * active.sum()
    counted = np.array([((codes[0] == a) & (codes[1] == b)).sum() for a in range(1, 8) for b in range(1, 8)])
    assert counted.sum() == active.sum()
    large = expected >= 5
    pool = [np.append(values[large], values[~large].sum()) for values in (counted, expected)]
    pool = [values[pool[1] > 5] for values in pool]
    scaled = pool[1] * pool[0].sum() / pool[1].sum()
    assert stats.chisquare(pool[0], scaled).pvalue > 1e-5


@pytest.mark.parametrize("means", [True, False])
def test_codes_are_means_over_tokens(means):
    _, pairs = draw(SMALL, means=means)
    for codes in (pairs.codes_x, pairs.codes_y):
        shares = (codes[..., 0].abs() * 3).round().int().flatten().numpy()
        assert codes.shape == (2, COUNT, 4)
        active = shares[shares > 0]
        law = np.array([comb(3, n) * 0.4**n * 0.6 ** (3 - n) for n in (1, 2, 3)])
        assert stats.chisquare(np.bincount(active)[1:], law / law.sum() * len(active)).pvalue > 1e-5


def test_inputs_are_signal_plus_noise_of_the_asked_deviation_off_and_on_features():
    source, pairs = draw(replace(SMALL, noise_std=0.7, token_activity=1.0), means=False)
    assert pairs.x.shape == (2, COUNT, 3, 12)
    noise = pairs.x - (pairs.codes_x @ source.dictionary.mT)[:, :, None]
    variance, numbers = float(noise.var()), noise.numel()
    assert variance == pytest.approx(0.49, rel=5 * sqrt(2 / numbers))
    other = pairs.y - (pairs.codes_y @ source.dictionary.mT)[:, :, None]
    assert abs(float((noise * other).mean())) < 5 * 0.49 / sqrt(numbers)  # X and Y have noise of their own
    between = float((noise[:, :, 0] * noise[:, :, 1]).mean())
    assert abs(between) < 5 * 0.49 / sqrt(numbers / 3)  # and so have tokens


@pytest.mark.parametrize("q", [1.0, 0.4])
def test_means_are_in_law_what_the_mean_of_tokens_is(q):
    """Kolmogorov-Smirnov of a frequent and a rare feature's coordinate, one off the features, and X times Y."""
    config = replace(SMALL, noise_std=0.5, token_activity=q)
    seen = []
    for means in (True, False):
        streams = Streams(int(means), range(1))  # samples of their own, or they would agree for no good reason
        source = config.build(streams.at("dictionary"))
        source.means = means
        pairs = source.pairs(streams.at("batch"), COUNT)
        x, y = (v[0] if means else v[0].mean(-2) for v in (pairs.x, pairs.y))
        frame = source.dictionary[0]
        outside = torch.randn(12, generator=torch.Generator().manual_seed(0))
        outside -= frame @ (frame.mT @ outside)
        directions = torch.stack([frame[:, 0], frame[:, 3], outside / outside.norm()], 1)
        seen.append(torch.cat([x @ directions, (x @ directions) * (y @ directions)], 1).numpy())
    for one, other in zip(seen[0].T, seen[1].T, strict=True):
        assert stats.ks_2samp(one, other).pvalue > 1e-5
    assert seen[0][:, 2].var() == pytest.approx(0.25 / 3, rel=5 * sqrt(2 / COUNT))


@pytest.mark.parametrize("means", [True, False])
def test_a_replica_sees_the_same_alone_and_among_others(means):
    whole, alone = (draw(SMALL, 7, means=means, replicas=replicas) for replicas in (range(8), range(3, 4)))
    assert torch.equal(whole[0].dictionary[3], alone[0].dictionary[0])
    for all_of_them, one in zip(whole[1], alone[1], strict=True):
        assert torch.equal(all_of_them[3], one[0])
    assert not torch.equal(whole[1].x[3], whole[1].x[4])


def test_features_are_orthonormal_and_differ_between_replicas():
    source, _ = draw(SparseTokens(features=20, input_dim=50), 1)
    assert torch.allclose(source.dictionary.mT @ source.dictionary, torch.eye(20), atol=1e-5)
    assert not torch.allclose(source.dictionary[0], source.dictionary[1])


def test_balanced_data_have_the_same_features_all_frequent():
    source, _ = draw(SMALL, 1)
    balanced = source.balanced()
    assert balanced.activity.tolist() == [[0.5] * 4] * 2
    assert torch.equal(balanced.dictionary, source.dictionary)
    assert source.activity[0].tolist() == pytest.approx([0.5, 0.5, 0.5, 0.2])
    kept = (balanced.tokens, balanced.token_activity, balanced.minority, balanced.means)
    assert kept == (3, 0.4, 1, True)


def test_frequencies_and_noise_are_tensors_with_a_value_for_each_replica():
    """So that experiments which differ in ε_min or σ can train side by side."""
    source, _ = draw(SMALL, 1)
    assert {name: tuple(buffer.shape) for name, buffer in source.named_buffers()} == {
        "dictionary": (2, 12, 4),
        "activity": (2, 4),
        "noise_std": (2,),
    }


class LargestUniforms(Draws):
    """Draws in which every uniform is the largest below 1."""

    def uniform(self, *shape, dtype=torch.float32):
        return torch.full((1, *shape), 1 - torch.finfo(dtype).eps / 2, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("q", [0.01, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("tokens", [1, 2, 4, 16])
def test_rounding_does_not_push_a_feature_out_of_all_tokens(dtype, q, tokens):
    source, _ = draw(replace(SMALL, tokens=tokens, token_activity=q), 1)
    on = source._shown(LargestUniforms(0, [0], 0, torch.device("cpu")), torch.ones(1, 5, 4, dtype=dtype))
    assert on.shape == (1, 5, tokens, 4)
    assert on.any(2).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": 2}, r"SparseTokens.features = 2 is out of range: allowed is >= 3\. log log d"),
        ({"features": 20, "input_dim": 19}, r"SparseTokens.input_dim = 19 .* allowed is >= features = 20"),
        ({"minority": 21}, r"SparseTokens.minority = 21 .* between 0 and features = 20"),
        ({"minority": -1}, r"SparseTokens.minority = -1"),
        ({"eps_min": 1.1}, r"SparseTokens.eps_min = 1.1 .* between 0 and 1"),
        (
            {"features": 3, "frequencies": (1.0, 0.2)},
            r"SparseTokens.frequencies = \(1.0, 0.2\) .* 3 numbers between 0 and 1, one a feature, or none",
        ),
        ({"features": 3, "frequencies": (1.0, 1.0, 1.1)}, r"SparseTokens.frequencies = \(1.0, 1.0, 1.1\) .* 0 and 1"),
        ({"features": 3, "frequencies": (1.0, 1.0, float("nan"))}, r"SparseTokens.frequencies = .* finite"),
        ({"eps_min": float("nan")}, r"SparseTokens.eps_min = nan .* finite"),
        ({"activity": 0.0}, r"SparseTokens.activity = 0.0 .* > 0 and <= 1"),
        ({"tokens": 0}, r"SparseTokens.tokens = 0 .* >= 1"),
        ({"token_activity": 0.0}, r"SparseTokens.token_activity = 0.0 .* > 0 and <= 1"),
        ({"noise_std": -0.1}, r"SparseTokens.noise_std = -0.1 .* >= 0"),
    ],
)
def test_wrong_options_are_named_with_what_is_allowed(options, message):
    with pytest.raises(ConfigError, match=message):
        SparseTokens(**options)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ("pairs_unmixed", "^means = False is out of range"),
        ("projected_pairs", "^objective.noise = 'projected' is out of range"),
    ],
)
def test_parts_of_mean_tokens_are_not_given_for_tokens(parts, message):
    source, _ = draw(SMALL, count=2, means=False)
    with pytest.raises(ConfigError, match=message):
        getattr(source, parts)(Streams(0, range(2)).at("more"), 2)
    assert getattr(draw(SMALL, count=2, means=True)[0], parts)(Streams(0, range(2)).at("more"), 2) is not None
