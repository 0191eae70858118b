"""A learner that follows its exemplars, against counting."""

from fractions import Fraction

import pytest

from featscope.theory.in_context import follower_accuracy, follower_trust, inverted


@pytest.mark.parametrize(
    ("shots", "rates", "counts"),
    [(16, (0, 0.25, 1), (0, 4, 16)), (5, (0.09, 0.1, 0.5), (0, 1, 3)), (25, (0.58,), (15,))],
)
def test_counts_are_rounded_halves_upwards(shots, rates, counts):
    assert inverted(rates, shots).tolist() == list(counts)


@pytest.mark.parametrize("shots", [1, 4, 5])
def test_trust_and_accuracy_by_counting(shots):
    rates = [k / shots for k in range(shots + 1)]
    for k, trust, accuracy in zip(
        range(shots + 1), follower_trust(rates, shots), follower_accuracy(rates, shots), strict=True
    ):
        exactly = Fraction(2 * (shots - k) + 1, 2 * (shots + 1))  # half a success and half a failure beforehand
        assert trust == pytest.approx(float(exactly))
        assert accuracy == {-1: 0.0, 0: 0.5, 1: 1.0}[(exactly > Fraction(1, 2)) - (exactly < Fraction(1, 2))]
