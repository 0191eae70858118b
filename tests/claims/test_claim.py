"""Verdicts are arithmetic."""

import json
from dataclasses import replace
from math import inf, nan

import jaxtyping
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from featscope.claims import LEVEL, Claim, how_many_hold
from featscope.claims.intervals import interval_of_binomial


def claim(relation: str, interval: tuple[float, float], tolerance: float = 0.0, measured: float = 1.0) -> Claim:
    fields = {"id": "id", "source": "", "statement": "", "kind": "bound", "arm": "a", "predicted": 1.0, "n": 2}
    return Claim(**fields, relation=relation, tolerance=tolerance, measured=measured, interval=interval)


@pytest.mark.parametrize(
    ("relation", "tolerance", "interval", "verdict"),
    [
        ("=", 0.1, (0.95, 1.05), "holds"),
        ("=", 0.1, (0.9, 1.1), "holds"),
        ("=", 0.1, (0.85, 1.05), "undecided"),
        ("=", 0.1, (0.95, 1.15), "undecided"),
        ("=", 0.1, (0.5, 1.5), "undecided"),
        ("=", 0.1, (1.2, 1.5), "fails"),
        ("=", 0.1, (0.5, 0.8), "fails"),
        ("=", 0.0, (1.0, 1.0), "holds"),
        ("<", 0.0, (0.5, 0.9), "holds"),
        ("<", 0.0, (0.5, 1.0), "undecided"),
        ("<", 0.0, (1.0, 1.2), "fails"),
        (">", 0.0, (1.1, 1.2), "holds"),
        (">", 0.0, (1.0, 1.0), "fails"),
        ("<=", 0.0, (0.5, 1.0), "holds"),
        ("<=", 0.0, (0.5, 1.1), "undecided"),
        ("<=", 0.0, (1.1, 1.2), "fails"),
        (">=", 0.0, (1.0, 1.1), "holds"),
        (">=", 0.0, (0.9, 1.1), "undecided"),
        (">=", 0.0, (0.5, 0.9), "fails"),
        (">=", 0.0, (-inf, inf), "undecided"),
    ],
)
def test_the_verdict_follows_from_interval_and_prediction(relation, tolerance, interval, verdict):
    assert claim(relation, interval, tolerance).verdict == verdict


@pytest.mark.parametrize("relation", ["=", "<=", ">="])
@pytest.mark.parametrize("measured", [nan, inf, -inf])
def test_what_is_not_finite_is_undecided(relation, measured):
    assert claim(relation, (measured, measured), measured=measured).verdict == "undecided"


finite = st.floats(-100, 100)


@given(finite, finite, finite, st.floats(0, 10))
def test_a_wider_interval_never_decides_more_and_at_most_mirrors_at_least(a, b, predicted, tolerance):
    low, high = sorted((a, b))

    def verdict(relation: str, interval: tuple[float, float], at: float = predicted) -> str:
        fields = {"id": "", "source": "", "statement": "", "kind": "bound", "arm": "", "n": 2, "measured": 0.0}
        return Claim(**fields, relation=relation, tolerance=tolerance, predicted=at, interval=interval).verdict

    for relation in ("=", "<=", ">="):
        assert verdict(relation, (low - 1, high + 1)) in ("undecided", verdict(relation, (low, high)))
    assert verdict("<=", (low, high)) == verdict(">=", (-high, -low), -predicted)


def judged(samples, relation: str, predicted: float, tolerance: float = 0.0, **more) -> Claim:
    about = {"id": "id", "source": "Theorem 1", "statement": "Something.", "kind": "bound", "arm": "x"}
    law = "exact" if np.ndim(samples) == 0 else "mean"
    return Claim.from_samples(samples, relation, predicted, tolerance, **{**about, "law": law, **more})


def test_samples_are_judged_by_their_mean_over_replicas_with_its_interval():
    """t quantile at 99 % with 3 degrees of freedom: 5.8409 (any table). Samples are not skewed."""
    made = judged(np.array([1.0, 2.0, 3.0, 4.0]), ">=", 0.5, note="Because.")
    half = 5.8409 * np.std([1, 2, 3, 4], ddof=1) / 2
    assert made.measured == 2.5
    assert made.interval == pytest.approx((2.5 - half, 2.5 + half), rel=1e-4)
    assert (made.n, made.verdict, made.relation, made.predicted) == (4, "undecided", ">=", 0.5)
    assert (made.id, made.source, made.statement, made.arm, made.note) == (
        "id",
        "Theorem 1",
        "Something.",
        "x",
        "Because.",
    )
    assert made.values == (1, 2, 3, 4)
    assert made.expected


@pytest.mark.parametrize("samples", [[1.0, 2.0], np.array([1, 2]), xr.DataArray([1.0, 2.0], dims="replica")])
def test_samples_may_be_anything_that_looks_like_an_array(samples):
    made = judged(samples, "<=", 3)
    assert (made.values, made.measured, made.n, type(made.predicted)) == ((1.0, 2.0), 1.5, 2, float)


def test_samples_have_one_axis(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses them first, in tests alone
    with pytest.raises(ValueError, match=r"\(2, 3\)"):
        judged(np.zeros((2, 3)), "<=", 1.0)


@pytest.mark.parametrize("number", [1, 1.0, np.float32(1), np.array(1.0), xr.DataArray(1.0)])
def test_a_single_number_is_deterministic_and_a_single_replica_is_not(number):
    made = judged(number, "=", 1.0)
    assert (made.verdict, made.interval, made.n, made.values) == ("holds", (1.0, 1.0), 1, ())
    alone = judged(np.array([1.0]), "=", 1.0, 0.5)
    assert (alone.verdict, alone.interval, alone.n, alone.values) == ("undecided", (-inf, inf), 1, (1.0,))


numbers = st.one_of(finite, st.sampled_from([nan, inf, -inf]))


@given(
    st.one_of(st.lists(numbers, min_size=1, max_size=5).map(np.array), numbers),
    numbers,
    st.sampled_from(["=", ">=", "<=", ">", "<"]),
    st.sampled_from([(-inf, inf), (0.0, inf), (-1.0, 1.0)]),
)
def test_json_keeps_the_verdict_and_everything_that_is_finite(samples, predicted, relation, ends):
    more = {"title": "Plainly", "measures": "how much.", "range": ends, "expected": False}
    samples = np.clip(samples, *ends)
    made = judged(samples, relation, predicted, 0.5 if relation == "=" else 0.0, **more)
    plain = json.loads(json.dumps(made.to_json(), allow_nan=False))
    back = Claim.from_json(plain)
    assert plain["verdict"] == made.verdict
    assert (plain["title"], plain["measures"], back.range) == ("Plainly", "how much.", ends)
    np.testing.assert_array_equal(np.isnan(back.values), ~np.isfinite(made.values))
    if np.isfinite(np.append(samples, predicted)).all():
        assert back == made
        assert back.verdict == made.verdict


def test_ranges_without_an_end_are_null_in_json():
    plain = judged(np.array([1.0, nan]), ">=", 0.0, range=(0.0, inf)).to_json()
    assert (plain["range"], plain["values"], plain["measured"]) == ([0.0, None], [1.0, None], None)


def test_claims_that_were_stored_without_title_and_values_are_read():
    old = {k: v for k, v in judged([1.0, 2.0], ">=", 0.5).to_json().items() if k not in NEW}
    back = Claim.from_json(old)
    assert (back.title, back.measures, back.range, back.values) == ("", "", (-inf, inf), ())
    assert back.measured == 1.5


NEW = {"title", "measures", "range", "values", "law", "trials", "error", "freedom"}


def test_what_every_replica_measured_alike_is_no_verdict_where_chance_enters():
    alike = judged(np.ones(8), ">=", 0.9)
    assert (alike.interval, alike.verdict, alike.replicas_needed) == ((1.0, 1.0), "undecided", None)
    assert alike.undecided_because.startswith("Every replica measured the same")
    assert judged(np.ones(8), ">=", 0.9, law="exact").verdict == "holds"
    assert judged(np.ones(8), ">=", 0.9, law="share", trials=np.full(8, 30)).verdict == "holds"


@pytest.mark.parametrize(
    ("samples", "measured", "verdict"),
    [
        ([0.97, 1.02, 1.0], 0.97, "holds"),
        ([0.98, 1.03, 1.0], 1.03, "holds"),
        ([0.9, 1.02, 1.0], 0.9, "fails"),
        ([0.98, 1.1, 1.0], 1.1, "fails"),
        ([0.75, 1.25, 1.0], 1.25, "fails"),
    ],
)
def test_an_equation_without_chance_is_judged_by_the_replica_that_is_farthest_from_it(samples, measured, verdict):
    made = judged(samples, "=", 1.0, 0.05, law="exact")
    assert (made.measured, made.interval, made.verdict) == (measured, (measured, measured), verdict)


def test_why_there_is_no_verdict_is_said():
    def why(samples, **more):
        return judged(samples, ">=", 0.9, **more).undecided_because

    assert why(np.array([0.8, 1.0])) == "The interval has values on both sides of the bound."
    assert why(np.array([1.0])).startswith("One replica gives no interval")
    assert why(np.array([nan, 1.0])).startswith("1 of 2 replicas measured nothing finite")
    assert why(np.array([nan, nan])).startswith("Nothing finite")
    assert why(np.array([2.0, 1.0]), law="extreme") == "No exception in 2 draws; 44 without one would decide."
    assert why(np.array([1.0, 1.0]), law="share", trials=[3, 0]) == "Some replica had nothing to count."
    assert why(np.array([1.0, 1.01, 1.02, 1.03])) == ""


def test_one_exception_refutes_what_is_said_of_every_draw():
    broken = judged(np.array([1.0, 2.0, -0.1]), ">=", 0.0, law="extreme", trials=[9, 9, 9])
    assert (broken.measured, broken.verdict, broken.p_value) == (-0.1, "fails", 0.0)
    kept = judged(np.array([1.0, 2.0, 0.1]), ">=", 0.0, law="extreme", trials=[9, 9, 9])
    assert (kept.verdict, kept.replicas_needed) == ("undecided", 5)
    assert judged(np.ones(5), ">=", 0.0, law="extreme", trials=[9] * 5).verdict == "holds"


def test_a_share_is_of_all_things_and_not_the_mean_of_shares():
    made = judged(np.array([1.0, 0.0]), ">=", 0.5, law="share", trials=[3, 1])
    assert (made.measured, made.trials, made.range) == (0.75, (3, 1), (0, 1))
    judged(np.array([1 + 1e-9, nan]), ">=", 0.5, law="share", trials=[3, 1])  # rounding, and what diverged


@pytest.mark.parametrize(
    ("samples", "more", "says"),
    [
        (1.0, {"law": "mean"}, 'say law="exact" if no chance enters'),
        (np.ones(3), {"law": "share"}, "how many things each replica counted"),
        (np.array([0.5, 1.0]), {"law": "yes/no"}, "0.5 in some replica: allowed is 0 or 1"),
        (np.array([7.0, 8, 6, 8]), {"law": "share", "trials": [8] * 4}, "8 in some replica: allowed is 0 to 1."),
        (np.array([0.5, -0.1]), {"law": "share", "trials": [8] * 2}, "-0.1 in some replica: allowed is 0 to 1"),
    ],
)
def test_a_law_that_cannot_be_is_refused(samples, more, says):
    with pytest.raises(ValueError, match=says):
        judged(samples, ">=", 0.5, **more)


def test_samples_outside_of_their_range_have_an_interval_that_begins_before_it_ends():
    made = judged(np.array([-9.0, -9.1, -8.9, -9.05]), ">=", 0.0, range=(0.0, inf))
    low, high = made.interval
    assert low < made.measured < high
    assert made.verdict == "fails"
    assert made.p_value == replace(made, range=(-inf, inf)).p_value
    assert made.within == (-inf, inf)
    assert judged(np.array([9.0, 9.1]), ">=", 0.0, range=(0.0, inf)).within == (0.0, inf)
    assert judged(-9.0, ">=", 0.0, range=(0.0, inf)).within == (-inf, inf)


def test_what_cannot_be_does_not_hold():
    """An accuracy of 1.3 is no good one."""
    broken = judged(np.array([1.3, 1.31, 1.32, 1.29]), ">=", 0.9, range=(0.0, 1.0))
    assert broken.verdict == "undecided"
    assert broken.undecided_because == "It measured 1.3, outside of what it can be, 0 to 1."
    assert broken.replicas_needed is None
    assert judged(np.array([1.3, 1.31, 1.32, 1.29]), "<=", 0.9, range=(0.0, 1.0)).verdict == "fails"
    assert judged(np.array([0.93, 0.95, 0.94, 0.93]), ">=", 0.9, range=(0.0, 1.0)).verdict == "holds"


@pytest.mark.parametrize("law", ["mean", "share", "yes/no"])
def test_the_p_value_is_where_the_verdict_is_lost(law):
    values = np.array([1.0, 1.0, 1.0, 0.0] * 12) if law == "yes/no" else np.linspace(0.7, 0.9, 8)
    made = judged(values, ">=", 0.45, law=law, trials=[20] * 8 if law == "share" else ())
    assert made.verdict == "holds"
    p = made.p_value
    assert 0 < p < 1 - LEVEL
    assert made._interval_at(1 - 1.05 * p)[0] >= 0.45 > made._interval_at(1 - 0.95 * p)[0]
    assert judged(np.linspace(0.3, 0.9, 8), ">=", 0.6).p_value == 1.0  # undecided


def test_replicas_needed_follow_the_law():
    """Of a yes or no, (.005)^(1/51) is the first above .9."""
    assert judged(np.ones(8), ">=", 0.9, law="yes/no").replicas_needed == 51
    few = judged(np.array([1.0, 0.9, 1.0, 0.95]), ">=", 0.9, law="share", trials=[20] * 4)
    more = judged(
        np.tile(few.values, 8)[: few.replicas_needed], ">=", 0.9, law="share", trials=[20] * few.replicas_needed
    )
    assert (few.verdict, more.verdict) == ("undecided", "holds")


@pytest.mark.parametrize("range", [(-np.inf, np.inf), (0.0, 1.0), (0.0, np.inf)])
@pytest.mark.parametrize("samples", [[0.2, 0.8], [0.2, 0.5, 0.8]])
def test_replicas_needed_do_not_depend_on_where_the_interval_was_cut(samples, range):
    free = judged(samples, ">=", 0.4).replicas_needed
    assert judged(samples, ">=", 0.4, range=range).replicas_needed == free > 100


def test_two_replicas_far_from_the_bound_need_one_more_and_do_not_lie_at_it():
    assert judged([0.8, 1.3], "<=", 200.0, range=(0.0, np.inf)).replicas_needed == 3


def test_replicas_needed_of_a_mean_on_which_all_agree_are_those_that_its_interval_needs():
    def made(n):
        return judged(np.zeros(n), "=", 0.0, 0.02, trials=[16] * n, range=(-1.0, 1.0))

    assert made(8).replicas_needed == 32
    assert [made(n).verdict for n in (8, 31, 32)] == ["undecided", "undecided", "holds"]
    assert judged(np.zeros(8), "=", 0.0, 0.02, trials=[16] * 8).replicas_needed is None


def test_of_a_stored_share_without_its_values_nothing_more_is_known():
    old = replace(judged(np.array([0.5, 1.0]), ">=", 0.9, law="share", trials=[3, 3]), values=(), trials=())
    assert (old.verdict, old.replicas_needed, old.p_value) == ("undecided", None, 1.0)


def test_how_many_hold_is_said_of_those_that_are_expected_to():
    holds, fails, undecided = (judged(number, ">=", 0.0) for number in (1.0, -1.0, nan))
    unexpected = judged(1.0, ">=", 0.0, expected=False)
    said = how_many_hold([holds, holds, fails, undecided, unexpected])
    without = "cannot be judged: some replica, or all, measured nothing finite."
    assert said == f"2 of the 4 claims expected to hold at this size do. 1 {without}"
    in_part = judged(np.array([1.0, nan, 1.0]), ">=", 0.0)
    assert how_many_hold([undecided, in_part]) == f"0 of the 2 claims expected to hold at this size do. 2 {without}"
    assert how_many_hold([holds, fails]) == "1 of the 2 claims expected to hold at this size do."
    assert how_many_hold([]) == ""
    assert how_many_hold([unexpected]) == "No claim is expected to hold at this size."


def test_replicas_needed_are_those_after_which_the_interval_ends_at_the_bound():
    about = {"id": "a", "source": "", "statement": "", "kind": "bound", "arm": ""}
    near = Claim.from_samples(np.random.default_rng(3).normal(1.0, 0.5, 6), "<=", 1.3, **about)
    assert near.verdict == "undecided"
    gap, spread = abs(1.3 - near.measured), np.std(near.values, ddof=1)
    enough = next(n for n in range(7, 2000) if stats.t.ppf(0.5 + LEVEL / 2, n - 1) * spread / np.sqrt(n) <= gap)
    assert enough <= near.replicas_needed <= 3 * enough  # the spread of six is little known, and taken to be larger
    assert replace(near, predicted=near.measured).replicas_needed is None  # it lies at the bound
    assert replace(near, predicted=inf).replicas_needed is None
    assert replace(near, relation="=", tolerance=inf).replicas_needed is None
    assert Claim.from_samples([1.0], "<=", 1.3, **about).replicas_needed is None
    assert Claim.from_samples([1.0, 1.01, 0.99], "<=", 1.3, **about).replicas_needed == 3  # decided already


def test_a_range_is_as_wide_as_rounding_of_what_was_measured():
    """Not of 1: measured in other units it is the same."""
    values = np.array([-2e-7, -2.3e-7, -2.6e-7, -3e-7])
    for scale in (1.0, 1e3):
        made = judged(scale * values, ">=", 0.0, range=(0.0, inf))
        assert made.interval[0] < made.interval[1]
        assert made.verdict == "fails"
    rounded = judged(np.array([1 + 1e-9, 1.0, 1 - 1e-9]), "<=", 1.0, range=(0.0, 1.0))
    assert rounded.interval[1] <= 1


def test_draws_of_a_replica_that_go_together_are_a_share():
    """Their spread is three times that of independent draws; of one replica it cannot be seen."""
    apart = judged([1.0, 0.9, 1.0, 1.0], ">=", 0.9, law="draws", trials=[100] * 4)
    assert apart.interval == judged([1.0, 0.9, 1.0, 1.0], ">=", 0.9, law="share", trials=[100] * 4).interval
    assert (apart.verdict, apart.undecided_because[:40]) == ("undecided", "Replicas differ by more than independent")
    alike = judged([1.0, 0.97, 1.0, 0.99], ">=", 0.9, law="draws", trials=[100] * 4)
    assert (alike.verdict, alike.measured) == ("holds", 0.99)


def test_one_replica_of_independent_draws_decides_and_more_of_them_do_better():
    assert judged([0.99], ">=", 0.9, law="draws", trials=[400]).verdict == "holds"
    one = judged([0.9], ">=", 0.87, law="draws", trials=[400])
    assert one.undecided_because.startswith("The interval has")
    assert judged([0.9] * one.replicas_needed, ">=", 0.87, law="draws", trials=[400] * one.replicas_needed).verdict == (
        "holds"
    )


def test_replicas_needed_of_draws_are_those_of_as_many_more_draws():
    few = judged(np.random.default_rng(13).binomial(100, 0.91, 8) / 100, ">=", 0.9, law="draws", trials=[100] * 8)
    needed = few.replicas_needed
    assert few.verdict == "undecided"
    assert interval_of_binomial(few.measured * needed * 100, needed * 100)[0] >= 0.9
    assert interval_of_binomial(few.measured * (needed - 1) * 100, (needed - 1) * 100)[0] < 0.9


def test_draws_are_counted_and_from_0_to_1():
    with pytest.raises(ValueError, match="needs how many things each replica counted"):
        judged([0.5, 0.5], ">=", 0.9, law="draws")
    with pytest.raises(ValueError, match="in some replica: allowed is 0 to 1"):
        judged([0.5, 1.5], ">=", 0.9, law="draws", trials=[3, 3])
