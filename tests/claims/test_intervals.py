"""Intervals and exponents."""

from math import inf, nan

import jaxtyping
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from featscope.claims import fitted_exponent, interval_of_mean
from featscope.claims.intervals import (
    _skewness,
    draws_for_extremes,
    interval,
    interval_of_binomial,
    interval_of_share,
    interval_where_all_agree,
    pooled,
    quantile,
)
from featscope.claims.likelihood import likely_shares


def test_intervals_cover_the_mean_as_often_as_they_say():
    """4000 intervals at 95 %: the share covered has spread 0.0034; 4 σ, one false alarm in 10^4."""
    samples = np.random.default_rng(0).normal(3.0, 2.0, size=(4000, 5))
    intervals = [interval_of_mean(row, level=0.95) for row in samples]
    assert np.mean([low <= 3 <= high for low, high in intervals]) == pytest.approx(0.95, abs=0.014)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=9), st.floats(-50, 50), st.floats(0.1, 9))
def test_intervals_of_what_has_no_ends_move_and_stretch_with_the_samples(samples, shift, scale):
    low, high = interval_of_mean(np.array(samples))
    moved = interval_of_mean(scale * np.array(samples) + shift)
    assert moved == pytest.approx((scale * low + shift, scale * high + shift), rel=1e-6, abs=1e-6)


def test_equal_samples_leave_no_doubt():
    assert interval_of_mean(np.full(8, 0.25)) == (0.25, 0.25)


@pytest.mark.parametrize("samples", [[1.0], [1.0, nan], [1.0, inf], []])
def test_without_two_finite_samples_anything_is_possible(samples):
    assert interval_of_mean(np.array(samples)) == (-inf, inf)


def test_samples_of_another_shape_are_refused(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses them first, in tests alone
    with pytest.raises(ValueError, match=r"samples have shape \(2, 3\); expected one value a replica"):
        interval_of_mean(np.zeros((2, 3)))


@given(st.integers(3, 60), st.floats(0.5, 0.9999), st.floats(0.01, 50), st.floats(0.01, 50), st.integers(0, 99))
def test_quantiles_and_skewness_are_those_of_scipy_stats(n, level, successes, failures, seed):
    """The general functions there are an independent way to the same; they look at their arguments for long."""
    assert quantile(n, level) == pytest.approx(stats.t.ppf(0.5 + level / 2, n - 1), rel=1e-12)
    low, high = interval_of_binomial(successes, successes + failures, level)
    assert low == pytest.approx(stats.beta.ppf((1 - level) / 2, successes, failures + 1), rel=1e-9)
    assert high == pytest.approx(stats.beta.isf((1 - level) / 2, successes + 1, failures), rel=1e-9)
    samples = np.random.default_rng(seed).exponential(size=n)
    assert _skewness(samples) == pytest.approx(float(stats.skew(samples, bias=False)), rel=1e-12, abs=1e-12)


# --- laws -----------------------------------------------------------------------------------------------------------


def missed(draw, truth, law="mean", replicas=8, times=3000, **options) -> float:
    """How often the interval of ``law`` misses ``truth``, as a share."""
    random = np.random.default_rng(0)
    found = [interval(draw(random, replicas), law, **options) for _ in range(times)]
    return float(np.mean([not low <= truth <= high for low, high in found]))


def test_skewed_means_are_missed_less_often_than_student_s_interval_does():
    """Student's misses 4.9 and 9.4 in a hundred at 99 %; spread of the shares is .4 and .5 points."""
    assert missed(lambda random, n: random.exponential(size=n), 1.0) < 0.04
    assert missed(lambda random, n: random.exponential(size=n), 1.0, within=(0.0, inf)) < 0.012
    assert missed(lambda random, n: random.lognormal(size=n), np.exp(0.5), within=(0.0, inf)) < 0.03


def test_means_near_an_end_of_their_range_are_missed_less_often_than_student_s_interval_does():
    """A Beta(8, 1/2) quantity: Student's misses 7.6 in a hundred."""
    assert missed(lambda random, n: random.beta(8, 0.5, size=n), 8 / 8.5, within=(0.0, 1.0)) < 0.03


@pytest.mark.parametrize("p", [0.8, 0.95, 0.99])
def test_a_yes_or_no_is_covered_at_every_probability(p):
    """Student's misses 17 to 90 in a hundred."""
    assert missed(lambda random, n: (random.random(n) < p).astype(float), p, "yes/no") <= 0.01


def shares(p: float, together: float, things: int):
    """How many of ``things`` are so, with their correlation within a replica: its own probability follows a Beta."""

    def draw(random, n):
        strength = (1 - together) / together if together else 0.0
        own = random.beta(p * strength, (1 - p) * strength, size=n) if together else np.full(n, p)
        return random.binomial(things, own) / things

    return draw


@pytest.mark.parametrize(("p", "together"), [(0.5, 0.0), (0.95, 0.0), (0.9, 0.3)])
def test_shares_are_covered_also_where_things_of_a_replica_go_together(p, together):
    """At 99 %; the spread of what is found is half a point, and .4 in a hundred are missed (docs/coverage.md)."""
    assert missed(shares(p, together, 12), p, "share", times=300, trials=[12.0] * 8) <= 0.02


def test_draws_are_covered_though_they_are_a_share_where_replicas_differ():
    assert missed(shares(0.95, 0.0, 100), 0.95, "draws", trials=[100.0] * 8) <= 0.015


def test_shares_are_covered_where_nearly_all_of_many_things_are_so_and_the_others_come_together():
    """1.3 in a hundred; where the spread over replicas alone counts it is 13 (docs/coverage.md)."""
    assert missed(shares(0.95, 0.3, 1000), 0.95, "share", times=150, trials=[1000.0] * 8) <= 0.04


def test_likely_shares_are_those_whose_likelihood_is_large_enough():
    """All of it, on a grid, with the law as scipy.stats has it."""
    so, trials = np.array([30, 32, 28, 7, 31]), np.array([32, 32, 32, 8, 32])
    share, together = special.expit(np.linspace(-3, 8, 441))[:, None], special.expit(np.linspace(-9, 9, 721))
    law = [
        stats.betabinom.logpmf(k, n, share / together - share, 1 / together - 1 - share / together + share)
        for k, n in zip(so, trials, strict=True)
    ]
    likely = (np.sum(law, axis=0) + np.log((1 - together) ** 2 + 0.01)).max(axis=1)
    t = stats.t.ppf(0.995, 4)
    inside = share[likely >= likely.max() - 5 / 2 * np.log(1 + t**2 / 4), 0]
    counts = tuple(((float(k), float(n)), 1) for k, n in zip(so, trials, strict=True))
    assert likely_shares(counts, 5 / 2 * np.log(1 + t**2 / 4)) == pytest.approx((inside[0], inside[-1]), abs=2e-3)


@given(st.lists(st.integers(0, 12), min_size=2, max_size=6), st.integers(12, 400))
def test_the_interval_of_what_is_not_so_is_the_rest(so, things):
    found, trials = np.array(so) / things, np.full(len(so), float(things))
    low, high = interval_of_share(found, trials)
    assert 0 <= low <= found.mean() <= high <= 1
    assert interval_of_share(1 - found, trials) == pytest.approx((1 - high, 1 - low), abs=1e-3)


def test_agreement_of_all_replicas_is_not_certainty():
    """8 of 8: .515669 is (.005)^(1/8), Clopper and Pearson's end; things help, and replicas help more."""
    assert interval(np.ones(8), "yes/no") == (pytest.approx(0.005 ** (1 / 8)), 1.0)
    assert interval_of_share(np.ones(8), np.full(8, 1.0)) == (pytest.approx(0.005 ** (1 / 8)), 1.0)
    low = {(n, things): interval_of_share(np.ones(n), np.full(n, things))[0] for n in (8, 12) for things in (32.0, 1e3)}
    assert low[8, 32] < low[8, 1e3] < low[12, 32] < low[12, 1e3] < 0.97


@pytest.mark.parametrize("n", [24, 27, 100])
def test_numbers_of_things_that_are_not_whole_make_no_share_of_more_than_all(n):
    assert interval_of_share(np.ones(n), np.full(n, 421 / n))[0] > 0.95
    assert pooled(np.ones(n), np.full(n, 421 / n)) == 1.0


def test_a_replica_that_counted_nothing_says_nothing():
    assert interval_of_share(np.array([1.0, nan]), np.array([3.0, 0.0])) == (0.0, 1.0)
    assert interval_of_share(np.array([1.0]), np.array([30.0])) == (0.0, 1.0)
    assert interval(np.array([1.0, nan]), "yes/no") == (0.0, 1.0)


@given(st.integers(1, 40), st.floats(0, 1))
def test_an_interval_of_a_probability_holds_what_was_seen_and_stays_in_range(n, share):
    low, high = interval_of_binomial(share * n, n)
    assert 0 <= low <= share + 1e-12
    assert share - 1e-12 <= high <= 1


def test_the_worst_draw_speaks_for_all_but_a_tenth_from_44_on():
    """.9^44 = .0097 is the chance to see no exception where a tenth of draws are."""
    assert draws_for_extremes() == 44
    few, enough = np.linspace(0, 1, 43), np.linspace(0, 1, 44)
    assert interval(few, "extreme") == (1.0, inf)
    assert interval(few, "extreme", upwards=False, within=(-3.0, inf)) == (-3.0, 0.0)
    assert interval(enough, "extreme") == (1.0, 1.0)
    assert interval(few[:11], "extreme", trials=[4.0] * 11)[1] == few[10]


def test_where_no_chance_enters_the_worst_replica_counts():
    assert interval(np.array([0.0, 2.0, 1.0]), "exact") == (2.0, 2.0)
    assert interval(np.array([0.0, 2.0, nan]), "exact") == (-inf, inf)


def test_a_bounded_mean_over_things_that_all_agree_has_the_width_of_what_was_not_seen():
    low, high = interval(np.zeros(8), "mean", trials=[16.0] * 8, within=(-1.0, 1.0))
    assert (low, high) == interval_where_all_agree(0.0, np.full(8, 16.0), (-1.0, 1.0))
    assert -0.11 < low < 0 < high < 0.11
    assert interval(np.zeros(8), "mean", trials=[16.0] * 8) == (0.0, 0.0)  # without ends nothing is known


@given(st.floats(-3, 3), st.floats(0.01, 100))
def test_the_exponent_of_a_power_law(exponent, factor):
    x = np.array([0.5, 1.0, 2.0, 7.0])
    y = np.stack([factor * x**exponent, x])
    assert fitted_exponent(x, y) == pytest.approx([exponent, 1.0], abs=1e-9)


def test_what_is_not_positive_has_no_exponent():
    x, y = np.array([1.0, 2.0]), np.array([[0.0, 1.0], [-1.0, 1.0], [1.0, 2.0]])
    found = fitted_exponent(x, y)
    assert np.isnan(found[:2]).all()
    assert found[2] == pytest.approx(1.0)


def test_independent_draws_count_alike_whichever_replica_they_are_of():
    found = interval(np.array([29 / 30, 1.0]), "draws", trials=[30.0, 90.0])
    assert found == interval_of_binomial(119, 120)
    assert interval(np.array([0.9]), "draws", trials=[200.0]) == interval_of_binomial(180, 200)
    assert interval(np.array([0.9, nan]), "draws", trials=[200.0, 0.0]) == (0.0, 1.0)


SKEWED = np.array([1.0, 2.0, 3.0, 4.0, 20.0])


def test_the_correction_for_skewness_is_johnson_s():
    t, deviation = stats.t.ppf(0.995, 4), SKEWED.std(ddof=1)
    half = t * deviation / 5**0.5
    shift = stats.skew(SKEWED, bias=False) * deviation * (1 + 2 * t**2) / 30
    assert interval_of_mean(SKEWED) == pytest.approx((SKEWED.mean() - half, SKEWED.mean() + half + shift))


@pytest.mark.parametrize("unit", [1e-120, 1e-108, 1e105, 1e110])
def test_an_interval_has_the_unit_of_its_samples(unit):
    assert interval_of_mean(SKEWED * unit) == pytest.approx([unit * end for end in interval_of_mean(SKEWED)])


def test_what_has_a_lower_end_only_reaches_as_far_as_cox_s():
    logs = np.log(SKEWED)
    t, variance = stats.t.ppf(0.995, 4), logs.var(ddof=1)
    upper = np.exp(logs.mean() + variance / 2 + t * (variance / 5 + variance**2 / 8) ** 0.5)
    assert interval_of_mean(SKEWED, within=(0.0, inf))[1] == pytest.approx(upper)


def test_things_that_were_not_seen_may_lie_at_either_end():
    trials = np.full(8, 16.0)
    _, otherwise = interval_of_share(np.zeros(8), trials)
    found = interval_where_all_agree(0.75, trials, (0.0, 1.0))
    assert found == pytest.approx((0.75 - 0.75 * otherwise, 0.75 + 0.25 * otherwise))


@pytest.mark.parametrize("mirrored", [False, True])
def test_shares_that_reach_an_end_are_drawn_in_before_their_logits_have_student_s_interval(mirrored):
    shares = np.array([0.96, 0.97, 0.98, 0.99, 1.0])
    drawn_in = (4 * shares + 0.5) / 5
    logits = np.log(drawn_in / (1 - drawn_in))
    least = 1 / (1 + np.exp(stats.t.ppf(0.995, 4) * logits.std(ddof=1) / 5**0.5 - logits.mean()))
    low, high = interval_of_mean(1 - shares if mirrored else shares, within=(0.0, 1.0))
    assert (1 - high if mirrored else low) == pytest.approx(least)


def test_an_upper_end_alone_tells_of_skewness_as_a_lower_one_does():
    samples = np.random.default_rng(0).lognormal(size=8)
    low, high = interval_of_mean(samples, within=(0.0, np.inf))
    assert interval_of_mean(-samples, within=(-np.inf, 0.0)) == pytest.approx((-high, -low))
    assert high > interval_of_mean(samples)[1]
