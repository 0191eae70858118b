"""Closed forms of the tensor power method against integrals, and against the recursion in a plain loop."""

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp

from featscope.theory import tensor_power as theory


def sums(start, power, factors, weight=0, level=1.0):
    """Σ η C_t x_t^q' over x_t <= A, the first x_t beyond, the largest step and ratio; ``factors`` are η C_t."""
    x, total, step, ratio = start, 0.0, 0.0, 1.0
    for factor in factors:
        if x > level:
            return total, x, step, ratio
        total += factor * x**weight
        moved = factor * x**power
        step, ratio = max(step, moved), max(ratio, 1 + moved / x)
        x += moved
    raise AssertionError("not enough steps")


@pytest.mark.parametrize(("power", "weight"), [(2, 0), (3, 0), (3, 1), (5, 3), (7, 2)])
def test_the_limit_is_an_integral(power, weight):
    expected, _ = quad(lambda x: x ** (weight - power), 0.2, 0.9)
    assert theory.sum_limit(0.2, 0.9, power, weight) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("eta", [1e-3, 0.1, 3.0, 100.0])
@pytest.mark.parametrize(("power", "weight"), [(3, 0), (3, 1), (5, 0), (5, 3)])
def test_every_sum_lies_between_floor_and_ceiling_and_between_the_bounds(power, weight, eta):
    rng = np.random.default_rng(0)
    start = 0.25
    total, end, step, ratio = sums(start, power, eta * rng.exponential(size=200_000), weight)
    assert theory.sum_limit(start, 1.0, power, weight) <= total
    assert theory.sum_limit(start, end, power, weight) <= total
    for delta in (0.03, 0.3, 1.0):
        if weight == 0:
            assert total <= theory.sum_ceiling(start, end, power, ratio)
            assert theory.sum_lower_bound(start, 1.0, power, delta, 0.0) <= total
            assert total <= theory.sum_upper_bound(start, 1.0, power, delta, step) + step / start**power
        assert theory.weighted_lower_bound(start, 1.0, power, weight, delta, 0.0, mended=True) <= total


def test_the_mended_bound_is_that_of_its_own_proof():
    """The sum over whole levels of δ(1+δ)^-1 ((1+δ)^(g+1))^-k, with (1+δ)^-q' in front."""
    delta, start, power, weight = 0.1, 0.5, 9, 3
    k, levels = power - weight - 1, int(np.log(1 / start) / np.log(1 + delta))
    by_level = sum(delta / (1 + delta) * (1 + delta) ** (-k * (g + 1)) for g in range(levels))
    expected = (1 + delta) ** -weight * (by_level - 0.01 * levels / start) * start**-k
    assert theory.weighted_lower_bound(start, 1.0, power, weight, delta, 0.01, mended=True) == pytest.approx(expected)


def test_the_printed_lower_bound_exceeds_the_sum_where_the_page_says():
    """For q' = 3 and small δ from q = 12 on: where q - q' - 1 > 2 q' + 1. Sums come as near their limit as can be."""
    for power in range(5, 25):
        bound = theory.weighted_lower_bound(0.01, 1.0, power, 3, 0.01, 0.0)
        assert (bound > theory.sum_limit(0.01, 1.0, power, 3)) == (power >= 12), power


def test_the_excess_is_first_order_with_its_constant():
    """4,000 sequences with C_t uniform on [0, 2], c = 4/3. Five standard errors are 2 %."""
    rng = np.random.default_rng(0)
    power, eta, start = 3, 0.01, 0.3
    x, total = np.full(4000, start), np.zeros(4000)
    while (x <= 1).any():
        push = np.where(x <= 1, eta * rng.uniform(0, 2, size=x.size), 0.0)
        total += push
        x += push * x**power
    excess = total - theory.sum_limit(start, 1.0, power)
    assert excess.mean() / theory.sum_excess(start, 1.0, power, eta, 4 / 3) == pytest.approx(1, abs=0.03)


def test_the_leader_solves_its_differential_equation_until_it_is_infinite():
    end = solve_ivp(lambda t, x: x**4, (0, 9.0), (0.3,), rtol=1e-10, atol=1e-12).y[0, -1]
    at = theory.leader(0.3, np.array([0.0, 9.0, 0.3**-3 / 3 * 1.01]), 4)
    assert at == pytest.approx([0.3, end, np.inf], rel=1e-7)


def test_bounds_take_many_deltas_at_once():
    deltas = np.array([0.1, 0.7])
    for bound, numbers in (
        (theory.sum_lower_bound, (3,)),
        (theory.sum_upper_bound, (3,)),
        (theory.weighted_upper_bound, (5, 3)),
        (theory.weighted_lower_bound, (5, 3)),
    ):
        each = [bound(0.2, 1.0, *numbers, delta, 0.01) for delta in (0.1, 0.7)]
        assert bound(0.2, 1.0, *numbers, deltas, 0.01) == pytest.approx(each, rel=1e-12)


def test_the_rival_solves_its_differential_equation():
    strength, power = 1.7, 4

    def velocity(t, z):
        return [z[0] ** power, strength * z[1] ** power]

    end = solve_ivp(velocity, (0, 9.0), (0.3, 0.2), rtol=1e-10, atol=1e-12).y[:, -1]
    law = theory.rival_inverse_power(0.2, 0.3, end[0], strength, power)
    assert law ** (-1 / 3) == pytest.approx(end[1], rel=1e-7)


def test_the_ceiling_is_the_rival_of_a_leader_that_has_gone_to_infinity():
    strength, power, lead = 2.0, 5, 1.3
    start = 1 / (lead * strength ** (1 / (power - 1)))
    end = theory.rival_inverse_power(start, 1.0, np.inf, strength, power) ** (-1 / 4)
    assert theory.rival_ceiling(lead, power) == pytest.approx(end / start)
    assert theory.rival_ceiling(1.0, power) == np.inf
    assert theory.rival_ceiling(0.9, power) == np.inf


def test_powers_that_give_no_power_law_are_refused():
    with pytest.raises(ValueError, match=r"power = 3 with weight = 2 is out of range: allowed is power >= weight \+ 2"):
        theory.sum_limit(0.1, 1.0, 3, 2)
    with pytest.raises(ValueError, match="power = 1"):
        theory.rival_ceiling(1.1, 1)


def test_claim_e8_allows_twice_the_square_and_a_logarithm():
    assert theory.e8_allowance(0.1) == pytest.approx(2 * 0.01 + np.log(100) / 100)


@pytest.mark.parametrize(("power", "weight"), [(3, 0), (3, 1), (5, 3), (7, 2)])
def test_what_small_steps_add_up_to_the_end_is_their_first_order(power, weight):
    eta, start = 1e-3, 0.4
    total, end, _, _ = sums(start, power, np.full(1_000_000, eta), weight)
    added = total - theory.sum_limit(start, end, power, weight)
    assert added / theory.weighted_excess(start, end, power, weight, eta, 1.0) == pytest.approx(1, abs=0.01)


def test_printed_upper_bounds_have_worked_values():
    """q = 9, q' = 3: (1 + δ)^3 x^-5 / 5. q = 4: (1 + δ)^3 x^-3 / 3."""
    assert theory.weighted_upper_bound(0.5, 1.0, 9, 3, 0.1, 0.0) == pytest.approx(1.1**3 / 5 * 0.5**-5)
    assert theory.sum_upper_bound(0.5, 1.0, 4, 0.1, 0.0) == pytest.approx(1.1**3 / 3 * 0.5**-3)


def test_printed_bounds_take_off_and_add_what_a_step_may_do():
    """δ = 1 and x_0 = A/4: two levels. q = 3 for sums, q = 5 and q' = 2 for weighted ones; k = 2."""
    step = 0.01 / 0.25 * 2
    assert theory.sum_lower_bound(0.25, 1.0, 3, 1.0, 0.01) == pytest.approx((0.5 / 3 * (1 - 0.5**2) - step) * 16)
    assert theory.sum_upper_bound(0.25, 1.0, 3, 1.0, 0.01) == pytest.approx((4 / 2 + step) * 16)
    assert theory.weighted_upper_bound(0.25, 1.0, 5, 2, 1.0, 0.01) == pytest.approx(4 * (1 / 2 + 0.01 * 2) * 16)
