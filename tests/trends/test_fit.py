"""Laws whose continuation is known."""

import numpy as np
import pytest
from scipy import special

from featscope.claims.claim import verdict_of
from featscope.trends import fit_trend
from featscope.trends.ladder import on_scale
from featscope.trends.laws import LAWS, covariances
from featscope.trends.trend import Trend

SIZES = 2.0 ** np.arange(4, 10)
LAST = SIZES[-1]


def ladder(law, error=0.01, replicas=8, seed=0):
    """Replicas of ``law`` with an error relative to its value."""
    y = law(SIZES)[:, None]
    return y * (1 + error * np.random.default_rng(seed).standard_normal((len(SIZES), replicas)))


@pytest.mark.parametrize(
    "law",
    [lambda n: 3 / n, lambda n: 2 + 5 / np.sqrt(n), np.log, lambda n: 0.2 * n**0.5, lambda n: 4 + 0 * n],
    ids=["power", "limit", "logarithm", "growth", "constant"],
)
def test_the_interval_covers_the_law_and_a_verdict_far_from_it_is_right(law):
    covered = 0
    for seed in range(10):
        y = ladder(law, seed=seed)
        for factor in (4, 16):
            truth = law(factor * LAST)
            low, high = fit_trend(SIZES, y, "<=", 0.0).at(factor).interval
            covered += low <= truth <= high
            assert fit_trend(SIZES, y, "<=", 3 * truth).at(factor).verdict != "fails"
            assert fit_trend(SIZES, y, ">=", 3 * truth).at(factor).verdict != "holds"
    assert covered >= 17


def test_an_exact_power_is_continued_to_the_digit():
    trend = fit_trend(SIZES, 1 / SIZES[:, None], "<=", 1 / (4 * LAST))
    assert trend.at(16).verdict == "holds"
    assert trend.at(2).verdict == "fails"
    assert trend.at(16).interval == pytest.approx((1 / (16 * LAST),) * 2, rel=0.02)
    crossing = trend.crossing()
    assert crossing is not None
    assert crossing.median == pytest.approx(4 * LAST, rel=0.2)
    assert crossing.interval[0] > 3 * LAST
    assert trend.direction() == ("toward", 16 * LAST)


def test_growth_goes_away_from_a_bound_above_and_toward_one_below():
    y = ladder(lambda n: n**0.5)
    assert fit_trend(SIZES, y, "<=", 100.0).direction().word == "away"
    assert fit_trend(SIZES, y, ">=", 100.0).direction().word == "toward"
    assert fit_trend(SIZES, y, "=", 100.0, tolerance=1.0).direction(4).word == "toward"


def test_a_slow_term_that_turns_round_is_never_called_toward():
    turning = 2 * LAST  # where the fast term, which falls, gives way to the logarithm, which rises
    for seed in range(10):
        y = ladder(lambda n: 1 + 0.5 * turning / n + 0.5 * np.log(n), error=0.005, seed=seed)
        assert fit_trend(SIZES, y, "<=", 0.5).direction().word != "toward"


def test_nothing_is_said_below_six_sizes():
    trend = fit_trend(SIZES[:5], 1 / SIZES[:5, None], "<=", 1.0)
    assert "5 sizes" in trend.silent
    assert trend.at(4).verdict == "undecided"
    assert trend.direction().word == "cannot be told"
    assert trend.crossing() is None


def test_nothing_is_said_when_the_largest_size_was_not_foretold():
    y = ladder(lambda n: np.where(n < LAST, 1.0, 2.0))
    trend = fit_trend(SIZES, y, "<=", 10.0)
    assert trend.surprise > 3
    assert "standard errors" in trend.silent
    assert trend.at(4).verdict == "undecided"


def test_nothing_is_said_at_a_ceiling_or_where_replicas_agree():
    share = np.repeat([[0.5], [0.7], [0.9], [1.0], [1.0], [1.0]], 8, axis=1)
    assert "ceiling" in fit_trend(SIZES, share, ">=", 0.9, trials=32).silent
    assert "agree" in fit_trend(SIZES, share, ">=", 0.9).silent


def test_curves_of_shares_stay_shares_and_cover():
    def share(n):
        return 1 / (1 + 40 / n)

    rng, covered = np.random.default_rng(0), 0
    for _ in range(20):
        y = rng.binomial(SIZES[:, None].astype(int), share(SIZES)[:, None], (6, 8)) / SIZES[:, None]
        trend = fit_trend(SIZES, y, ">=", 0.5, trials=SIZES)
        assert trend.curves.min() >= 0
        assert trend.curves.max() <= 1
        low, high = trend.at(4).interval
        covered += low <= share(4 * LAST) <= high
    assert covered >= 18


def test_one_replica_is_exact_and_families_share_one():
    trend = fit_trend(SIZES, 2 + 5 / np.sqrt(SIZES[:, None]), "<=", 2.1)
    assert sum(trend.families.values()) == pytest.approx(1)
    low, high = trend.at(4).interval
    assert high - low < 0.05
    assert low < 2 + 5 / np.sqrt(4 * LAST) < high


def test_the_same_ladder_says_the_same():
    y = ladder(np.log)
    assert fit_trend(SIZES, y, "<=", 9.0).at(4) == fit_trend(SIZES, y, "<=", 9.0).at(4)


def test_what_cannot_be_a_ladder_is_refused():
    with pytest.raises(ValueError, match="ascending"):
        fit_trend(SIZES[::-1], np.ones((6, 8)), "<=", 1.0)
    with pytest.raises(ValueError, match="finite"):
        fit_trend(SIZES, np.full((6, 8), np.nan), "<=", 1.0)
    for reach in (0.5, 1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match=f"reach = {reach}: expected more than 1, and finite"):
            fit_trend(SIZES, 1 / SIZES[:, None], "<=", 1.0, reach=reach)


@pytest.mark.parametrize(
    ("sizes", "samples", "more", "said"),
    [
        ([*SIZES[:5], np.inf], 0.5, {}, "positive ones or more, ascending"),
        (SIZES, 50.0, {"trials": 32}, "samples from 50 to 50: expected trials above 0, and shares from 0 to 1"),
        (SIZES, -0.5, {"trials": 32}, "samples from -0.5 to"),
        (SIZES, 0.5, {"trials": 0}, "trials from 0"),
        (SIZES, 0.5, {"predicted": np.nan}, "predicted = nan, tolerance = 0.0: expected a number, and one >= 0"),
        (SIZES, 0.5, {"tolerance": np.nan}, "tolerance = nan"),
        (SIZES, 0.5, {"tolerance": -0.1}, "tolerance = -0.1"),
    ],
)
def test_what_would_decide_a_verdict_by_chance_is_refused(sizes, samples, more, said):
    with pytest.raises(ValueError, match=said):
        fit_trend(sizes, np.full((6, 8), samples), **{"relation": "=", "predicted": 0.5, **more})


def test_a_share_of_one_replica_is_refused():
    """It would be taken for two that agree, and its binomial error for that of twice as many things."""
    share = 1 / (1 + 40 / SIZES[:, None])
    with pytest.raises(ValueError, match=r"shape \(6, 1\): expected two replicas or more where there are trials"):
        fit_trend(SIZES, share, ">=", 0.5, trials=32)


def test_replicas_that_share_draws_across_sizes_have_correlated_errors():
    rng = np.random.default_rng(0)
    shared = 1 + 0.1 * rng.standard_normal((1, 400)) + 0.1 * rng.standard_normal((6, 400))
    error = on_scale("raw", np.log(SIZES), shared, None).error
    assert error[0, 1] / error[0, 0] == pytest.approx(0.5, abs=0.1)
    assert np.sqrt(error[0, 0]) == pytest.approx(0.1 * np.sqrt(2 / 400), rel=0.1)


def test_shares_err_as_binomials_even_where_replicas_agree():
    y = np.full((6, 8), 0.5)
    error = on_scale("logit", np.log(SIZES), y, np.full(6, 100.0)).error
    assert np.sqrt(error[0, 0]) == pytest.approx(2 / np.sqrt(800), rel=1e-6)


def test_priors_sum_to_one_and_covariances_are_covariances():
    assert sum(law.prior for law in LAWS) == pytest.approx(1)
    each = covariances(tuple(np.log(SIZES)), (float(np.log(4 * LAST)),))
    assert each.shape == (len(LAWS), 7, 7)
    assert np.linalg.eigvalsh(each).min() > -1e-9 * np.abs(each).max()


def test_a_strict_bound_at_the_end_of_the_range_can_fail():
    sizes, curves = np.array([1.0, 4.0, 16.0]), np.tile([1.0, 0.0, 0.0], (100, 1))  # cut at 0
    strict, not_strict = (Trend(sizes, curves, relation, 0.0, 0.0, {}, 0.0) for relation in (">", ">="))
    assert (strict.at(16).verdict, strict.crossing().median) == ("fails", 4.0)
    assert (not_strict.at(16).verdict, not_strict.crossing().median) == ("holds", np.inf)


def trend(curves, relation, tolerance=0.0, sizes=(1.0, 4.0, 16.0), bound=1.0):
    return Trend(np.array(sizes), np.array(curves, float), relation, bound, tolerance, {}, 0.0)


def test_draws_on_both_sides_of_a_bound_are_undecided():
    assert trend(np.repeat([[1, 0, 0], [1, 2, 2]], 50, 0), "<=").at(16).verdict == "undecided"


@pytest.mark.parametrize(
    ("inside", "verdict"), [(95, "holds"), (94, "undecided"), (6, "undecided"), (5, "fails"), (100, "holds")]
)
def test_of_a_hundred_draws_ninety_five_decide(inside, verdict):
    found = trend([[1, 1, 0]] * inside + [[1, 1, 2]] * (100 - inside), "<=").at(16)
    assert (found.verdict, found.probability) == (verdict, inside / 100)


def test_the_band_holds_90_percent_of_draws():
    middle, low, high = trend(np.arange(101)[:, None] * [0, 1, 2], "<=").band()
    np.testing.assert_allclose([low, middle, high], [[0, 5, 10], [0, 50, 100], [0, 95, 190]], atol=1e-9)


@pytest.mark.parametrize("relation", ["<=", "<", ">=", ">", "="])
def test_a_verdict_is_what_the_interval_beside_it_says(relation):
    rng = np.random.default_rng(0)
    said = set()
    for bound in rng.normal(size=40):
        found = trend(rng.normal(size=(200, 3)) * 0.3, relation, bound=bound, tolerance=0.6).at(4)
        said.add(found.verdict)
        assert found.verdict == verdict_of(found.interval, relation, bound, 0.6)
    assert said == {"holds", "fails", "undecided"}


@pytest.mark.parametrize(("replicas", "covers"), [(2, 0.84), (3, 0.88), (4, 0.9), (8, 0.93)])
def test_few_replicas_tell_of_a_share_what_they_can(replicas, covers):
    """Shares of 1,000 things that go together, at 0.9 whatever the size."""
    rng, covered, said = np.random.default_rng(1), 0, 0
    for seed in range(80):
        of_replica = rng.beta(8.1, 0.9, (6, replicas))
        shares = rng.binomial(1000, of_replica) / 1000
        found = fit_trend(SIZES, shares, ">=", 0.9, trials=1000, within=(0.0, 1.0), draws=1000, seed=seed)
        if not found.silent:
            low, high = found.at(4).interval
            said, covered = said + 1, covered + (low <= 0.9 <= high)
    assert covered >= (covers - 0.06) * said
    assert said > 60


def test_an_equation_fails_on_either_side():
    rising = trend(np.tile([1, 2, 3], (100, 1)), "=", 0.1)
    assert [rising.at(size).verdict for size in (1, 16)] == ["holds", "fails"]


def test_a_crossing_has_the_middle_90_percent_of_draws():
    sizes = np.arange(1.0, 102.0)
    crossing_at_each = sizes >= np.arange(2, 102)[:, None]
    assert trend(crossing_at_each, "<=", sizes=sizes, bound=0.5).crossing().interval == (7.0, 96.0)


def test_a_bend_is_an_integrated_random_walk_over_the_logarithm():
    found = covariances(tuple(np.log([1.0, 2.0, 4.0, 8.0])), ())
    one, other = [k for k, law in enumerate(LAWS) if law.powers == LAWS[0].powers][:2]
    walk = (found[one] - found[other]) / (LAWS[one].bend ** 2 - LAWS[other].bend ** 2)
    np.testing.assert_allclose(walk[1:, 1:], [[1 / 3, 5 / 6, 8 / 6], [5 / 6, 8 / 3, 14 / 3], [8 / 6, 14 / 3, 9]])


@pytest.mark.parametrize("law", [lambda n: 3 / n, lambda n: 2 + 5 / np.sqrt(n)], ids=["power", "limit"])
def test_units_of_the_measurement_do_not_matter(law):
    """Densities on both scales are of the measurement, so that neither gains where all is a thousand times as much."""
    y = ladder(law)
    one, thousand = (fit_trend(SIZES, factor * y, "<=", factor * 1.0) for factor in (1.0, 1000.0))
    assert thousand.families == pytest.approx(one.families, abs=1e-6)
    assert thousand.at(4).interval == pytest.approx(tuple(1000 * end for end in one.at(4).interval), rel=1e-3)


def test_sizes_at_a_ceiling_do_not_tell_that_things_of_others_do_not_go_together():
    """Four sizes all of whose things are so, and two where they go together."""
    rng = np.random.default_rng(0)
    shares = np.ones((6, 8))
    shares[4:] = rng.binomial(1000, rng.beta(8.1, 0.9, (2, 8))) / 1000
    found = on_scale("logit", np.log(SIZES), shares, np.full(6, 1000.0))
    logits = special.logit(shares[4:].clip(1e-3, 1 - 1e-3))
    plain = logits.std(axis=1, ddof=1) / np.sqrt(8)
    assert (np.sqrt(found.error.diagonal()[4:]) > plain / 4).all()
