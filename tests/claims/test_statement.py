"""Claims as methods: what they are called with, what is said of them, where they are expected to hold."""

from dataclasses import dataclass
from math import inf
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from featscope.claims import POSITIVE, SHARE, STATED, Found, bound, identity, ordering, scaling
from featscope.claims.statement import tests_of as claims_of
from featscope.studies import Study

SAMPLES = np.array([0.5, 0.75, 1.0])
RUNS = {"a": xr.Dataset({"x": ("replica", SAMPLES)}), "b": xr.Dataset({"x": ("replica", -SAMPLES)})}


def of(claim, study=None):
    """Arm -> the claim that ``claim``, a decorated method, makes there."""
    return {made.arm: made for made in claim.claims(study, RUNS)}


def simple(decorate=bound, source="Theorem 1", **options):
    """A claim that measures x."""
    options = {"on": "a", "more_than" if decorate is ordering else "at_least": 0.0, **options}

    @decorate(source, **options)
    def x_is_large(self, run):
        """It is large. Measured: x."""
        return run["x"]

    return x_is_large


# --- words ----------------------------------------------------------------------------------------------------------


def test_the_docstring_is_the_title_the_statement_and_what_is_measured():
    @bound("Theorem 3.4", on="a", at_least=0.9, because=STATED, range=SHARE, note="Known.")
    def singletons_emerge(self, run):
        r"""Every feature gets a
        neuron of its own.

        With RandomMask each true feature $M_j$ ends in a neuron
        that holds it alone.

        It may take long. Measured: share of features
        with a neuron.
        """

    statement = singletons_emerge.statement
    assert statement.id == "singletons-emerge"
    assert statement.title == "Every feature gets a neuron of its own"
    assert statement.text == (
        "With RandomMask each true feature $M_j$ ends in a neuron that holds it alone. It may take long."
    )
    assert statement.measured == "share of features with a neuron."
    assert (statement.source, statement.kind, statement.range) == ("Theorem 3.4", "bound", (0.0, 1.0))
    assert (statement.expected, statement.note) == (True, "Known.")


def test_where_the_title_says_it_all_it_is_the_statement():
    statement = simple().statement
    assert (statement.title, statement.text, statement.measured) == ("It is large", "It is large", "x.")
    assert (statement.range, statement.note) == ((-inf, inf), "")


def test_what_is_measured_may_be_left_to_the_statement():
    @bound("", on="a", at_least=0.0)
    def large(self, run):
        """It is large.

        Larger than nothing.
        """

    assert (large.statement.text, large.statement.measured) == ("Larger than nothing.", "")


def test_a_method_without_words_is_refused():
    with pytest.raises(TypeError, match="silent has no docstring: a claim's first line is its title in plain words"):

        @bound("", on="a", at_least=0.0)
        def silent(self, run):
            return run["x"]


@pytest.mark.parametrize(
    ("decorate", "kind"), [(identity, "identity"), (bound, "bound"), (ordering, "ordering"), (scaling, "scaling")]
)
def test_there_is_a_decorator_for_each_kind(decorate, kind):
    claim = simple(decorate)
    assert claim.statement.kind == kind
    assert of(claim)["a"].kind == kind


def test_the_note_is_all_that_is_to_be_said_in_order():
    @bound("", on={"a": "Of this arm."}, not_on={"b": "Of that one."}, at_least=0.0, because="Bound: 0.", note="Known.")
    def large(self, run, arm):
        """Large."""
        return Found(run["x"], "Of this run.") if arm == "a" else run["x"]

    claims = of(large)
    assert claims["a"].note == "Known. Bound: 0. Of this arm. Of this run."
    assert claims["b"].note == "Known. Bound: 0. Of that one."
    assert large.statement.note == "Known."


# --- measurement and verdict ----------------------------------------------------------------------------------------


def test_a_claim_carries_statement_measurement_and_arm():
    made = of(simple(range=POSITIVE))["a"]
    assert (made.id, made.source, made.statement, made.title, made.measures, made.range) == (
        "x-is-large",
        "Theorem 1",
        "It is large",
        "It is large",
        "x.",
        POSITIVE,
    )
    assert (made.arm, made.values, made.measured, made.n) == ("a", (0.5, 0.75, 1.0), 0.75, 3)
    assert (made.predicted, made.relation, made.tolerance) == (0.0, ">=", 0.0)


@pytest.mark.parametrize(
    ("options", "relation", "predicted", "tolerance"),
    [
        ({"at_least": 0.5}, ">=", 0.5, 0.0),
        ({"at_least": None, "at_most": 0.5}, "<=", 0.5, 0.0),
        ({"at_least": None, "equals": 0.5, "within": 0.1}, "=", 0.5, 0.1),
        ({"at_least": None, "equals": 0, "within": 0.0}, "=", 0.0, 0.0),
    ],
)
def test_the_bound_is_the_decorator_s(options, relation, predicted, tolerance):
    made = of(simple(**options))["a"]
    assert (made.relation, made.predicted, made.tolerance) == (relation, predicted, tolerance)


def test_or_the_measurement_s_where_it_depends_on_the_run():
    @identity("", on="a", relation="=")
    def as_predicted(self, run):
        """As predicted."""
        return Found(run["x"], "Half.", predicted=float(run["x"].mean()), tolerance=0.25)

    made = of(as_predicted)["a"]
    assert (made.relation, made.predicted, made.tolerance, made.note) == ("=", 0.75, 0.25, "Half.")

    @identity("", on="a", equals=7.0, within=7.0)
    def overruled(self, run):
        """Overruled."""
        return Found(run["x"], predicted=0.0, tolerance=0.0)

    assert (of(overruled)["a"].predicted, of(overruled)["a"].tolerance) == (0.0, 0.0)


@pytest.mark.parametrize(
    "options",
    [
        {"at_least": None},
        {"at_most": 1.0},
        {"equals": 1.0},
        {"relation": "<="},
    ],
)
def test_one_way_to_be_judged_must_be_given_and_no_more(options):
    with pytest.raises(
        TypeError, match="Lemma 2: a claim takes one of equals, at_least, at_most, more_than, less_than and relation"
    ):
        simple(source="Lemma 2", **options)


@pytest.mark.parametrize("option", ["at_least", "at_most"])
def test_an_ordering_is_strict(option):
    """What learned nothing has a difference of 0."""
    with pytest.raises(TypeError, match="Lemma 2: an ordering is strict: say more_than or less_than"):
        ordering("Lemma 2", on="a", **{option: 0.0})
    assert of(simple(ordering))["a"].relation == ">"


# --- laws -----------------------------------------------------------------------------------------------------------


def judged(law, measured, **options):
    @bound("", on="a", at_least=0.5, law=law, **options)
    def large(self, run):
        """Large."""
        return measured

    return of(large, study=SimpleNamespace(things=7))["a"]


def test_a_share_may_say_of_each_thing_whether_it_is_so_and_leave_some_out():
    all_so = [[1.0, 1.0], [1.0, 1.0]]
    truths = xr.DataArray([[[1.0, 1.0], [0.0, np.nan]], all_so, all_so], dims=("replica", "start", "neuron"))
    made = judged("share", truths)
    assert (made.values, made.trials, made.measured) == ((2 / 3, 1.0, 1.0), (3, 4, 4), 10 / 11)
    assert judged("share", truths > 0.5).trials == (4, 4, 4)  # truth values all count


def test_how_many_things_a_share_counts_follows_from_the_study_or_the_run():
    shares = xr.DataArray([0.5, 0.75, 1.0], dims="replica")
    assert judged("share", shares, things=lambda study: study.things).trials == (7, 7, 7)
    assert judged("share", Found(shares, trials=np.array([3, 4, 5]))).trials == (3, 4, 5)
    assert judged("share", Found(shares, trials=3)).trials == (3, 3, 3)
    with pytest.raises(ValueError, match="large: law='share' needs how many things"):
        judged("share", shares)


def test_the_law_may_differ_from_arm_to_arm():
    assert judged("mean", Found(np.ones(3), law="exact")).verdict == "holds"
    assert judged("mean", np.ones(3)).verdict == "undecided"


def test_what_a_value_can_be_may_follow_from_the_run():
    @bound("", on="a", at_least=0.0, range=SHARE)
    def weighted(self, run):
        """It is weighted."""
        return Found(1.5 * run["x"], range=(0.0, 1.5))

    claim = of(weighted)["a"]
    assert (claim.range, claim.outside) == ((0.0, 1.5), None)


def test_what_is_measured_of_each_thing_is_no_mean():
    each = xr.DataArray(np.ones((2, 3)), dims=("replica", "feature"))
    with pytest.raises(ValueError, match="large measured something for each feature"):
        judged("mean", each)


@pytest.mark.parametrize(
    "options",
    [{"at_least": None, "relation": "<="}, {"at_least": None, "equals": 1.0}],
)
def test_what_nobody_predicts_is_an_error(options):
    with pytest.raises(TypeError, match="x-is-large: neither its decorator nor its measurement says what is predicted"):
        of(simple(**options))


def test_a_number_is_a_measurement_without_chance():
    @identity("", on="a", equals=2.0, within=0.0, law="exact")
    def two(self, run):
        """Two."""
        return 2.0

    assert (of(two)["a"].verdict, of(two)["a"].n, of(two)["a"].values) == ("holds", 1, ())


def test_none_says_nothing_where_the_type_allows_for_it():
    @bound("", on=("a", "b"), at_least=0.0)
    def sometimes(self, run, arm) -> xr.DataArray | None:
        """Sometimes."""
        return run["x"] if arm == "b" else None

    assert set(of(sometimes)) == {"b"}


@pytest.mark.parametrize("returned", [{}, {"return": xr.DataArray}, {"return": "Unknown"}])
def test_a_forgotten_return_is_told(returned):
    def forgetful(self, run):
        """Forgetful."""
        run["x"]

    forgetful.__annotations__ = returned
    with pytest.raises(TypeError, match=r"forgetful returned None: .*lack a return.*-> Found \| None"):
        of(bound("", on="a", at_least=0.0)(forgetful))


def test_a_type_may_be_named_by_what_only_a_type_checker_imports():
    def sometimes(self, run: "Unknown") -> "Found | None":
        """Sometimes."""

    assert not of(bound("", on="a", at_least=0.0)(sometimes))


# --- what a method gets ---------------------------------------------------------------------------------------------


def test_a_method_gets_what_it_names():
    got = []

    @bound("", on=("a", "b"), at_least=0.0, law="exact")
    def everything(self, arm, runs, run):
        """Everything."""
        got.append((self, arm, {**runs} == RUNS, run is RUNS[arm]))
        return 1.0

    @bound("", on="a", at_least=0.0, law="exact")
    def all_runs(self, runs):
        """All."""
        got.append({**runs} == RUNS)
        return 1.0

    of(everything, study="the study"), of(all_runs)
    assert got == [("the study", "a", True, True), ("the study", "b", True, True), True]


def test_a_method_that_asks_for_something_else_is_refused():
    with pytest.raises(TypeError, match=r"wrong asks for 'seed': a claim is given run, runs, arm"):

        @bound("", on="a", at_least=0.0)
        def wrong(self, run, seed):
            """Wrong."""


def test_what_is_not_about_runs_is_judged_whatever_was_run():
    @bound("", on={"Table 1": "As printed."}, at_least=0.0, law="exact")
    def printed(self):
        """Numbers of the paper agree."""
        return 1.0

    assert not printed.of_runs
    assert [(made.arm, made.note) for made in printed.claims(None, {})] == [("Table 1", "As printed.")]
    assert simple().of_runs


# --- arms -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"on": "a"}, {"a": True}),
        ({"on": ("a", "b")}, {"a": True, "b": True}),
        ({"on": ["b"], "not_on": "a"}, {"b": True, "a": False}),
        ({"on": {"a": "", "b": "words"}}, {"a": True, "b": True}),
        ({"on": (), "not_on": ("a", "b")}, {"a": False, "b": False}),
        ({"on": lambda study: study.arms}, {"b": True}),
        ({"on": lambda study: {"a": study.word}, "not_on": lambda study: "b"}, {"a": True, "b": False}),
        ({"on": lambda study: (), "not_on": lambda study: {}}, {}),
        ({"on": ("a", "b"), "given": lambda study: study.word == "no"}, {"a": False, "b": False}),
        ({"on": "a", "not_on": "b", "given": lambda study: study.word == "why"}, {"a": True, "b": False}),
    ],
)
def test_arms_are_named_or_follow_from_the_options(options, expected):
    study = SimpleNamespace(arms=["b"], word="why")
    claims = of(simple(**options), study)
    assert {arm: claim.expected for arm, claim in claims.items()} == expected
    assert list(claims) == list(expected)


def test_arms_that_were_not_run_are_left_out():
    assert set(of(simple(on=("a", "elsewhere")))) == {"a"}


def test_a_statement_is_expected_if_it_names_an_arm_on_which_it_is():
    assert simple(on="a").statement.expected
    assert simple(on=lambda study: ()).statement.expected
    assert not simple(on=(), not_on="a").statement.expected


def test_the_run_may_tell_whether_it_is_expected():
    @bound("", on="a", not_on="b", at_least=0.0)
    def large(self, run, arm):
        """Large."""
        return Found(run["x"], expected=arm == "b")

    assert {arm: claim.expected for arm, claim in of(large).items()} == {"a": False, "b": True}


# --- of a class -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Base(Study):
    """Three claims and a helper."""

    lowest: float = 0.0

    @bound("", on="a", at_least=0.0)
    def first(self, run):
        """First."""
        return run["x"] - self.lowest

    def helper(self, run):
        return run["x"]

    @bound("", on="a", at_least=0.0)
    def second(self, run):
        """Second."""
        return self.helper(run)

    @bound("", on="a", at_least=0.0)
    def third(self, run):
        """Third."""
        return run["x"]


@dataclass(frozen=True)
class Derived(Base):
    """Another second, no third, and a fourth."""

    third = None

    @bound("", on=("a", "b"), at_least=0.5)
    def second(self, run):
        """Another second."""
        return run["x"]

    @bound("", on="a", at_least=0.0)
    def fourth(self, run):
        """Fourth."""
        return run["x"]


class Mixed(Derived):
    """Nothing new."""


def test_claims_stand_in_the_order_in_which_they_are_written():
    assert [statement.id for statement in Base.statements()] == ["first", "second", "third"]
    assert [claim.id for claim in Base().claims(RUNS)] == ["first", "second", "third"]


def test_claims_of_bases_come_first_and_may_be_replaced_or_taken_away():
    assert [statement.title for statement in Derived.statements()] == ["First", "Another second", "Fourth"]
    claims = Derived().claims(RUNS)
    assert [(claim.id, claim.arm) for claim in claims] == [
        ("first", "a"),
        ("second", "a"),
        ("second", "b"),
        ("fourth", "a"),
    ]
    assert list(Mixed.tests) == list(Derived.tests) == claims_of(Derived)
    assert [statement.id for statement in Base.statements()] == ["first", "second", "third"]


def test_claims_see_the_options_and_helpers_of_their_study():
    assert Base(lowest=0.25).claims(RUNS)[0].values == (0.25, 0.5, 0.75)


def test_a_study_without_claims_has_none():
    assert (Study.statements(), Study().claims(RUNS)) == ([], [])


@pytest.mark.parametrize("law", ["share", "yes/no"])
def test_replicas_that_diverged_are_no_data_whatever_a_claim_makes_of_them(law):
    """What is compared with NaN is False, and a share of False is 0."""
    size = xr.DataArray(np.ones((8, 200)), dims=("replica", "neuron"))
    lost = xr.DataArray([3, *[-1] * 7], dims="replica")

    @bound("Lemma 1", on="a", at_most=0.1, law=law)
    def few_are_large(self, run):
        """Few are large."""
        large = run["size"] > 2
        return large if law == "share" else large.any("neuron").astype(float)

    def judged(diverged):
        run = xr.Dataset({"size": size.where(diverged < 0), "diverged": diverged})
        (claim,) = few_are_large.claims(None, {"a": run})
        return claim

    none = judged(xr.full_like(lost, -1))
    assert none.verdict == ("holds" if law == "share" else "undecided")
    for diverged in (lost, xr.full_like(lost, 5)):
        claim = judged(diverged)
        assert claim.verdict == "undecided"
        assert np.isnan(claim.values).sum() == (diverged >= 0).sum()


def test_points_that_diverge_may_be_what_a_claim_is_about():
    diverged = xr.DataArray([[-1, 4], [-1, 4]], dims=("replica", "lr"))

    @bound("Lemma 1", on="a", at_most=0.9, law="yes/no", of_divergence=True)
    def large_steps_diverge(self, run):
        """Large steps diverge."""
        return (run["diverged"].isel(lr=1) >= 0).astype(float)

    (claim,) = large_steps_diverge.claims(None, {"a": xr.Dataset({"diverged": diverged})})
    assert claim.values == (1.0, 1.0)


@pytest.mark.parametrize("one_number", [False, True])
def test_a_point_that_diverged_is_not_left_out_of_what_is_said_of_all(one_number):
    """The largest of the others is none of all."""
    error = xr.DataArray([[0.1, 9.0], [0.1, 0.3], [0.2, 0.3]], dims=("replica", "lr"))
    diverged = xr.DataArray([[-1, 4], [-1, -1], [-1, -1]], dims=("replica", "lr"))

    @bound("Lemma 1", on="a", at_most=0.5, law="exact" if one_number else "extreme")
    def all_are_small(self, run):
        """All are small."""
        return float(run["error"].max()) if one_number else run["error"].max("lr")

    (claim,) = all_are_small.claims(None, {"a": xr.Dataset({"error": error.where(diverged < 0), "diverged": diverged})})
    assert claim.verdict == "undecided"
    assert np.isnan(claim.measured)
    assert np.isnan(claim.values).tolist() == ([] if one_number else [True, False, False])


@pytest.mark.parametrize("stated", [{"things": lambda study: 2}, {}])
def test_things_are_counted_or_stated(stated):
    @bound("Lemma 1", on="a", at_least=0.5, law="share", **stated)
    def most_are_so(self, run):
        """Most are so."""
        return run["so"] if stated else Found(run["so"], trials=2)

    with pytest.raises(ValueError, match="most-are-so says how many things it counts, and measures each"):
        most_are_so.claims(None, {"a": xr.Dataset({"so": xr.DataArray(np.ones((3, 4)), dims=("replica", "thing"))})})


def test_replicas_that_diverged_in_another_arm_that_was_asked_for_are_no_data():
    values = xr.DataArray(np.arange(8.0), dims="replica")
    lost = xr.DataArray(np.where(np.arange(8) < 3, 4, -1), dims="replica")
    runs = {"a": xr.Dataset({"y": values}), "b": xr.Dataset({"y": values + 1, "diverged": lost}), "c": RUNS["a"]}

    @bound("", on="a", at_most=0.45, law="share", things=lambda study: 1)
    def seldom(self, run, runs):
        """It is seldom. Measured: share of replicas in which it is more."""
        return (runs["b"].y.where(runs["b"].diverged < 0) > run.y).astype(float)

    @bound("", on="a", at_least=0.0)
    def alone(self, run, runs):
        """It asks of no other."""
        return run.y

    (claim,), (other,) = seldom.claims(None, runs), alone.claims(None, runs)
    assert np.isnan(claim.values).sum() == 3
    assert claim.verdict == "undecided"
    assert np.isfinite(other.values).all()


def test_an_arm_that_is_named_and_not_read_is_not_asked_for():
    lost = xr.DataArray(np.full(4, 3), dims="replica")
    runs = {"a": xr.Dataset({"y": ("replica", np.arange(4.0) + 1)}), "b": xr.Dataset({"diverged": lost})}

    @bound("", on="a", at_least=0.0)
    def among_names(self, runs):
        """Among names."""
        assert "b" in runs
        return next(runs[name].y for name in runs if name.startswith("a"))

    (claim,) = among_names.claims(None, runs)
    assert np.isfinite(claim.values).all()
