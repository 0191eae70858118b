"""Random draws are functions of their address."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from featscope.kernels import BACKENDS, philox
from featscope.kernels.torch_words import Lanes
from featscope.streams import Streams
from kinds_of_draws import KINDS

KNOWN = [  # counters, keys and words (Random123's kat_vectors)
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]
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


@given(seed=seeds, numbers=st.lists(st.integers(0, 3), min_size=1, max_size=8))
def test_normals_drawn_once_are_those_of_every_replica(seed, numbers):
    one, other = (Streams(seed, numbers).at("batch", 2) for _ in range(2))
    once, places = one.normal_once(3, 5)
    assert len(once) == len(set(numbers))
    assert torch.equal(once[places], other.normal(3, 5))
    assert torch.equal(one.normal(2), other.normal(2))


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


@pytest.mark.parametrize(("seed", "step"), [(2**63, 0), (-(2**63) - 1, 0), (0, 2**63), (0, -(2**63) - 1)])
def test_addresses_that_would_be_others_again_are_refused(seed, step):
    with pytest.raises(ValueError, match=r"(seed|step) = -?\d+: allowed are numbers from -2⁶³ below 2⁶³"):
        Streams(seed, [0]).at("batch", step)


@pytest.mark.parametrize("replica", [-1, 2**32])
def test_replicas_whose_draws_would_be_anothers_are_refused(replica):
    with pytest.raises(ValueError, match=r"replicas = \[0, -?\d+\]: allowed are numbers from 0 to 2³² - 1"):
        Streams(0, [0, replica])


def test_no_replicas_at_all_are_refused():
    with pytest.raises(ValueError, match=r"replicas = \[\]: allowed is one number or more"):
        Streams(0, [])


@pytest.mark.parametrize(
    "draw",
    [
        lambda draws: draws.normal(-1),
        lambda draws: draws.uniform(-1, -2),
        lambda draws: draws.coins(-1),
        lambda draws: draws.signs(2, -1, chance=0.5),
        lambda draws: draws.choice(-1, 1),
        lambda draws: draws.choice(3, -1),
    ],
)
def test_negative_sizes_are_refused(draw):
    with pytest.raises(ValueError, match=r"sizes = \[.*-\d.*\]: allowed are numbers from 0"):
        draw(Streams(0, [0]).at("a"))


@given(one=addresses, other=addresses)
def test_different_addresses_draw_different_numbers(one, other):
    (x, y) = (Streams(s, [r]).at(purpose, step).normal(4) for s, r, purpose, step in (one, other))
    assert torch.equal(x, y) == (one == other)


def test_successive_calls_go_on_along_the_stream():
    draws = Streams(0, range(2)).at("batch")
    assert not torch.equal(draws.normal(8), draws.normal(8))
    one, other = (Streams(0, range(2)).at("batch") for _ in range(2))
    assert torch.equal(torch.cat([one.normal(n) for n in (12, 4, 8)], 1), other.normal(24))


def test_the_draws_of_an_address_stay_what_they_are():
    """Results that were published must stay reproducible. Where any of this changes, `METHOD` gets another name."""

    def draws():
        return Streams(7, [3]).at("batch", 11)

    bits = [0xBE329525, 0x3F79ED97, 0x3ED1F173, 0xBE07C313]
    assert [word & 0xFFFFFFFF for word in draws().normal(4).view(torch.int32)[0].tolist()] == bits
    assert draws().uniform(3).mul(2**24).int().tolist() == [[10259989, 4666309, 15289471]]
    assert draws().uniform(1, dtype=torch.float64).mul(2**32).long().tolist() == [[2626557210]]
    assert draws().coins(12).int().tolist() == [[0, 1, 0, 1, 1, 0, 0, 0, 1, 0, 1, 0]]
    assert draws().choice(9, 4).tolist() == [[5, 4, 2, 7]]
    assert draws().signs(8, chance=0.4).int().tolist() == [[0, 0, -1, -1, 0, 0, -1, 1]]


def test_words_are_those_that_random123_publishes():
    """Its known answers for Philox 4x32-10."""
    for counter, key, words in KNOWN:
        x, y = (Lanes(torch.tensor(counter[first::2])[:, None, None]) for first in (0, 1))
        keys = [Lanes(torch.tensor(of_round)[:, None, None]) for of_round in philox.round_keys(key)]
        made = torch.stack([one.words for one in philox.words(x, y, keys)], 1).flatten()
        assert [int(word) & 0xFFFFFFFF for word in made] == words


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_machine_code_and_torch_draw_the_same_bits(kind, monkeypatch):
    made = []
    for kernels in BACKENDS:
        monkeypatch.setenv("FEATSCOPE_KERNELS", kernels)
        draws = Streams(-7, [0, 1, 2**32 - 1]).at("batch", 2**40 + 3)
        made.append([KINDS[kind](draws), KINDS[kind](draws)])
    for one, other in zip(*made, strict=True):
        assert torch.equal(one, other)


def test_every_normal_is_the_same_in_machine_code_and_in_torch_and_near_the_exact_one(monkeypatch):
    """A million of them, against Box and Muller in float64 on the same words."""
    count = 2**20
    words = Streams(0, [0]).at("many")._drawn("word", count)[0].numpy().view(np.uint32)
    uniform = (words[::2].astype(np.float32) + np.float32(0.5)).astype(np.float64) / 2**32
    size, angle = np.sqrt(-2 * np.log(uniform)), 2 * np.pi * words[1::2] / 2**32
    exact = np.stack([size * np.cos(angle), size * np.sin(angle)], -1).ravel()
    made = Streams(0, [0]).at("many").normal(count)[0]
    np.testing.assert_allclose(made.numpy(), exact, atol=2e-6, rtol=0)
    monkeypatch.setenv("FEATSCOPE_KERNELS", "torch")
    assert torch.equal(Streams(0, [0]).at("many").normal(count)[0], made)


@given(kind=st.sampled_from(["normal", "uniform"]), count=st.integers(1, 70), more=st.integers(0, 70))
def test_a_draw_is_the_beginning_of_a_longer_one(kind, count, more):
    short, long = (getattr(Streams(5, range(3)).at("batch"), kind)(n) for n in (count, count + more))
    assert torch.equal(short, long[:, :count])


def test_tails_are_as_heavy_as_they_should_be():
    """Shares of 4 million normals beyond 3, 4 and 4.5, within four standard deviations."""
    sizes = Streams(1, range(4)).at("tails").normal(2**20).abs().flatten()
    for bound in (3.0, 4.0, 4.5):
        expected = 2 * stats.norm.sf(bound) * len(sizes)
        assert abs(int((sizes > bound).sum()) - expected) < 4 * expected**0.5


def test_neighbours_along_a_stream_are_independent():
    """Correlations of 200,000 normals and of their squares at lags 1 to 8: 4.5 standard deviations."""
    x = Streams(2, [0]).at("lags").normal(200_000)[0].double()
    for values in (x, x.square()):
        centred = (values - values.mean()) / values.std()
        for lag in range(1, 9):
            assert abs(float((centred[lag:] * centred[:-lag]).mean())) < 4.5 / 200_000**0.5


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


def test_uniforms_stay_below_1_in_every_type_that_is_taken():
    draws = Streams(0, range(2)).at("x")
    assert draws.uniform(10**6).max() < 1
    assert draws.uniform(10**6, dtype=torch.float64).max() < 1
    with pytest.raises(ValueError, match=r"dtype = torch.bfloat16: allowed are torch.float32 and torch.float64"):
        draws.uniform(1, dtype=torch.bfloat16)
    assert draws.signs(10**5, chance=1.0, dtype=torch.bfloat16).abs().min() == 1  # drawn in float32


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
