"""Verdicts are arithmetic."""

import json
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from featscope.claims import Claim, Statement

STATEMENT = Statement("id", "Theorem 1", "Something.", "bound", note="Known.")


def claim(relation: str, interval: tuple[float, float], tolerance: float = 0.0, measured: float = 1.0) -> Claim:
    fields = {"id": "id", "source": "", "statement": "", "kind": "bound", "arm": "a", "predicted": 1.0, "n": 2}
    return Claim(**fields, relation=relation, tolerance=tolerance, measured=measured, interval=interval)


@pytest.mark.parametrize(
    ("relation", "tolerance", "interval", "verdict"),
    [
        ("=", 0.1, (0.95, 1.05), "holds"),
        ("=", 0.1, (0.9, 1.1), "holds"),
        ("=", 0.1, (0.85, 1.05), "undecided"),
        ("=", 0.1, (0.5, 1.5), "undecided"),
        ("=", 0.1, (1.2, 1.5), "fails"),
        ("=", 0.1, (0.5, 0.8), "fails"),
        ("=", 0.0, (1.0, 1.0), "holds"),
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


def test_a_statement_judges_the_mean_over_replicas_with_its_interval():
    """t quantile at 99 % with 3 degrees of freedom: 5.8409 (any table)."""
    made = STATEMENT.at_least(np.array([1.0, 2.0, 3.0, 4.0]), 0.5, arm="x", why="Because.")
    half = 5.8409 * np.std([1, 2, 3, 4], ddof=1) / 2
    assert made.measured == 2.5
    assert made.interval == pytest.approx((2.5 - half, 2.5 + half), rel=1e-4)
    assert (made.n, made.verdict, made.relation, made.predicted) == (4, "undecided", ">=", 0.5)
    assert (made.id, made.source, made.statement, made.arm) == ("id", "Theorem 1", "Something.", "x")
    assert made.note == "Known. Because."
    assert made.expected


def test_a_single_number_is_deterministic_and_a_single_replica_is_not():
    assert STATEMENT.equals(1.0, 1.0, 0.0, arm="x", why="").verdict == "holds"
    alone = STATEMENT.equals(np.array([1.0]), 1.0, 0.5, arm="x", why="")
    assert (alone.verdict, alone.interval, alone.n) == ("undecided", (-inf, inf), 1)


def test_expectation_is_the_statements_unless_said_otherwise():
    assert not STATEMENT.at_most(0.0, 1.0, arm="control", expected=False).expected
    doubted = Statement("id", "", "", "bound", expected=False)
    assert not doubted.at_most(0.0, 1.0, arm="x").expected


numbers = st.one_of(finite, st.sampled_from([nan, inf, -inf]))


@given(st.lists(numbers, min_size=1, max_size=5), numbers, st.sampled_from(["equals", "at_least", "at_most"]))
def test_json_keeps_the_verdict_and_everything_that_is_finite(samples, predicted, method):
    tolerance = (0.5,) if method == "equals" else ()
    made = getattr(STATEMENT, method)(np.array(samples), predicted, *tolerance, arm="x", why="w")
    plain = json.loads(json.dumps(made.to_json(), allow_nan=False))
    back = Claim.from_json(plain)
    assert plain["verdict"] == made.verdict
    if np.isfinite([*samples, predicted]).all():
        assert back == made
        assert back.verdict == made.verdict
