"""Random draws are functions of their address."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from featscope.streams import Streams

KINDS = {
    "normal": lambda draws: draws.normal(3, 5),
    "uniform": lambda draws: draws.uniform(3, 5),
    "coins": lambda draws: draws.coins(3, 5),
    "choice": lambda draws: draws.choice(9, 4),
}
seeds = st.integers(-(2**63) + 1, 2**63 - 1)
addresses = st.tuples(seeds, st.integers(0, 10_000), st.text(max_size=20), st.integers(0, 2**40))


@given(seed=seeds, kind=st.sampled_from(sorted(KINDS)), step=st.integers(0, 10**6))
def test_replica_3_of_8_sees_bit_for_bit_what_replica_3_of_64_sees(seed, kind, step):
    alone, of_8, of_64 = (
        KINDS[kind](Streams(seed, replicas).at("batch", step)) for replicas in ([3], range(8), range(64))
    )
    assert torch.equal(alone[0], of_8[3])
    assert torch.equal(of_8, of_64[:8])


@given(seed=seeds, first=st.integers(0, 60), kind=st.sampled_from(sorted(KINDS)))
def test_shards_see_what_the_whole_sees(seed, first, kind):
    whole, shard = (KINDS[kind](Streams(seed, replicas).at("batch", 1)) for replicas in (range(64), range(first, 64)))
    assert torch.equal(whole[first:], shard)


@given(seed=seeds, numbers=st.lists(st.integers(0, 3), min_size=1, max_size=8), kind=st.sampled_from(sorted(KINDS)))
def test_replicas_of_the_same_number_share_their_draws_and_see_what_they_see_alone(seed, numbers, kind):
    together = KINDS[kind](Streams(seed, numbers).at("batch", 2))
    alone = [KINDS[kind](Streams(seed, [number]).at("batch", 2))[0] for number in numbers]
    assert torch.equal(together, torch.stack(alone))


def test_shared_draws_are_copies_that_one_replica_may_change():
    draws = Streams(0, [5, 5, 6]).at("batch")
    first = draws.normal(4)
    first[0].zero_()
    assert not torch.equal(first[0], first[1])
    assert torch.equal(draws.normal(4), torch.cat([Streams(0, [n]).at("batch").normal(8)[:, 4:] for n in (5, 5, 6)]))
    assert draws.replicas == 3


@given(seed=seeds, others=st.lists(st.sampled_from(sorted(KINDS)), max_size=4))
def test_no_draw_shifts_another(seed, others):
    streams = Streams(seed, range(2))
    before = streams.at("batch", 7).normal(4)
    for kind in others:
        KINDS[kind](streams.at("something else", 7))
    assert torch.equal(streams.at("batch", 7).normal(4), before)


@given(one=addresses, other=addresses)
def test_different_addresses_draw_different_numbers(one, other):
    """Two of them share a 32-bit seed with probability 2^-32."""
    (x, y) = (Streams(s, [r]).at(purpose, step).normal(4) for s, r, purpose, step in (one, other))
    assert torch.equal(x, y) == (one == other)


def test_successive_calls_go_on_along_the_stream():
    draws = Streams(0, range(2)).at("batch")
    assert not torch.equal(draws.normal(8), draws.normal(8))


def test_the_draws_of_an_address_are_those_of_the_first_release():
    """Results that were published must stay reproducible."""
    draws = Streams(7, [3]).at("batch", 11)
    expected = [1.1503, 1.2157, -1.1036]
    assert draws.normal(3)[0].tolist() == pytest.approx(expected, abs=1e-4)


@given(length=st.integers(1, 40), rows=st.integers(1, 3))
def test_coins_are_0_or_1_whatever_the_length(length, rows):
    coins = Streams(0, range(2)).at("coins").coins(rows, length, dtype=torch.float64)
    assert coins.shape == (2, rows, length)
    assert coins.dtype == torch.float64
    assert ((coins == 0) | (coins == 1)).all()


def test_coins_are_fair_and_independent_within_a_byte_and_between_bytes():
    """χ² tests of all pairs among 20 positions; seed fixed. False alarms at another seed: one in 1000."""
    coins = Streams(0, [0]).at("coins").coins(20_000, 20)[0].numpy()
    statistic = float((4 * 20_000 * (coins.mean(0) - 0.5) ** 2).sum())
    assert statistic < stats.chi2.ppf(0.9995, 20)
    correlation = np.corrcoef(coins.T)[np.triu_indices(20, 1)]
    assert float((20_000 * correlation**2).sum()) < stats.chi2.ppf(0.9995, len(correlation))


def test_choices_are_distinct_and_reach_everything():
    picks = Streams(0, range(50)).at("choice").choice(6, 4)
    assert all(len(set(row.tolist())) == 4 for row in picks)
    assert set(picks.flatten().tolist()) == set(range(6))


def test_normals_are_normal_and_uniforms_uniform():
    """Kolmogorov-Smirnov tests; seed fixed. False alarms at another seed: one in 1000 each."""
    draws = Streams(3, range(4)).at("batch")
    assert stats.kstest(draws.normal(5000).flatten().numpy(), "norm").pvalue > 1e-3
    assert stats.kstest(draws.uniform(5000).flatten().numpy(), "uniform").pvalue > 1e-3


def test_replicas_purposes_and_steps_are_independent_of_each_other():
    """Correlations of 2000 normals have spread 0.022; 0.1 is 4.5 σ of each of 15 pairs: one false alarm in 10^4."""
    streams = Streams(0, range(2))
    rows = torch.cat([streams.at(purpose, step).normal(2000) for purpose, step in (("a", 0), ("a", 1), ("b", 0))])
    correlation = torch.corrcoef(rows).fill_diagonal_(0)
    assert correlation.abs().max() < 0.1
