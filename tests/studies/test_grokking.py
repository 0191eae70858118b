"""The study of grokking, small: what a short run shows, what times would say, what it refuses, and planted faults.

Seed 0 is fixed. To learn the rule takes minutes. So only two numbers are trained for long enough to be fitted, which
is when no other point is right yet; other arms take two steps, and `TIMED` is told when they would have learned.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr
from early_ends import require_claims_stay

from featscope.models import DecoderNetwork
from featscope.options import ConfigError
from featscope.studies import addition
from featscope.studies.fourier_circuits.training import DecayingAdamW
from featscope.studies.grokking import Grokking, probes, times
from featscope.studies.grokking import study as module
from featscope.studies.grokking.arms import (
    FEWER,
    LARGER,
    MORE,
    NO_DECAY,
    PRINTED,
    SAME_BOTH,
    SAME_P,
    SAME_POINTS,
    same_points,
)
from featscope.testing import Fault, Trial

STUDY = Grokking(moduli=(11, 7, 5, 3), larger=13, width=16, steps=260, batch=64, lr=5e-3)
TRAINED = "k=2"


def two_steps(arm):
    return replace(arm, recipe=replace(arm.recipe, steps=2))


ARMS = {arm.name: two_steps(arm) for arm in STUDY.arms() if arm.name != TRAINED}
TRIAL = Trial(STUDY, replicas=6, arms=ARMS)
TIMED = Trial(STUDY, replicas=6, arms=ARMS)
NEVER = -1
LEARNED = {  # arm -> steps until it is fitted, and until others are right
    "k=2": (100, 800),
    "k=3": (200, 500),
    "k=4": (300, 330),
    "k=5": (400, 400),
    SAME_POINTS[2]: (200, 600),
    SAME_P[0]: (50, NEVER),
    SAME_P[2]: (300, 320),
    SAME_BOTH[1]: (150, NEVER),
    LARGER: (500, 520),
    FEWER: (100, NEVER),
    MORE: (300, 300),
    NO_DECAY[0]: (100, NEVER),
    NO_DECAY[1]: (100, NEVER),
}


def told(run, fitted, right):
    """``run`` as if it had learned at these steps, a little later from replica to replica, or else never by 1200."""
    later = xr.DataArray(20 * np.arange(run.sizes["replica"]), {"replica": run.replica}, "replica")
    slope = 3 if right > 700 else 2  # so that differences of times differ, too
    when = {"fitted": fitted + later, "generalised": right + slope * later if right != NEVER else 0 * later + NEVER}
    when |= {f"{name}{times.BEYOND}": step for name, step in when.items()}
    end = max(1200, right + 200)
    looks = np.linspace(0, end, run.sizes["step"]).round().astype(int)
    return run.assign({**when, "last_step": 0 * later + end}).assign_coords(step=looks)


@pytest.fixture(autouse=True, scope="module")
def _times():
    TIMED._measured.update({arm: told(TRIAL.run(arm), *steps) for arm, steps in LEARNED.items()})


ABOUT_TIMES = {
    "two-steps-of-learning",
    "grokking-weakens-with-k",
    "gap-weakens-with-k",
    "chance-does-not-carry-it",
    "weakens-with-the-same-points",
    "weakens-at-the-same-modulus",
    "strengthens-if-only-k-grows",
    "more-points-weaken-it",
    "larger-modulus-weakens-it",
}


def test_a_short_run_fits_and_no_more():
    for claim in ("two-steps-of-learning", "norm-falls"):
        assert TRIAL.healthy[claim, TRAINED].verdict == "holds", claim
    run = TRIAL.run(TRAINED)
    assert (run.fitted > 0).all()
    assert (run.generalised == NEVER).all()
    assert (run.accuracy.isel(step=-1) > 0.9).all()


def test_times_decide_and_never_is_a_lower_bound():
    claims = {key: claim for key, claim in TIMED.healthy.items() if key[0] in ABOUT_TIMES}
    assert {id for id, _ in claims} == ABOUT_TIMES
    for key, claim in claims.items():
        assert claim.verdict == ("holds" if claim.expected else "fails") or key == ("two-steps-of-learning", "k=3"), key
    assert "Replicas that generalised: 0 of 6." in claims["strengthens-if-only-k-grows", SAME_BOTH[1]].note


def test_what_others_do_after_a_replica_has_learned_does_not_count_for_it():
    """Alone a replica's run ends when it has learned; among others it goes on."""
    steps, norm = np.array([0.0, 100.0, 150.0, 200.0, 300.0]), np.array([30.0, 20.0, 15.0, 10.0, 2.0])
    together = xr.Dataset(
        {
            "norm": (("replica", "step"), [norm, norm, np.where(steps > 150, np.nan, norm)]),
            "learned": ("replica", [150, -1, 150]),
            "last_step": ("replica", [300, 300, 150]),
        },
        {"step": steps},
    )
    assert times.at_own_end(together, together.norm).values == pytest.approx([15.0, 2.0, 15.0])
    elsewhere = together.assign(norm=together.norm.where((together.replica == 2) | (together["step"] != 150)))
    assert times.at_own_end(elsewhere, elsewhere.norm).values == pytest.approx([15.0, 2.0, 15.0])
    lost = together.assign(norm=together.norm.where(together["step"] != 100))
    assert times.at_own_end(lost, lost.norm).isnull().all()
    between = together.isel(step=[0, 1, 3, 4])
    assert times.at_own_end(between, between.norm).values[0] == pytest.approx(15.0)  # no look when it had


def test_what_never_came_is_not_dropped():
    one = times.log_ratio(told(TRIAL.run("k=3"), 100, NEVER))
    assert np.isinf(one.high).all()
    assert (one.low <= np.log(12)).all()
    other = times.log_ratio(told(TRIAL.run("k=3"), 100, 200))
    assert (times.more(one, other) > 0).all()
    assert times.more(other, one).isnull().all()  # it may be as long as it likes
    assert times.more(one, times.Between(other.low + 9, other.high + 9)).isnull().all()  # a bound that says nothing
    unfitted = told(TRIAL.run("k=3"), 100, 200).assign(fitted=xr.full_like(TRIAL.run("k=3").fitted, NEVER))
    assert times.log_ratio(unfitted).low.isnull().all()


def test_a_lower_bound_proves_and_does_not_disprove():
    (test,) = (test for test in STUDY.tests if test.statement.id == "two-steps-of-learning")
    for fitted, verdict in ((100, "holds"), (1000, "undecided")):  # of 1200 steps
        run = told(TRIAL.run(TRAINED), fitted, NEVER)
        assert test.judge(STUDY, TRAINED, {TRAINED: run}).verdict == verdict


def test_controls_have_no_expected_claim():
    controls = {arm.name for arm in STUDY.arms() if arm.role == "control"}
    assert controls == set(NO_DECAY)
    assert not [key for key, claim in TIMED.healthy.items() if key[1] in controls and claim.expected]


def test_figures_and_story_have_the_numbers():
    drawn = {figure.id: figure for figure in STUDY.figures(TIMED.runs)}
    assert list(drawn) == ["accuracies", "ratios", "points", "progress"]
    assert [len(panel.curves) for panel in drawn["accuracies"].panels] == [3, 3, 2, 2]
    height, *_ = drawn["ratios"].series["p falls with k, as printed"]
    assert np.isfinite(height[:4]).all()
    assert (np.diff(height[:4]) < 0).all()
    story = STUDY.story(TIMED.runs, list(TIMED.healthy.values()))
    assert story.found.startswith("Grokking weakens as more numbers are added; at one k and one modulus it weakens")
    assert "are fitted after 150 steps, the others right after " in story.lede
    never = STUDY.story(TRIAL.runs, list(TRIAL.healthy.values()))
    assert "the others not right in 260 steps" in never.lede
    assert story.headlines.keys() <= {f"{id}@{arm}" for id, arm in TIMED.healthy}
    assert "Grokking may weaken as" in STUDY.story(TIMED.runs, []).found


def test_frequencies_in_use_are_a_share_whatever_the_norm():
    """Of 13 numbers: one cosine has one of six frequencies, two have two, and numbers apart have all."""
    x = torch.arange(13.0)
    one, other = (torch.cos(2 * torch.pi * frequency * x / 13) for frequency in (2, 5))
    for vectors, share in ((one[:, None], 1 / 6), (torch.stack([one, other], 1), 1 / 3), (torch.eye(13), 1.0)):
        for norm in (0.1, 3.0):
            assert float(probes.frequencies_in_use(norm * vectors[None])) == pytest.approx(share)


def test_arms_differ_in_what_they_say():
    points = {arm.name: round(arm.recipe.data.share * arm.recipe.data.count) for arm in Grokking().arms()}
    assert [points[arm] for arm in PRINTED] == [684, 666, 1200, 1562]
    assert [points[arm] for arm in SAME_POINTS] == [684, 666, 684]
    assert [points[arm] for arm in SAME_BOTH] == [666, 665]
    moduli = {arm.name: arm.recipe.data.modulus for arm in Grokking().arms()}
    assert {moduli[arm] for arm in (*SAME_P, *SAME_BOTH, FEWER, MORE)} == {11}


def test_points_are_only_called_the_same_where_they_are():
    assert same_points(Grokking()) == SAME_POINTS
    printed, few = Grokking(moduli=(97, 31, 11, 5), larger=113), Grokking(moduli=(37, 11, 5, 3))
    assert same_points(printed) == (SAME_POINTS[0], SAME_POINTS[2])  # 14,896 at k = 3 against 4,704
    assert same_points(few) == SAME_POINTS[:2]  # at most half of 625 at k = 4 against 684
    assert few.arm(SAME_POINTS[2]).about == "4 numbers modulo 5, 312 points to train on"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"moduli": (5, 3)}, "moduli = .* four numbers >= 3"),
        ({"larger": 5}, r"larger = 5 .* > moduli\[0\]"),
        ({"decay": 0.0}, r"decay = 0.0 .* > 0\. Arms without decay"),
        ({"width": 0}, "width = 0 .* >= 1"),
        ({"lr": -1.0}, "lr = -1.0 .* > 0"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        Grokking(**options)


# --- planted faults -------------------------------------------------------------------------------------------------

adamw, log_ratio, gap = DecayingAdamW.build, times.log_ratio, times.gap
BATCHES = addition.Batches.__init__


def no_decay(self, parameters):
    return adamw(replace(self, weight_decay=0.0), parameters)


def the_latest(self, name, there, step):
    self.get_buffer(name).masked_fill_(there, step)


def left_out(run, suffix=""):
    found = log_ratio(run, suffix)
    return times.Between(found.low.where(np.isfinite(found.high)), found.high)


REAL = {
    "accuracy on others is that on points to train on": Fault(
        addition.Batches, "right_on_hidden", addition.Batches.right_on_shown, "two-steps-of-learning", TRAINED
    ),
    "any accuracy will do": Fault(probes, "REACHED", 0.0, "two-steps-of-learning", TRAINED),
    "the latest time for the first": Fault(
        probes.CrossingsRule, "_first", the_latest, "two-steps-of-learning", TRAINED
    ),
    "no weight decay": Fault(DecayingAdamW, "build", no_decay, "norm-falls", TRAINED),
    "one over the norm of positions": Fault(
        DecoderNetwork,
        "norm",
        lambda self: 1 / self.position.flatten(1).square().sum(1),
        "norm-falls",
        TRAINED,
    ),
    "nothing is learned": Fault(
        addition.Batches,
        "forward",
        lambda self, learner, source, draws: 0 * learner.norm(),
        "two-steps-of-learning",
        TRAINED,
    ),
}


RERUN = (NO_DECAY[1],)  # two steps of an arm that these claims do not look at
JUDGED = {
    "fit over rule": Fault(
        module,
        "log_ratio",
        lambda run, suffix="": times.Between(-log_ratio(run, suffix).low, -log_ratio(run, suffix).low),
        "grokking-weakens-with-k",
        "k=5",
        RERUN,
    ),
    "fit less rule": Fault(
        module, "gap", lambda run: times.Between(-gap(run).low, -gap(run).low), "gap-weakens-with-k", "k=4", RERUN
    ),
    "the other less the one": Fault(
        module, "more", lambda one, other: other.low - one.low, "strengthens-if-only-k-grows", SAME_BOTH[1], RERUN
    ),
    "what never came is left out": Fault(
        module, "log_ratio", left_out, "weakens-at-the-same-modulus", SAME_P[2], RERUN
    ),
    "more points for fewer": Fault(module, "FEWER", MORE, "more-points-weaken-it", MORE, RERUN),
    "the larger modulus for the smaller": Fault(
        module, "SAME_P", (LARGER, *SAME_P[1:]), "larger-modulus-weakens-it", LARGER, RERUN
    ),
    "every k is two": Fault(module, "FIRST", "k=4", "chance-does-not-carry-it", "k=4", RERUN),
}


def test_points_to_judge_by_that_are_trained_on_are_refused(monkeypatch):
    taken = lambda self, options, source, shown, hidden: BATCHES(self, options, source, shown, shown.clone())  # noqa: E731
    monkeypatch.setattr(addition.Batches, "__init__", taken)
    with pytest.raises(ValueError, match="others are judged by are among those to train on"):
        TRIAL.measure(TRIAL.arms[TRAINED], 1)


@pytest.mark.parametrize("fault", REAL.values(), ids=REAL)
def test_a_fault_in_training_takes_holds_from_an_expected_claim(fault, monkeypatch):
    TRIAL.require_noticed(fault, monkeypatch)


@pytest.mark.parametrize("fault", JUDGED.values(), ids=JUDGED)
def test_a_fault_in_judging_takes_holds_from_an_expected_claim(fault, monkeypatch):
    TIMED.require_noticed(fault, monkeypatch)


def test_a_shard_that_stops_early_takes_no_number_from_a_claim():
    require_claims_stay(TRIAL)


def test_lines_have_replicas_whose_run_has_ended_as_they_were_then():
    runs = dict(TIMED.runs)
    steps = runs["k=2"]["step"].values
    ended = (runs["k=2"].replica == 0) & (runs["k=2"]["step"] > steps[5])
    accuracy = xr.where(ended, np.nan, 0.1 * runs["k=2"].replica + 0 * runs["k=2"].accuracy + runs["k=2"]["step"] / 1e4)
    last_step = runs["k=2"].last_step.where(runs["k=2"].replica != 0, steps[5])
    runs["k=2"] = runs["k=2"].assign(accuracy=accuracy.transpose("replica", "step"), last_step=last_step)
    line = next(iter(STUDY.figures(runs))).panels[0].curves[0]
    assert line.x.tolist() == steps[1:].tolist()
    assert line.samples[0].tolist() == [min(step, steps[5]) / 1e4 for step in steps[1:]]
    assert line.samples[1, -1] == pytest.approx(0.1 + steps[-1] / 1e4)
