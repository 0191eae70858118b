"""Which features weights hold."""

import jaxtyping
import numpy as np
import pytest
import torch
from scipy import stats

from featscope.probes import (
    alignment,
    amplitudes,
    coverage,
    feature_energy,
    lucky,
    members,
    owner,
    rank_correlation,
    singletons,
)

FEATURES = torch.eye(4, 3)[None]
WEIGHT = torch.tensor([[[2.0, 0, 0, 0], [3.0, 4.0, 0, 0], [0, 0, 0, 1.0], [-0.1, 0, -0.8, 0.3], [0, 0, 0, 0]]])


def test_alignments_are_cosines_and_0_for_a_neuron_without_weights():
    expected = torch.tensor([[1.0, 0, 0], [0.6, 0.8, 0], [0, 0, 0], [-0.1 / 0.74**0.5, 0, -0.8 / 0.74**0.5], [0, 0, 0]])
    assert torch.allclose(alignment(WEIGHT, FEATURES)[0], expected)


def test_energy_singletons_coverage_and_owner():
    cosines = alignment(WEIGHT, FEATURES)
    assert feature_energy(cosines)[0].tolist() == pytest.approx([1, 1, 0, 0.65 / 0.74, 0])
    assert singletons(cosines)[0].tolist() == [True, True, False, True, False]
    assert coverage(cosines).tolist() == [1.0]
    assert coverage(cosines[:, :2]).tolist() == pytest.approx([2 / 3])
    assert coverage(cosines[:, 2:3]).tolist() == [0.0]
    assert owner(cosines)[0, [0, 1, 3]].tolist() == [0, 1, 2]


def test_two_features_held_equally_make_no_singleton():
    cosines = alignment(torch.tensor([[[1.0, 1.0, 0, 0]]]), FEATURES)
    assert not singletons(cosines * 0.9999).any()


def test_rank_correlation_is_spearman_s_of_absolute_values():
    before, after = torch.randn(2, 3, 7, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = rank_correlation(before, after)
    for replica in range(3):
        for neuron in range(7):
            pair = (np.abs(c[replica, neuron].numpy()) for c in (before, after))
            assert float(found[replica, neuron]) == pytest.approx(stats.spearmanr(*pair).statistic)


def test_rank_correlation_of_equal_entries_takes_their_mean_ranks():
    before = torch.tensor([[[0, 0, 1.0, -1.0], [1.0, 2.0, 3.0, 4.0], [0, 0, 0, 0], [1.0, 2.0, torch.nan, 4.0]]])
    after = torch.tensor([[[0, 1.0, 2.0, 3.0], [1.0, 1.0, 1.0, 1.0], [0, 0, 0, 0], [1.0, 2.0, 3.0, 4.0]]])
    expected = [stats.spearmanr([0, 0, 1, 1], [0, 1, 2, 3]).statistic, *[np.nan] * 3]
    assert rank_correlation(before, after)[0].tolist() == pytest.approx(expected, nan_ok=True)
    assert rank_correlation(after, before)[0].tolist() == pytest.approx(expected, nan_ok=True)


def test_members_are_the_features_within_a_half_of_the_largest():
    found = members(alignment(WEIGHT, FEATURES))[0]
    assert found[[0, 1, 3]].tolist() == [[True, False, False], [True, True, False], [False, False, True]]


def test_amplitudes_are_those_of_singletons():
    """Neuron 1 holds feature 1 though its cosine to feature 0 is 0.6; neuron 3 has 0.64 of feature 2."""
    twice = torch.cat([WEIGHT, 3 * WEIGHT[:, :1]], 1)
    assert amplitudes(twice, FEATURES)[0].tolist() == pytest.approx([4 + 36, 16, 0.64])
    assert amplitudes(torch.ones(1, 1, 4), FEATURES)[0].tolist() == [0, 0, 0]


def test_lucky_neurons_have_their_share_of_the_feature_energy():
    """log 3/3 is 0.366: at c = 1 shares of 0.36 are too little, at c = 0.9 they are enough."""
    of = WEIGHT[:, :2]
    assert lucky(of, FEATURES, 1.0)[0].tolist() == [[True, False, False], [False, True, False]]
    assert lucky(of, FEATURES, 0.9)[0].tolist() == [[True, False, False], [True, True, False]]


def test_a_member_has_more_than_half_of_the_largest():
    assert members(torch.tensor([[[1.0, 0.4, 0.6]]])).tolist() == [[[True, False, True]]]


@pytest.mark.parametrize("length", [1e-10, 1e-22, 1e-30])
def test_cosines_do_not_depend_on_how_short_weights_have_become(length):
    """Squares of 1e-22 are no numbers of float32."""
    torch.testing.assert_close(alignment(length * WEIGHT, FEATURES), alignment(WEIGHT, FEATURES))


def test_a_feature_with_half_of_the_largest_cosine_is_a_member_still():
    assert members(torch.tensor([[[0.5, -0.25, 0.24]]])).tolist() == [[[True, True, False]]]


def test_of_a_network_that_diverged_no_coverage_is_known():
    cosines = torch.stack([torch.eye(3), torch.full((3, 3), torch.nan)])
    assert coverage(cosines).tolist() == [1.0, pytest.approx(torch.nan, nan_ok=True)]


def test_cosines_are_exact_under_autocast():
    weight, dictionary = torch.randn(50, 64), torch.linalg.qr(torch.randn(64, 64)).Q
    with torch.autocast("cpu", torch.bfloat16):
        found = alignment(weight, dictionary)
    assert found.equal(alignment(weight, dictionary))


def test_a_neuron_without_weights_owns_no_feature():
    assert not members(torch.zeros(2, 3)).any()


def test_a_single_neuron_is_not_compared_with_all_and_a_vector_has_no_coverage(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses them first, in tests alone
    with pytest.raises(ValueError, match=r"pairs have shapes \(5, 3\) and \(1, 3\); allowed is one shape"):
        rank_correlation(torch.rand(5, 3), torch.rand(1, 3))
    for measure in (coverage, members, owner, singletons):
        with pytest.raises(ValueError, match=r"cosines have shape \(3,\); allowed is \[neuron, feature\]"):
            measure(torch.rand(3))


@pytest.mark.parametrize(
    "measure", [coverage, members, owner, singletons, lambda array: rank_correlation(array, array)]
)
def test_arrays_of_numpy_are_refused_by_name(measure, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses them first, in tests alone
    with pytest.raises(TypeError, match=r"got a ndarray: expected a torch\.Tensor"):
        measure(np.ones((2, 3)))
