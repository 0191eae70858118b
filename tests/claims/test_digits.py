"""Digits that show on which side of a bound a measurement lies."""

import math

import pytest

from featscope.claims.digits import reads_right, significant
from featscope.commands.run import told_apart


@pytest.mark.parametrize(
    ("bound", "values", "digits"),
    [
        (123400.0, (123425.0, 123428.0, 123431.0), 5),
        (2.504e7, (2.5e7, 2.503e7), 4),
        (-12.3, (-12.32, -12.5), 4),
        (1.0, (1.00002,), 6),
        (0.5, (0.7,), 4),
        (0.5, (0.5 + 1e-12,), 4),
        (0.0, (0.0, 1e-9), 4),
        (math.nan, (1.0,), 4),
        (1.0, (math.inf, math.nan), 4),
    ],
)
def test_as_many_digits_are_counted_as_show_on_which_side_of_a_bound_values_lie(bound, values, digits):
    assert significant(bound, values, None, 4)[0] == digits


@pytest.mark.parametrize(
    ("measured", "digits"), [(1.01234, (3, 3)), (1.01233, (3, 3)), (1.01236, (5, 3)), (1.5, (3, 3)), (1.0, (3, 3))]
)
def test_a_tolerance_has_three_digits_or_as_many_as_the_rest(measured, digits):
    assert significant(1.0, [measured], 0.0123456) == digits


def test_what_is_rounded_reads_as_it_lies_to_both_bounds_of_an_equation():
    rounded = {1.004: 1.0, 1.02: 1.02, 1.0: 1.0}.__getitem__
    assert reads_right(1.0, [1.004, 1.02], 0.01, rounded, 0.01)
    assert not reads_right(1.0, [1.004], 0.001, rounded, 0.001)
    assert not reads_right(1.0, [1.004], None, rounded)


def test_what_is_rounded_is_read_by_the_tolerance_that_is_shown():
    assert not reads_right(1.0, [1.01234], 0.0123456, float, 0.0123)
    assert reads_right(1.0, [1.01234], 0.0123456, float, 0.01235)


def test_what_is_rounded_onto_an_edge_does_not_read_as_outside():
    rounded = {1.0500001: 1.05, 1.0: 1.0}.__getitem__
    assert not reads_right(1.0, [1.0500001], 0.05, rounded, 0.05)


@pytest.mark.parametrize(
    ("found", "tolerance", "texts"),
    [
        (1.00002, 1e-6, ("= 1 ± 1e-06", "1.00002")),
        (1.0000004, 1e-6, ("= 1 ± 1e-06", "1")),
        (1.04, 0.05, ("= 1 ± 0.05", "1.04")),
        (1.0500001, 0.05, ("= 1 ± 0.05", "1.0500001")),
        (1.0129, 0.0128, ("= 1 ± 0.0128", "1.013")),
        (1 + 5e-9, 1e-9, ("= 1 ± 1e-09", "1.000000005")),
        (1 + 3e-10, 1e-9, ("= 1 ± 1e-09", "1")),
        (1 + 3e-12, 1e-12, ("= 1 ± 1e-12", "1.000000000003")),
        (1 + 2**-52, 0.0, ("= 1 ± 0", "1.0000000000000002")),
        (1.0, 0.0, ("= 1 ± 0", "1")),
    ],
)
def test_the_terminal_tells_an_equation_that_fails_from_one_that_holds(found, tolerance, texts):
    assert told_apart(1.0, found, "=", tolerance) == texts


def test_a_tolerance_that_three_digits_put_on_the_measurement_has_more():
    assert significant(1.0, [1.01234], 0.0123456, 5) == (5, 5)


def test_numbers_that_differ_by_the_last_bit_have_the_digits_that_tell_them_apart():
    wanted, measured = told_apart(0.3, 0.1 + 0.2, "=", 0.0)
    assert (wanted, measured) == ("= 0.3 ± 0", "0.30000000000000004")
