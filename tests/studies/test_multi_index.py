"""The study of multi-index laws, small: what holds, what must not, what it refuses, and planted faults."""

import numpy as np
import pytest
import torch
import xarray as xr

from featscope.data.multi_index import MultiIndex, MultiIndexSource
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.studies.multi_index import MultiIndexStudy, asked, study
from featscope.studies.multi_index.arms import ERRORS, ERRORS_CUBIC, FORM, SPAN, SPAN_CUBIC, SPAN_NONE
from featscope.testing import Fault, Trial
from featscope.theory import multi_index as theory

STUDY = MultiIndexStudy().smallest()
TRIAL = Trial(STUDY)
WIDE = {"samples-grow-like-squared-dimension", "linear-part-is-what-is-lost", "half-at-known-ratio"}
"""Claims that so small a size leaves undecided."""


def test_what_is_expected_holds_and_what_is_not_fails():
    for key, claim in TRIAL.healthy.items():
        wanted = ("holds" if claim.expected else "fails",) + ("undecided",) * (key[0] in WIDE)
        assert claim.verdict in wanted, (key, claim.measured, claim.interval)


def test_every_statement_is_put_to_the_test():
    assert {claim for claim, _ in TRIAL.healthy} == {s.id for s in STUDY.statements()}


def test_figures_and_story_have_the_numbers():
    drawn = {figure.id: figure for figure in STUDY.figures(TRIAL.runs)}
    assert list(drawn) == ["share", "subspace", "errors"]
    *measured, predicted = drawn["share"].panels[0].curves
    assert measured[-1].y[-1] == pytest.approx(predicted.y[-1], abs=0.05)
    network, printed, random, _ = drawn["errors"].panels[0].curves
    assert network.y[-1] < random.y[-1]
    assert network.y[-1] < printed.y[-1]
    story = STUDY.story(TRIAL.runs, list(TRIAL.healthy.values()))
    assert story.found.startswith("One gradient step finds the 2 directions")


def test_half_is_passed_between_two_ratios():
    share = xr.DataArray([[0.25, 0.75, 0.9], [0.6, 0.7, 0.8]], {"ratio": [1.0, 4.0, 16.0]}, ("replica", "ratio"))
    first, second = study.half_at(share).values
    assert first == pytest.approx(2.0)
    assert np.isnan(second)


def test_the_story_is_of_every_replica_or_of_none():
    run = TRIAL.run(SPAN)
    rising = run.assign(share=run.share * 0 + xr.DataArray(np.linspace(0.1, 0.9, run.sizes["ratio"]), dims="ratio"))
    assert "half of the step lies in them from " in STUDY.story(TRIAL.runs | {SPAN: rising}, []).found
    first = xr.DataArray(np.arange(run.sizes["replica"]) == 0, dims="replica")
    one_less = rising.assign(share=rising.share.where(~first, 0.1))
    found = STUDY.story(TRIAL.runs | {SPAN: one_less}, []).found
    assert found.endswith("directions that a polynomial is of.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"directions": 0}, "directions = 0 .* >= 1"),
        ({"directions": 51, "dimensions": (64, 96), "dimension": 64}, "directions = 51 .* <= 50. 50 first gradients"),
        ({"dimensions": (64, 32)}, "dimensions = .* ascending"),
        ({"directions": 40}, "dimensions = .* > directions = 40"),
        ({"ratios": (1.0,)}, "ratios = .* ascending"),
        ({"ratios": (0.001, 1.0)}, "ratios = .* 10 or more"),
        ({"repeats": 0}, "repeats = 0 .* >= 1"),
        ({"widths": ()}, "widths = .* ascending"),
        ({"dimension": 2}, "dimension = 2 .* > directions"),
        ({"samples": 5}, "samples = 5 .* >= 100"),
    ],
)
def test_options_out_of_range_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        MultiIndexStudy(**options)


def test_as_many_directions_as_neurons_are_allowed():
    most = MultiIndexStudy(directions=50, dimensions=(64, 96), dimension=64)
    assert most.arm(SPAN).recipe.neurons == most.directions


GRADIENT, RESIDUAL = asked.simplified_gradient, asked.residual
OPENING, RIDGE, COSINE, ACROSS = theory.opening_ratio, asked.ridge, asked.smallest_cosine, theory.across
SHARE, HESSIAN = asked.share_in_span, MultiIndexSource.hessian
AT = Streams.at


def _without_rest(w, hessian):
    unit = w / np.linalg.norm(w, axis=-1, keepdims=True)
    return unit @ hessian.swapaxes(-1, -2) / (2 * np.pi) ** 0.5


def _linear_part_stays(x, y):
    return RESIDUAL(x, y)._replace(y=y + 2 * x[..., 0])


def _slope_forgotten(x, y):
    return RESIDUAL(x, y)._replace(slope=0 * x[:, 0])


def _tested_on_the_sample(self, name, *place):
    return AT(self, "sample" if name == "test" else name, *place)


FAULTS = {
    "a closed form without its rest": Fault(
        theory, "first_gradient", _without_rest, "first-gradient-closed-form", FORM
    ),
    "a Hessian without its factor": Fault(
        MultiIndexSource, "hessian", property(lambda self: HESSIAN.fget(self) / 2), "first-gradient-closed-form", FORM
    ),
    "read-outs of other labels": Fault(
        asked,
        "ridge",
        lambda w, b, x, y, fresh: RIDGE(w, b, x, y.roll(1, -1), fresh),
        "random-features-beat-the-linear-part",
        "errors",
    ),
    "a neuron that always fires": Fault(
        asked, "simplified_gradient", lambda w, b, x, y: GRADIENT(w, b - 1e6, x, y), "noise-outside-of-span", SPAN
    ),
    "a linear part that stays": Fault(asked, "residual", _linear_part_stays, "noise-outside-of-span", SPAN_CUBIC),
    "gradients at random": Fault(asked, "simplified_gradient", lambda w, b, x, y: w, "share-rises-with-samples", SPAN),
    "the limit with the linear part": Fault(
        theory, "opening_ratio", lambda quadratic: 2 * OPENING(quadratic), "half-at-known-ratio", SPAN
    ),
    "all of it quadratic": Fault(
        theory, "opening_ratio", lambda quadratic: OPENING(1.0), "half-at-known-ratio", SPAN_CUBIC
    ),
    "shares to the third power": Fault(
        asked, "share_in_span", lambda w, f: SHARE(w, f) ** 3, "cubic-part-is-noise", SPAN_CUBIC
    ),
    "one less the smallest cosine": Fault(
        asked, "smallest_cosine", lambda w, f: 1 - COSINE(w, f), "subspace-is-recovered", SPAN
    ),
    "shares to the power of a quarter": Fault(
        asked, "share_in_span", lambda w, f: SHARE(w, f) ** 0.25, "subspace-is-found-before-the-share", SPAN
    ),
    "the smallest angle for the largest": Fault(
        asked, "smallest_cosine", lambda w, f: float(asked.cosines(w, f).max()), "largest-angle-is-the-largest", SPAN
    ),
    "the rest left out": Fault(
        theory, "across", lambda w, h, *sizes: ACROSS(w, 0 * h, *sizes), "rest-of-the-closed-form-is-outside", SPAN
    ),
    "noise of labels of any size": Fault(
        theory,
        "across",
        lambda w, h, r, n, variance: ACROSS(w, h, r, n, 1.0),
        "linear-part-leaves-as-much-again",
        SPAN,
        (SPAN_NONE,),
    ),
    "the slope forgotten": Fault(asked, "residual", _slope_forgotten, "network-learns", ERRORS),
    "read-outs of nothing": Fault(
        asked, "ridge", lambda w, b, x, y, fresh: 0 * RIDGE(w, b, x, y, fresh), "network-learns", ERRORS_CUBIC
    ),
    "features at random": Fault(
        asked, "simplified_gradient", lambda w, b, x, y: w, "network-beats-random-features", ERRORS
    ),
    "read-outs of nothing, of whatever width": Fault(
        asked, "ridge", lambda w, b, x, y, fresh: RIDGE(w, b, x, y, fresh) * 0, "wider-is-better", ERRORS
    ),
    "nothing added back": Fault(
        asked,
        "residual",
        lambda x, y: RESIDUAL(x, y)._replace(constant=0 * y[:, 0], slope=0 * x[:, 0]),
        "linear-part-is-what-is-lost",
        ERRORS,
    ),
    "half of the step": Fault(
        asked, "simplified_gradient", lambda *of: GRADIENT(*of) / 2, "step-is-as-long-as-chosen", ERRORS
    ),
    "random features of a tenth of the size": Fault(
        asked, "sqrt", lambda d: 10 * d**0.5, "random-features-fit-their-biases", ERRORS
    ),
    "tested on the sample": Fault(
        Streams, "at", _tested_on_the_sample, "read-outs-are-tested-on-fresh-inputs", ERRORS_CUBIC
    ),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_fault_takes_holds_from_an_expected_claim(monkeypatch, fault):
    TRIAL.require_noticed(fault, monkeypatch)


def test_shares_of_variance_are_what_they_are_called():
    streams = Streams(0, [0])
    source = MultiIndex(6, 3, 0.1, 0.2, 0.4, 0.3).build(streams.at("law"))
    _, y = source.sample(streams.at("sample"), 400_000, torch.float64)
    assert float(y.square().mean()) == pytest.approx(1.0, rel=0.05)
    assert float(y.mean() ** 2) == pytest.approx(0.1, rel=0.1)
    assert float(torch.linalg.matrix_norm(source.hessian).square()) == pytest.approx(2 * 0.4)


def test_directions_are_found_as_well_as_the_worst_of_them():
    features = torch.eye(2, 4)[None]
    turned = torch.tensor([[[2.0, 0, 0, 0], [0, 0, 1, 0]]])  # spans the first direction and none of the second
    assert asked.smallest_cosine(turned, features) == pytest.approx(0.0, abs=1e-6)
    assert asked.smallest_cosine(2 * features, features) == pytest.approx(1.0)


def test_a_penalty_is_chosen_on_samples_that_no_read_out_was_fitted_to():
    """Of labels that are noise the best penalty says next to nothing, where the least says m/n of them."""
    draws = Streams(0, [0]).at("noise")
    w, b, x, y, fresh = (draws.normal(*shape) for shape in ((200, 10), (200,), (500, 10), (500,), (1000, 10)))
    assert float(asked.ridge(w / 10**0.5, b, x, y, fresh).square().mean()) < 0.1
