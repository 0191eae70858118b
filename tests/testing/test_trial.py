"""What authors of studies test with: arms without a folder, and faults that claims must notice."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from featscope.claims import bound
from featscope.studies import Arm, Axis, last
from featscope.testing import Fault, Trial, by_name, measure
from featscope.training import SGD, Measurement, Training
from swept import Noisy, Pull, Source, Squares, start

BUILT: list[str] = []


@dataclass(frozen=True)
class Counted(Training):
    """Counts what is built."""

    def build(self, streams):
        BUILT.append(type(self).__name__)
        return super().build(streams)


class OneByOne(Counted):
    """Of a single replica."""

    replica_axis = False


@dataclass(frozen=True)
class Pulled(Pull):
    """Numbers are pulled to 1 in 40 steps."""

    steps: int = 40
    probe_every: int = 20
    optimizer: SGD = field(default_factory=lambda: SGD(0.2, 0.0))

    def arms(self):
        recipe = Counted(**vars(self.recipe))
        return [
            Arm("pulled", recipe, "", at_start=(start,), at_end=(second_look,)),
            Arm("loose", replace(recipe, optimizer=SGD(1e-9, 0.0)), "", role="control"),
            Arm("single", OneByOne(**vars(recipe)), ""),
        ]

    @bound("", on="pulled", not_on="loose", at_most=0.2)
    def comes_near(self, run):
        """It comes near."""
        return last(run, run.distance)

    @bound("", on="pulled", at_most=0.1)
    def comes_nearer_than_loose(self, runs):
        """Nearer than without a pull, of which it is a tenth."""
        return last(runs["pulled"], runs["pulled"].distance) / last(runs["loose"], runs["loose"].distance)

    @bound("", on="pulled", at_least=-99.0)
    def begins_somewhere(self, run):
        """It begins somewhere."""
        return run.at_first


def second_look(experiment):
    return {"second": Measurement(experiment.learner.value[:, 0])}


@pytest.fixture(autouse=True)
def built():
    BUILT.clear()
    return BUILT


@pytest.fixture(scope="module")
def trial():
    made = Trial(Pulled(), replicas=8)
    assert made.healthy
    return made


# --- measuring --------------------------------------------------------------------------------------------------------


def test_an_arm_is_measured_as_often_as_asked_with_the_seed_asked_for():
    study = Pulled()
    run = measure(study, study.arm("pulled"), replicas=3, seed=5)
    assert run["replica"].values.tolist() == [0, 1, 2]
    assert {"loss", "distance", "values", "second", "at_first", "near", "last_step"} <= set(run.data_vars)
    again, other = (measure(study, study.arm("pulled"), replicas=3, seed=seed) for seed in (5, 6))
    assert run.identical(again)
    assert not np.array_equal(run["distance"], other["distance"])


def test_it_may_end_early():
    study = Pulled()
    run = measure(study, study.arm("pulled"), replicas=2, at_most=7)
    assert run["step"].values[-1] == 7
    assert (run["last_step"] == 7).all()


def test_without_a_replica_axis_replicas_run_one_by_one(built):
    study = Pulled()
    run = measure(study, study.arm("single"), replicas=3)
    assert built == ["OneByOne"] * 3
    assert run["replica"].values.tolist() == [0, 1, 2]
    together = measure(study, study.arm("pulled"), replicas=3)
    np.testing.assert_array_equal(run["distance"], together["distance"])


@pytest.mark.parametrize(("replicas", "groups"), [(5, 2), (2, 2), (1, 1)])
def test_where_an_arm_may_stop_early_replicas_train_in_two_groups_as_in_a_run(built, replicas, groups):
    trial = Trial(Pulled(), replicas)
    whole = trial.measure(trial.arms["pulled"])
    assert built == ["Counted"]
    apart = trial.measure(replace(trial.arms["pulled"], stop_at="near"))
    assert built[1:] == ["Counted"] * groups
    assert apart["replica"].values.tolist() == [*range(replicas)]
    np.testing.assert_array_equal(apart["distance"].sel(step=0), whole["distance"].sel(step=0))
    assert len({*apart["last_step"].values}) <= groups


def test_points_of_an_arm_are_joined_over_its_axes():
    study = Pulled()
    arm = replace(study.arm("pulled"), over=(Axis("data.noise", (0.1, 0.5)),))
    assert measure(study, arm, replicas=2)["distance"].sizes["noise"] == 2


# --- a trial ----------------------------------------------------------------------------------------------------------


def test_arms_are_run_once_and_when_they_are_asked_for(built):
    trial = Trial(Pulled(), replicas=2)
    assert built == []
    trial.run("pulled"), trial.run("pulled")
    assert built == ["Counted"]
    assert trial.run("pulled") is trial.runs["pulled"]
    assert set(trial.runs) == {"pulled", "loose", "single"}
    assert trial.healthy is trial.healthy
    assert built == ["Counted", "Counted", "OneByOne", "OneByOne"]


def test_claims_are_found_by_id_and_arm(trial):
    assert set(trial.healthy) == {
        ("comes-near", "pulled"),
        ("comes-near", "loose"),
        ("comes-nearer-than-loose", "pulled"),
        ("begins-somewhere", "pulled"),
    }
    assert trial.healthy == by_name(trial.study.claims(trial.runs))
    assert trial.healthy["comes-near", "pulled"].n == 8


def test_one_claim_runs_the_arms_that_it_looks_at_and_is_as_among_all(trial, built):
    alone = Trial(Pulled(), replicas=8)
    near, nearer = ("comes-near", "pulled"), ("comes-nearer-than-loose", "pulled")
    assert alone.healthy[near] == trial.healthy[near]
    assert built == ["Counted"]
    assert alone.healthy[nearer] == trial.healthy[nearer]
    assert built == ["Counted"] * 2  # "loose", too
    for key in (("comes-near", "single"), ("comes-nearest", "pulled"), "comes-near"):  # judged on other arms; no claims
        assert key not in alone.healthy
        with pytest.raises(KeyError):
            alone.healthy[key]


def test_an_error_within_a_claim_or_an_arm_is_none_of_a_claim_that_is_not_there(monkeypatch):
    monkeypatch.setattr(Pulled.comes_near, "method", lambda self, run: run["distanse"])
    with pytest.raises(LookupError, match=r"in the claim 'comes-near' on 'pulled': there is no .*distanse"):
        ("comes-near", "pulled") in Trial(Pulled(), replicas=2).healthy  # noqa: B015
    monkeypatch.setattr(Squares, "__call__", lambda *given: {}["no such square"])
    with pytest.raises(LookupError, match="in the arm 'pulled': there is no 'no such square'"):
        Trial(Pulled(), replicas=2).healthy.get(("begins-somewhere", "pulled"))


def test_claims_that_a_study_makes_in_its_own_way_are_those(trial):
    class Renamed(Pulled):
        def claims(self, runs):
            return [replace(claim, arm=f"{claim.arm} here") for claim in super().claims(runs)]

    found = Trial(Renamed(), replicas=8).healthy
    assert found["comes-near", "pulled here"].measured == trial.healthy["comes-near", "pulled"].measured
    assert ("comes-near", "pulled") not in found


def test_what_a_fault_may_be_in_is_not_taken_for_what_arms_measure_without(monkeypatch):
    trial = Trial(Pulled(), replicas=2)
    with pytest.raises(RuntimeError, match="the arm 'pulled' was not run before"):
        trial.again("pulled")
    trial.run("pulled")
    monkeypatch.setattr(Squares, "__call__", idle)
    assert not trial.judge_again("comes-near", "pulled", "pulled").stands
    with pytest.raises(RuntimeError, match=r"the arm 'loose' was not run before .* ask for `run\('loose'\)`"):
        trial.judge_again("comes-nearer-than-loose", "pulled", "pulled")


def test_a_fault_costs_the_arms_that_its_claim_looks_at(built, monkeypatch):
    Trial(Pulled(), replicas=8).require_noticed(NOTICED, monkeypatch)
    assert built == ["Counted"] * 2


def test_some_arms_may_have_more_replicas_and_others_be_cheaper():
    study = Pulled()
    short = replace(study.arm("loose"), recipe=study.arm("loose").recipe.shortened(3))
    trial = Trial(study, replicas=2, more={"pulled": 5}, arms={"loose": short}, seed=3)
    assert {name: run.sizes["replica"] for name, run in trial.runs.items()} == {"pulled": 5, "loose": 2, "single": 2}
    assert trial.run("loose")["step"].values[-1] == 3
    assert trial.run("pulled").identical(measure(study, study.arm("pulled"), 5, 3))


def test_arms_are_run_again_and_the_others_stay(trial, built, monkeypatch):
    monkeypatch.setattr(Noisy, "build", lambda self, draws: Source(replace(self, target=99.0), draws.replicas))
    claims = trial.again("pulled")
    assert built == ["Counted"]
    assert claims["comes-near", "pulled"].measured != trial.healthy["comes-near", "pulled"].measured
    assert claims["comes-near", "loose"] == trial.healthy["comes-near", "loose"]
    assert trial.run("pulled")["distance"].max() < 50  # what was run as it is stays


def test_again_for_fewer_steps_keeps_what_is_measured_before_the_first(trial, monkeypatch):
    """So dear measurements are not made again; of a single step they are what a fault shows in."""
    monkeypatch.setattr(Squares, "__call__", idle)
    claims = trial.again("pulled", steps=2)
    assert claims["comes-near", "pulled"].measured > 10 * trial.healthy["comes-near", "pulled"].measured
    assert claims["begins-somewhere", "pulled"] == trial.healthy["begins-somewhere", "pulled"]
    calls = []
    counting = replace(trial.arms["pulled"], at_start=(lambda e: calls.append(1) or start(e),))
    trial.again(counting, steps=2)
    assert calls == []
    trial.again(counting, steps=1)
    assert calls == [1]


def test_a_variation_of_an_arm_keeps_what_it_does_not_measure(trial):
    bare = replace(trial.arms["pulled"], at_start=(), at_end=(), recipe=trial.arms["pulled"].recipe.shortened(1))
    claims = trial.again(bare)
    assert claims["begins-somewhere", "pulled"] == trial.healthy["begins-somewhere", "pulled"]
    assert claims["comes-near", "pulled"].measured > trial.healthy["comes-near", "pulled"].measured


# --- faults -----------------------------------------------------------------------------------------------------------


def idle(self, learner, source, draws):
    return 0 * learner.value.sum(-1)


NOTICED = Fault(Squares, "__call__", idle, claim="comes-near", arm="pulled")


def test_a_fault_that_its_claim_notices_passes_and_is_taken_out_by_who_planted_it(trial, built):
    with pytest.MonkeyPatch.context() as patch:
        trial.require_noticed(NOTICED, patch)
        assert Squares.__call__ is idle
    assert Squares.__call__ is not idle
    assert built == ["Counted"]  # only the claim's own arm was run again


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"line": Squares.__call__}, "comes-near on pulled is 'holds' with the fault"),
        ({"arm": "loose"}, "comes-near is not expected to hold on loose"),
        ({"verdict": "undecided"}, "comes-near on pulled is 'fails' with the fault"),
        ({"arms": ("loose",)}, "comes-near on pulled is 'holds' with the fault"),
    ],
)
def test_a_fault_that_is_not_noticed_is_said(trial, monkeypatch, changes, message):
    with pytest.raises(AssertionError, match=message):
        trial.require_noticed(replace(NOTICED, **changes), monkeypatch)


def test_a_claim_that_one_replica_leaves_undecided_notices_no_line_that_changes_nothing(monkeypatch):
    alone = Trial(Pulled(), replicas=1)
    assert alone.healthy["comes-near", "pulled"].verdict == "undecided"
    alone.require_noticed(replace(NOTICED, verdict="undecided"), monkeypatch)
    monkeypatch.undo()
    with pytest.raises(AssertionError, match="comes-near on pulled is 'undecided' with the fault"):
        alone.require_noticed(replace(NOTICED, line=Squares.__call__, verdict="undecided"), monkeypatch)


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": "fails"},
        {"steps": 30},
        {"claim": "comes-nearer-than-loose", "arms": ("pulled", "loose")},
    ],
)
def test_where_and_how_a_fault_shows_may_be_said(trial, monkeypatch, changes):
    trial.require_noticed(replace(NOTICED, **changes), monkeypatch)


def test_a_claim_that_does_not_hold_without_the_fault_notices_nothing(monkeypatch):
    trial = Trial(
        Pulled(), replicas=8, arms={"pulled": replace(Pulled().arm("loose"), name="pulled", at_start=(start,))}
    )
    with pytest.raises(AssertionError, match="comes-near on pulled fails without the fault"):
        trial.require_noticed(NOTICED, monkeypatch)


def test_what_is_noticed_must_not_be_that_the_arm_was_cut_short(trial):
    trial.require_not_for_being_short([NOTICED, replace(NOTICED, steps=30)])
    with pytest.raises(AssertionError, match="comes-near on pulled fails after 2 steps"):
        trial.require_not_for_being_short([replace(NOTICED, steps=30), replace(NOTICED, steps=2)])
