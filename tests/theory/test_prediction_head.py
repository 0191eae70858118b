"""Closed forms of the prediction head."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp, trapezoid

from featscope.theory.prediction_head import (
    ends_on_strong,
    head_at_phase_one,
    head_decay_rate,
    head_peak_bound,
    noise_decay,
    optimum,
    patch_moments,
    phase_one_time,
    strong_probability,
)

MOMENTS = patch_moments(20, 4, 4.0, 2.0)


def test_moments_by_hand():
    """4 patches of which 2 show the feature: halves have 0, 1 or 2 of them with probability 1/6, 4/6, 1/6."""
    moments = patch_moments(4, 2, 2.0, 1.0)
    assert moments.own == pytest.approx((0.5 * 64 * 8 / 6, 0.5 * 8 / 6))
    assert moments.same == pytest.approx((0.5 * 64 * 4 / 6, 0.5 * 4 / 6))
    assert moments.noise_patches == 1.0
    assert moments.agreement == pytest.approx(0.5)
    assert optimum(moments) == pytest.approx(1.0)


def test_frequency_counts_as_strength():
    rare = patch_moments(20, 4, 3.0, 3.0, 0.9)
    assert rare.same[0] / rare.same[1] == pytest.approx(9)
    both = patch_moments(20, 4, 3.0, 3.0, both=True)
    assert both.same == pytest.approx((2 * patch_moments(20, 4, 3.0, 3.0).same[0],) * 2)
    assert both.noise_patches == 6.0


@pytest.mark.parametrize(("weak", "both_strong"), [(2.0, 0.61), (1.0, 0.85), (0.4, 0.96)])
def test_probability_of_collapse(weak: float, both_strong: float):
    moments = patch_moments(20, 4, 4.0, weak)
    assert strong_probability(moments) ** 2 == pytest.approx(both_strong, abs=0.006)
    draws = np.random.default_rng(0).standard_normal((200_000, 2))
    assert ends_on_strong(draws, moments.same).mean() == pytest.approx(strong_probability(moments), abs=0.005)


def test_the_rule_compares_strengths_to_the_power_of_three_halves():
    overlaps = np.array([[0.1, 0.28], [0.1, -0.29], [-0.1, 0.0]])  # 2^1.5 = 2.83
    assert ends_on_strong(overlaps, MOMENTS.same).tolist() == [True, False, True]


def test_phase_one_is_the_integral_of_its_rate():
    b = np.linspace(0.05, 0.5, 200_001)
    noise = MOMENTS.noise_patches * 15 * 0.9**3
    steps = noise / (3 * MOMENTS.same[0] * b**5)
    time = trapezoid(steps, b)
    assert phase_one_time(0.05, 0.9, MOMENTS, 1.0, 0.5) == pytest.approx(time, rel=1e-6)


def test_noise_decay_solves_its_equation():
    rate = 90 * MOMENTS.same[0] * MOMENTS.noise_patches / (MOMENTS.own[0] ** 2 * 0.9**6)
    at = noise_decay(np.array([1e3, 1e3 + 1e-3]), 0.1, 0.9, 0, MOMENTS, 1.0)
    assert (at[1] - at[0]) / 1e-3 == pytest.approx(-rate * at[0] ** 3, rel=1e-4)


def test_the_head_decays_faster_the_stronger_what_it_borrowed():
    equal = head_decay_rate(0.8, 0.8, MOMENTS, 0.1)
    assert equal == pytest.approx(0.1 * MOMENTS.agreement * 64)
    assert head_decay_rate(0.8, 0.4, MOMENTS, 0.1) == pytest.approx(64 * equal)


def test_bounds():
    assert head_peak_bound(1.0, 0.3) == pytest.approx(0.1**0.5)


def test_what_the_head_has_at_the_end_of_phase_one_solves_its_equations():
    slow, fast, reached, fast_noise, slow_noise, rate = 0.05, 0.1, 0.4, 0.9, 1.1, 0.3
    slower = (fast_noise / slow_noise) ** 3

    def velocity(b11, y):
        return [slower * (y[0] / b11) ** 5, rate / 3 * slower * y[0] ** 3 / b11**2]

    end = solve_ivp(velocity, (fast, reached), [slow, 0.0], rtol=1e-10, atol=1e-14).y[1, -1]
    found = head_at_phase_one(slow, fast, reached, fast_noise, slow_noise, rate)
    assert found == pytest.approx(end, rel=1e-6)
