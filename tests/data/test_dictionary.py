"""Dictionary data: laws of each kind of label, the training set, and what is refused."""

import numpy as np
import pytest
import torch
from scipy.stats import binom

from featscope.data import DictionaryData
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.theory import dictionary_learning as theory


def built(**options):
    return DictionaryData(**{"patterns": 12, "relevant": 3, "samples": 20_000, "test": 100} | options).build(
        Streams(0, range(2)).at("dictionary")
    )


def present(source, x):
    return (x * source.scale + source.mean).round()


@pytest.mark.parametrize("background", [0.5, 0.3])
def test_parities_of_the_mixture(background):
    source = built(background=background)
    x, y = source.train_set
    phi = present(source, x)
    assert torch.equal(2 * (phi[..., :3].sum(-1) % 2) - 1, y)
    gamma = (y[..., None] * phi).mean(1)
    np.testing.assert_allclose(gamma[:, :3], theory.correlation(background), atol=0.02)
    np.testing.assert_allclose(gamma[:, 3:], 0, atol=0.02)
    np.testing.assert_allclose(phi[..., 3:].mean(1), background, atol=0.02)
    np.testing.assert_allclose(source.scale.flatten(), theory.scale(12, 3, background), rtol=0.01)
    np.testing.assert_allclose(x.square().sum(-1).mean(1), 1, rtol=1e-4)


def test_without_structure_nothing_is_correlated():
    x, y = built(structured=False).train_set
    np.testing.assert_allclose((y[..., None] * x).mean(1), 0, atol=0.012)


def test_a_rare_class_keeps_its_law():
    source = built(negatives=0.8)
    x, y = source.train_set
    assert float((y < 0).float().mean()) == pytest.approx(0.8, abs=0.01)
    rare = present(source, x)[0][y[0] > 0]
    assert float((rare[:, :3].sum(1) == 3).float().mean()) == pytest.approx(0.5 + 0.5 / 4, abs=0.03)


def test_intervals_and_their_correlation():
    source = built(relevant=9, labels="interval")
    x, y = source.train_set
    phi = present(source, x)
    assert torch.equal(y > 0, phi[..., :9].sum(-1) >= 6)
    counts = np.arange(10)
    weights, labels = binom(9, 2 / 3).pmf(counts), np.where(counts >= 6, 1, -1)
    assert source.options.gamma == pytest.approx(weights @ (labels * (counts / 9 - 2 / 3)))
    assert float((y > 0).float().mean()) == pytest.approx(weights @ (labels > 0), abs=0.01)


def test_hidden_vectors_and_their_target():
    source = built(relevant=10, labels="hidden")
    x, y = source.train_set
    direction = (y[..., None] * x).mean(1)
    assert (torch.nn.functional.cosine_similarity(direction, source.target) > 0.97).all()
    first = {tuple(v) for v in source.vectors[0, :50].tolist()}
    assert all(tuple(v) in first for v in present(source, x)[0][y[0] > 0][:50, :10].tolist())


def test_more_dimensions_keep_the_patterns():
    source = built(dimension=20)
    x, _ = source.train_set
    assert x.shape[-1] == 20
    np.testing.assert_allclose(source.target.norm(dim=-1), 1, rtol=1e-5)
    back = x @ source.dictionary
    np.testing.assert_allclose(x.square().sum(-1), back.square().sum(-1), rtol=1e-3)


def test_the_general_setting_has_random_unit_columns_and_noise():
    source = built(dimension=400, incoherent=True, noise=0.5)
    x, y = source.train_set
    np.testing.assert_allclose(source.dictionary.norm(dim=1), 1, rtol=1e-5)
    cosines = (source.dictionary.mT @ source.dictionary - torch.eye(12))[:, ~torch.eye(12, dtype=bool)]
    assert float(cosines.square().mean()) == pytest.approx(1 / 400, rel=0.3)
    np.testing.assert_allclose(source.target.norm(dim=-1), 1, rtol=1e-5)
    np.testing.assert_allclose(x.square().sum(-1).mean(1), 1, rtol=1e-4)
    patterns = theory.scale(12, 3, 0.5) ** 2
    np.testing.assert_allclose(source.scale.flatten() ** 2, patterns + 400 * 0.25, rtol=0.02)
    phi = torch.linalg.lstsq(source.dictionary, (x * source.scale).mT).solution.mT
    off = (phi - phi.round()).square().mean()
    assert float(off) > 0.05  # the noise is there
    assert torch.equal(y, built(dimension=400, incoherent=True, noise=0.5).train_set.labels)


def test_what_is_tested_on_is_fresh_and_on_the_scale_of_the_training_set():
    source = built(dimension=15, noise=0.5, samples=500, test=400)
    x, _ = source.test_set
    assert torch.cdist(x, source.train_set.inputs).min() > 1e-4
    for seen in (x, source.sample(Streams(0, range(2)).at("batch"), 400).inputs):
        np.testing.assert_allclose(seen.square().sum(-1).mean(1), 1, rtol=0.1)


def test_batches_are_of_the_training_set_and_draws_are_addressed():
    source, again = built(), built()
    assert torch.equal(source.train_set.inputs, again.train_set.inputs)
    x, y = source.batch(Streams(0, range(2)).at("batch"), 50)
    rows = {
        tuple(row) for row in torch.cat([source.train_set.inputs[0], source.train_set.labels[0][:, None]], 1).tolist()
    }
    assert all(tuple(row) in rows for row in torch.cat([x[0], y[0][:, None]], 1).tolist())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"relevant": 4}, "relevant = 4 .* odd"),
        ({"relevant": 13}, "relevant = 13 .* patterns = 12"),
        ({"background": 0.6}, "background = 0.6"),
        ({"negatives": 1.0}, "negatives = 1.0"),
        ({"labels": "interval", "negatives": 0.8}, "no parities"),
        ({"samples": 1}, "samples = 1"),
        ({"dimension": 5}, "dimension = 5"),
        ({"incoherent": True}, "incoherent = True .* false where dimension = 0"),
        ({"noise": -1.0}, "noise = -1.0 .* >= 0"),
    ],
)
def test_options_out_of_range_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        built(**options)
