"""What the code of a claim measured must be one value of each replica that it asked for."""

import numpy as np
import pytest
import xarray as xr

from featscope.claims import Found, bound

RUN = xr.Dataset({"x": (("replica", "step", "place"), np.arange(24.0).reshape(4, 2, 3))})
RUNS = {"a": RUN, "b": RUN.isel(replica=slice(2)), "c": RUN.isel(replica=slice(3))}
ONE = RUN.x.isel(step=1, place=0)


def judged(measure, law="mean", at=-1.0):
    """The claim on "a", which has four replicas, that what ``measure`` makes of the runs is at least ``at``."""

    @bound("Lemma 1", on="a", at_least=at, law=law)
    def large(self, run, runs):
        """It is large."""
        return measure(run, runs)

    (claim,) = large.claims(None, RUNS)
    return claim


@pytest.mark.parametrize(
    ("measure", "counted"),
    [
        (lambda run, runs: run.x.isel(step=1).values.ravel(), 12),
        (lambda run, runs: run.x.isel(step=1).values[0], 3),
        (lambda run, runs: ONE.where(ONE > 5).dropna("replica"), 3),
        (lambda run, runs: np.append(ONE, runs["b"].x[:, 1, 0]), 6),
    ],
)
def test_values_are_as_many_as_replicas(measure, counted):
    with pytest.raises(ValueError, match=rf"large measured {counted} values of .*4 replicas: expected one value a"):
        judged(measure)


def test_an_array_of_several_axes_is_refused_in_words():
    with pytest.raises(
        ValueError, match=r"large measured an array of the shape \[4, 3\]: expected one value a replica"
    ):
        judged(lambda run, runs: run.x.values[:, 1])


@pytest.mark.parametrize(
    ("measure", "n"),
    [
        (lambda run, runs: ONE.values, 4),
        (lambda run, runs: [*ONE.values], 4),
        (lambda run, runs: ONE.where(ONE > 5), 4),
        (lambda run, runs: run.x[:2, 1, 0].values - runs["b"].x[:, 1, 0].values, 2),  # of those that both have
        (lambda run, runs: Found(runs["c"].x[:, 1, 0], trials=7), 3),
    ],
)
def test_values_may_be_of_any_arm_that_was_asked_for(measure, n):
    assert judged(measure).n == n


@pytest.mark.parametrize("law", ["share", "draws"])
def test_looks_are_no_things(law):
    """As under any other law: a forgotten `last` counts what was so long ago."""
    with pytest.raises(ValueError, match=r"large measured something for each step and place: .*take the last look"):
        judged(lambda run, runs: run.x > 4, law, 0.5)
    assert judged(lambda run, runs: run.x[:, 1] > 4, law, 0.5).trials == (3,) * 4
    assert judged(lambda run, runs: (run.x > 4).rename(step="look"), law, 0.5).trials == (6,) * 4


def test_arms_may_be_compared_question_by_question():
    """What gets the runs alone may measure an array of what they share; labelled values are of replicas even so."""

    def judged_of(measure):
        @bound("Lemma 1", on="a", at_least=-1.0)
        def large(self, runs):
            """It is large."""
            return measure(runs["a"].x[:, 1] - runs["c"].x[0, 1])

        return next(iter(large.claims(None, RUNS)))

    assert judged_of(lambda each: each.values.ravel()).n == 12
    with pytest.raises(ValueError, match="large measured 2 values of 3 or 4 replicas"):
        judged_of(lambda each: each[:2, 0])
