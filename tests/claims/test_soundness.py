"""What is refused of a claim, and what a claim can never do."""

from math import inf, nan

import jaxtyping
import numpy as np
import pytest
import xarray as xr

from featscope.claims import SHARE, Claim, Found, bound, identity
from featscope.claims.soundness import never

RUNS = {"a": xr.Dataset({"x": ("replica", np.array([0.5, 0.75, 1.0]))})}
ABOUT = {"id": "id", "source": "", "statement": "", "kind": "bound", "arm": "a"}


@pytest.fixture(autouse=True)
def _as_without_type_checks(monkeypatch):
    """Which refuse much of this first, in tests alone."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def declared(source="Lemma 1", decorate=bound, measured=0.5, **options):
    @decorate(source, **{"on": "a", "law": "exact", **options})
    def sound(self, run):
        """It is sound."""
        return measured

    return sound


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"at_least": 0.5, "law": "shares"}, r"law = 'shares' is unknown: allowed is one of mean, .*mean 'share'\?"),
        ({"at_least": 0.5, "law": None}, "law = None is unknown: allowed is one of mean, share, draws"),
        ({"at_least": 0.5, "on": ()}, "names no arm, so that it is never judged: say on=... or not_on=..."),
        ({"at_least": 0.5, "source": None}, "source = None: expected a text"),
        ({"at_least": 0.5, "within": 0.1}, "within = 0.1 beside a bound: allowed is one beside equals"),
        ({"equals": 0.5, "within": -1}, "within = -1 is out of range: allowed is a finite number >= 0"),
        ({"equals": 0.5, "within": nan}, "within = nan is out of range"),
        ({"at_least": 0.5, "range": (1.0, 0.0)}, r"range = \(1, 0\) is out of order: allowed is the low end"),
    ],
)
def test_what_a_decorator_says_is_refused_with_the_name_of_the_claim(options, said):
    with pytest.raises(TypeError, match=f"sound:? {said}"):
        declared(**options)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Found(0.5, law="shares"), "law = 'shares' is unknown"),
        (Found(0.5, tolerance=-0.1), "the tolerance = -0.1 is out of range: allowed is >= 0"),
        (Found(0.5, range=(1.0, 0.0)), r"range = \(1, 0\) is out of order"),
        (
            Found(np.ones(3), trials=np.array([3, -1, 3]), law="share"),
            "some replica counted -1 things: allowed is >= 0",
        ),
        (Found(0.5, expected="yes"), "expected is 'yes': expected True or False"),
    ],
)
def test_what_a_measurement_says_is_refused_with_the_name_of_the_claim(found, said):
    with pytest.raises((TypeError, ValueError), match=f"sound: {said}"):
        list(declared(decorate=identity, equals=0.5, within=0.1, measured=found).claims(None, RUNS))


def test_a_tolerance_beside_a_bound_is_refused():
    with pytest.raises(TypeError, match=r"sound measured a tolerance = 0.1: allowed is one beside equals"):
        list(declared(at_least=0.5, measured=Found(0.5, tolerance=0.1)).claims(None, RUNS))


@pytest.mark.parametrize("said", [None, "yes"])
def test_what_it_is_given_is_true_or_false(said):
    with pytest.raises(TypeError, match=f"sound: given is {said!r}: expected True or False"):
        declared(at_least=0.5, given=lambda study: said).arms(None)
    assert declared(at_least=0.5, given=lambda study: np.bool_(True)).arms(None) == {"a": (True, "")}


def test_an_arm_is_expected_to_hold_or_not():
    both = declared(at_least=0.5, on=["b", "a"], not_on=lambda study: ["a"])
    with pytest.raises(ValueError, match="sound names the arm 'a' in on and in not_on: expected in one of them"):
        both.arms(None)


@pytest.mark.parametrize("number", [np.float32, xr.DataArray])
def test_numbers_of_arrays_become_plain(number):
    found = Found(0.5, predicted=number(0.5), tolerance=number(0.1), range=(number(0.0), 1), expected=number(True))
    (claim,) = declared(decorate=identity, relation="=", measured=found).claims(None, RUNS)
    assert [type(one) for one in (claim.predicted, claim.tolerance, *claim.range)] == [float] * 4
    assert claim.expected is True


def test_a_tolerance_that_is_not_finite_is_said():
    claim = Claim.from_samples([1.0, 1.1], "=", 1.0, nan, **ABOUT)
    assert claim.undecided_because == "What is accepted around the prediction is not finite."
    assert Claim.from_samples([1.0, 1.1], "=", 1.0, inf, **ABOUT).verdict == "undecided"


@pytest.mark.parametrize("law", ["share", "extreme"])
def test_trials_that_are_not_known_are_said(law):
    claim = Claim.from_samples([1.0, 0.9], ">=", 0.5, law=law, trials=[nan, 9], **ABOUT)
    assert claim.undecided_because == "How many things some replica counted is not known."
    assert claim.replicas_needed is None


MANY = {"law": "share", "trials": [1000] * 8}


@pytest.mark.parametrize(
    ("relation", "predicted", "values", "more"),
    [
        (">=", 1.0, [1.0] * 8, MANY),
        ("<=", 0.0, [0.0] * 8, MANY),
        ("=", 1.0, [1.0] * 8, MANY),
        (">=", 1.0, [0.9, 1.0], {"range": SHARE}),
        (">=", 1.0, [1.0], {"law": "yes/no"}),
    ],
)
def test_a_bound_that_no_interval_reaches_is_said(relation, predicted, values, more):
    claim = Claim.from_samples(values, relation, predicted, **more, **ABOUT)
    assert claim.verdict == "undecided"
    assert claim.undecided_because.startswith("It can fail and not hold")


@pytest.mark.parametrize(
    ("relation", "predicted", "tolerance", "law", "ends", "what"),
    [
        (">=", 1.0, 0.0, "share", SHARE, "hold"),
        (">=", 1.0, 0.0, "exact", SHARE, ""),
        (">=", 1.0, 0.0, "extreme", SHARE, ""),
        (">", 1.0, 0.0, "exact", SHARE, "hold"),
        (">=", 1.5, 0.0, "exact", SHARE, "hold"),
        (">=", 0.0, 0.0, "share", SHARE, "fail"),
        (">=", 0.0, 0.0, "exact", (0.0, inf), "fail"),
        (">", 0.0, 0.0, "share", SHARE, ""),
        ("<=", 1.0, 0.0, "mean", SHARE, "fail"),
        ("<", 1.0, 0.0, "mean", SHARE, ""),
        ("<=", 0.0, 0.0, "yes/no", SHARE, "hold"),
        ("<=", 0.0, 0.0, "mean", (-1.0, 1.0), ""),
        ("=", 1.0, 0.0, "share", SHARE, "hold"),
        ("=", 1.0, 0.02, "share", SHARE, ""),
        ("=", 0.5, 0.5, "mean", SHARE, "fail"),
        ("=", 0.0, 0.0, "mean", (-inf, inf), "hold"),
        ("=", 0.0, 0.0, "exact", (-inf, inf), ""),
        (">=", -inf, 0.0, "mean", (-inf, inf), ""),
        ("<=", nan, nan, "mean", SHARE, ""),
    ],
)
def test_what_a_claim_can_never_do(relation, predicted, tolerance, law, ends, what):
    assert never(relation, predicted, tolerance, law, ends) == what
