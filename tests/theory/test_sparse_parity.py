"""Sparse parity: the example of the text, margins by counting, heads by Sperner, and what is mended."""

from itertools import permutations, product

import numpy as np
import pytest

from featscope.theory import sparse_parity as theory

SIZES = [(1, 2), (1, 3), (2, 3), (2, 4), (1, 5)]


def margins(network, gamma):
    """y g for every pattern and task of a diagonal network on an endless prompt, ``[pattern, d, d]``; NaN at i = j."""
    first, second = (theory.PATTERNS[:, at, None, None, None] for at in (0, 1))
    v = network.diagonals
    seen = 2 * gamma * (first * v[:, :, None] + second * v[:, None, :])
    found = theory.PATTERNS.prod(-1)[:, None, None] * np.einsum("h,phij->pij", network.signs, seen.clip(min=0))
    found[:, np.eye(v.shape[1], dtype=bool)] = np.nan
    return found


def by_hand(network, gamma, i, j, query):
    """y g of one task and query, head by head."""
    v = network.diagonals
    heads = np.maximum(0, 2 * gamma * (v[:, i] * query[i] + v[:, j] * query[j]))
    return query[i] * query[j] * float(network.signs @ heads)


def test_the_example_of_the_text():
    signs, v = theory.optimal_network(3, 8, 0.1)
    assert signs.tolist() == [-1, -1, -1, 1] * 2
    wanted = [
        [-1, 1, -1, 1, -1, 1, -1, 1],
        [-1, -1, 1, 1, -1, -1, 1, 1],
        [-1, -1, -1, -1, 1, 1, 1, 1],
        [-3] * 8,
    ]
    np.testing.assert_allclose(v[:4] * 0.4, wanted)
    np.testing.assert_array_equal(v[4:], -v[:4])


def test_the_small_network_has_some_of_its_heads_up_to_scale():
    large, small = (theory.optimal_network(n, 8, 0.1).diagonals for n in (3, 1))
    np.testing.assert_allclose(small[[0, 2]], large[[0, 4]])
    np.testing.assert_allclose(3 * small[[1, 3]], large[[3, 7]])


@pytest.mark.parametrize(("small", "large"), SIZES)
def test_margins_are_hamming_distances(small, large):
    for digits in (small, large):
        found = margins(theory.optimal_network(digits, 2**large, 0.15), 0.15)
        wanted = np.where(np.isnan(found), np.nan, theory.hamming(digits, 2**large))
        np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_margins_by_hand():
    network = theory.antichain_network(4, 0.2)
    found = margins(network, 0.2)
    for at, (first, second) in enumerate(theory.PATTERNS):
        for i, j in ((0, 1), (1, 0), (2, 3), (0, 3)):
            query = np.zeros(4)
            query[i], query[j] = first, second
            assert found[at, i, j] == pytest.approx(by_hand(network, 0.2, i, j, query))
    assert np.isnan(found[:, range(4), range(4)]).all()


@pytest.mark.parametrize(("k", "d", "loss"), [(2, 8, 4 / 9), (4, 8, 2 / 11), (4, 16, 4 / 19), (2, 4, 2 / 5)])
def test_loss_on_other_tasks(k, d, loss):
    assert theory.other_loss(k, d) == pytest.approx(loss)
    hinge = np.maximum(0, 1 - margins(theory.optimal_network(k.bit_length() - 1, d, 0.1), 0.1))
    tasks = np.einsum("p,pij->ij", theory.pattern_probabilities(0.1), hinge)
    inside = theory.important(d, k) == 1
    assert tasks[~inside & ~np.eye(d, dtype=bool)].mean() == pytest.approx(loss)
    assert tasks[inside].max() == pytest.approx(0, abs=1e-12)


def test_more_weight_on_positive_heads_halves_it():
    raised = theory.optimal_network(1, 8, 0.1, scale=2)
    hinge = np.maximum(0, 1 - margins(raised, 0.1))
    tasks = np.einsum("p,pij->ij", theory.pattern_probabilities(0.1), hinge)
    outside = (theory.important(8, 2) == 0) & ~np.eye(8, dtype=bool)
    assert tasks[outside].mean() == pytest.approx(2 / 9)


def test_patterns_are_as_likely_as_the_text_says():
    chances = theory.pattern_probabilities(0.1)
    assert chances.sum() == pytest.approx(1)
    moments = chances @ (theory.PATTERNS.prod(-1)[:, None] * theory.PATTERNS)
    np.testing.assert_allclose(moments, [0.2, 0.2])  # E y φ = 2γ


@pytest.mark.parametrize(("d", "heads"), [(2, 2), (4, 4), (8, 5), (16, 6), (32, 7), (64, 8), (128, 10)])
def test_heads_that_tell_all_pairs_apart(d, heads):
    assert theory.separating_heads(d) == heads
    assert theory.printed_negative_heads(d) == 2 * np.log2(d)


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_the_search_for_antichains_is_that_of_all_families(heads):
    subsets = range(2**heads)
    families = product((False, True), repeat=len(subsets))
    members = ([s for s, inside in zip(subsets, family, strict=True) if inside] for family in families)
    most = max(len(f) for f in members if not any(a != b and a & b == a for a in f for b in f))
    assert len(theory.largest_antichain(heads, 100)) == most


def test_the_search_finds_sperners_numbers():
    assert [len(theory.largest_antichain(heads, 100)) for heads in (1, 2, 3, 4)] == [1, 2, 3, 6]
    assert [theory.searched_heads(d) for d in (2, 4, 8, 16)] == [2, 4, 5, 6]


@pytest.mark.parametrize("d", [2, 4, 8, 16])
def test_the_family_that_is_found_has_a_set_a_feature_and_none_holds_another(d):
    heads, family = theory.searched_family(d)
    assert len(family) == d
    assert all(0 <= head < heads for one in family for head in one)
    assert not any({*one} <= {*other} for one, other in permutations(family, 2))


@pytest.mark.parametrize("d", [2, 4, 8, 16, 32])
def test_an_antichain_answers_every_task(d):
    network = theory.antichain_network(d, 0.1)
    assert np.nanmin(margins(network, 0.1)) == pytest.approx(1)
    assert len(network.signs) == theory.separating_heads(d) + 2


def test_it_has_a_smaller_norm_from_eight_features_on():
    for d, wanted in ((8, 0.75), (16, 0.6)):
        norm = (theory.antichain_network(d, 0.1).diagonals ** 2).sum()
        assert norm / theory.printed_norm(d.bit_length() - 1, d, 0.1) == pytest.approx(wanted)


def test_printed_norm_is_that_of_the_network():
    for digits, d in ((1, 2), (2, 4), (3, 8)):
        assert (theory.optimal_network(digits, d, 0.1).diagonals ** 2).sum() == pytest.approx(
            theory.printed_norm(digits, d, 0.1)
        )


def test_a_smaller_diagonal_network_at_four_features():
    rows = [[-5, 13, 1, -9], [-11, -5, 7, 9], [-20] * 4, [11, -7, 5, -9], [5, -1, -13, 9], [20] * 4]
    network = theory.Network(np.array([-1.0, -1, 1, -1, -1, 1]), np.array(rows) / (48 * 0.1))
    assert np.nanmin(margins(network, 0.1)) == pytest.approx(1)
    assert (network.diagonals**2).sum() == pytest.approx(269 / 144 / 0.1**2)


def test_the_printed_rate():
    assert theory.printed_rate(8, 0.1) == pytest.approx(0.0150754, abs=1e-7)
    assert theory.printed_rate(8, 0.05) == pytest.approx(0.0232558, abs=1e-7)


@pytest.mark.parametrize(("small", "large"), SIZES)
def test_the_projection_has_half_the_rank_of_its_columns(small, large):
    network = theory.optimal_network(small, 2**large, 0.1)
    p = theory.projection(network)
    np.testing.assert_allclose(p @ p, p, atol=1e-12)
    assert np.trace(p) == pytest.approx(small + 1)  # M E ‖P Ξ‖²
    gram = network.diagonals @ network.diagonals.T
    assert np.linalg.matrix_rank(gram) == small + 1 < len(gram)
    large_trace = np.trace(theory.projection(theory.optimal_network(large, 2**large, 0.1)))
    assert np.trace(p) / large_trace == pytest.approx(theory.noise_ratio(small, large))


def test_features_may_count_from_one():
    for first in (0, 1):
        assert np.nanmin(margins(theory.optimal_network(3, 8, 0.1, first=first), 0.1)) == pytest.approx(1)
    assert theory.digits(3, 2, 1).tolist() == [[1, 0, 1], [0, 1, 1]]
