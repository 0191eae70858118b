"""The study of the prediction head, small: what holds, what must not, what it refuses, and planted faults.

Seed 0 is fixed. At another seed each interval of a claim that holds misses its mean once in a hundred.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr
from early_ends import require_claims_stay
from main_arms import on_arms
from small_prediction_head import STUDY, TRIAL

from featscope.axes import numeric_options
from featscope.cli import main
from featscope.losses import NonContrastive, non_contrastive
from featscope.models import CubicPatches, IdentityHead, cubic_patches, hand_set_head
from featscope.models.population import OrderParameters, Population, PopulationNetwork
from featscope.options import ConfigError
from featscope.probes import order_parameters
from featscope.runs.shard import Shard
from featscope.streams import Streams
from featscope.studies import Axis
from featscope.studies.prediction_head import PredictionHeadStudy, probes
from featscope.studies.prediction_head.arms import PredictionHeadArms
from featscope.studies.prediction_head.probes import WIDEST, diverse, ends
from featscope.studies.prediction_head.random_weights import WITH_HEAD, WITHOUT
from featscope.studies.sweep import ARM, Sweep
from featscope.testing import Fault, measure
from featscope.theory.prediction_head import head_at_phase_one
from featscope.training import SGD, Flow, PredictOtherView, infinite_batches
from featscope.training.ema import EMARule
from featscope.training.phases import LEARNED, QUANTITIES, FrozenHeadRule, Phases

HOLD = [
    ("ode-gradient-exact", "head"),
    ("random-neurons-at-the-start", "head"),
    ("norm-head-invariant", "head"),
    ("norm-head-invariant", "no-head"),
    ("noise-decays", "no-head"),
    ("width-law", "widths"),
    ("collapse-over-widths", "widths"),
    ("phase1-time", "sizes"),
    ("diverse-neurons-decorrelate", "head"),
    ("optimum-value", "head"),
    ("loss-cannot-see-collapse", "head"),
    ("head-has-the-sign", "head"),
    ("others-stand-still", "head"),
    ("acceleration", "head"),
    ("rise-and-fall", "head"),
    ("head-makes-diverse", "head"),
    ("other-overlap-small", "head"),
    ("other-overlap-small", "no-head"),
    ("weak-grows-noise-falls", "head"),
    ("head-at-phase-one", "sizes"),
    ("phase2-scaling", "sizes"),
    ("head-returns-to-identity", "head"),
    ("phase1-scaling", "sizes"),
    ("no-stop-gradient-collapses", "no-stop-gradient"),
    ("sgd-follows-ode", "batches"),
    ("sphere-views-agree", "batches-sphere"),
    ("symmetric-head-baseline", "hand-set-gap"),
]
DO_NOT = [
    ("norm-head-invariant", "no-normalization"),
    ("no-head-selection-rule", "head"),
    ("diverse-without-conditions", "head"),
    ("third-phase", "head"),
    ("one-neuron-leads-at-the-start", "head"),
    ("borrowing-is-quick", "head"),
    ("collapse-without-head", "equal-no-head"),
    ("neurons-correlate", "head"),
    ("any-width-collapses", "widths"),
    ("head-rescues", "no-head"),
    ("head-rescues", "frozen-head"),
    ("fast-gives-way-to-the-head", "head"),
    ("sphere-collapses", "batches-sphere"),
    ("sgd-head-rescues", "batches-no-head"),
    ("symmetric-head-baseline", "hand-set-equal"),
]


@pytest.mark.parametrize("claim", on_arms(HOLD, "head", "no-head"))
def test_what_is_expected_stands_already_at_this_size(claim: tuple[str, str]):
    """Few replicas leave some of it undecided."""
    assert TRIAL.healthy[claim].expected
    assert TRIAL.healthy[claim].verdict != "fails"
    assert TRIAL.healthy[claim].stands


@pytest.mark.parametrize("claim", on_arms(DO_NOT, "head", "no-head"))
def test_what_is_not_expected_does_not_hold(claim: tuple[str, str]):
    assert not TRIAL.healthy[claim].expected
    assert TRIAL.healthy[claim].verdict != "holds"


@pytest.mark.long
def test_every_statement_is_put_to_the_test_and_no_claim_is_made_twice():
    claims = STUDY.claims(TRIAL.runs)
    assert {claim.id for claim in claims} == {statement.id for statement in PredictionHeadStudy.statements()}
    assert len(TRIAL.healthy) == len(claims)


@pytest.mark.long
def test_figures_have_numbers():
    for figure in STUDY.figures(TRIAL.runs):
        for panel in getattr(figure, "panels", ()):
            assert all(np.isfinite(curve.y).any() for curve in panel.curves), (figure.id, panel.title)


@pytest.mark.long
@pytest.mark.parametrize(
    ("rescues", "said"),
    [
        ({}, "replica 0, start 0: the head rescues none of those kept."),
        ({(2, 3): 1.0, (3, 1): 1.0}, "replica 2, start 3: the first that the head rescues."),
        ({(1, 12): 1.0}, "replica 0, start 0: the head rescues none of those kept."),  # paths of 8 starts are kept
        ({(0, 0): np.nan, (0, 1): 1.0}, "replica 0, start 1: the first that the head rescues."),
    ],
)
def test_the_trajectory_that_is_shown_is_called_what_it_is(rescues: dict[tuple[int, int], float], said: str):
    run = TRIAL.run("head")
    ended = xr.zeros_like(run.diverse, dtype=float)
    for (replica, start), value in rescues.items():
        ended[{"replica": replica, "start": start}] = value
    head = run.assign(diverse=ended, predicted_collapse=xr.ones_like(ended))
    figures = STUDY.figures({**TRIAL.runs, "head": head})
    (phases,) = (figure for figure in figures if figure.id == "phases")
    assert said in phases.caption


@pytest.mark.long
def test_the_story_has_the_shares_and_turns_with_what_was_found():
    claims, runs = list(TRIAL.healthy.values()), TRIAL.runs
    story = STUDY.story(runs, claims)
    saved = f"{100 * float(diverse(runs['head']).mean()):.0f} %"
    words = {"holds": "saves", "fails": "does not save", "undecided": "may save"}[
        TRIAL.healthy["head-rescues", "head"].verdict
    ]
    assert f"A prediction head {words} most networks bound to learn one feature: {saved} learn both" in story.found
    assert story.headlines.keys() <= {f"{claim.id}@{claim.arm}" for claim in claims}
    for arm, value, said in (("head", 0, "does not save"), ("no-head", 1, "is not what saves")):
        changed = {**runs, arm: runs[arm].assign(diverse=runs[arm].diverse * 0 + value)}
        assert said in STUDY.story(changed, STUDY.claims(changed)).found
    unsettled = {**runs, "head": runs["head"].assign(mixed=runs["head"].mixed * 0 + 1)}
    assert "had no time to save" in STUDY.story(unsettled, claims).found
    none = runs["head"].assign(predicted_collapse=runs["head"].predicted_collapse * 0)
    with np.errstate(invalid="ignore"):
        assert "an unknown amount learn both with it" in STUDY.story({**runs, "head": none}, []).found


def test_the_same_starts_with_and_without_head():
    with_head, without = TRIAL.run("head"), TRIAL.run("no-head")
    np.testing.assert_array_equal(with_head["predicted_collapse"], without["predicted_collapse"])
    np.testing.assert_array_equal(with_head["start_overlap"], without["start_overlap"])


def test_the_head_while_the_strong_feature_is_learned():
    """Against the equation itself where features are weak and the other overlap stays."""
    found = head_at_phase_one(0.001, 0.1, 0.4, 0.9, 1.1, rate=0.3)
    np.testing.assert_allclose(found, 0.1 * (0.9 / 1.1) ** 3 * 1e-9 * (1 / 0.1 - 1 / 0.4), rtol=1e-6)
    assert head_at_phase_one(0.08, 0.1, 0.4, 0.9, 1.1, rate=0.3) > 0.08**3 / 0.001**3 * found


def test_phases_part_what_is_watched():
    run = TRIAL.run("head")
    low, high = ends(run, 1, "B_11")
    assert high.where(np.isfinite(high)).min() >= LEARNED
    assert (low <= high).where(np.isfinite(low), True).all()


def test_times_follow_each_other():
    run = TRIAL.run("head")
    weak, returned = run["time_weak_learned"].values, run["time_returned"].values
    assert np.isfinite(returned).any()
    assert (weak[np.isfinite(returned)] < returned[np.isfinite(returned)]).all()


def test_what_is_left_is_of_the_worse_neuron_and_rescue_of_starts_that_would_collapse():
    """Of three starts two would collapse, and one of them ends diverse; the third is diverse without being rescued."""

    def packed(b, r):
        b, r = (torch.tensor(one, dtype=torch.float64) for one in (b, r))
        return OrderParameters(b[..., None], r.diag()[..., None], torch.zeros(2, 2, 1).double()).pack()[:, 0]

    strong, weak = [[1.0, 0.1], [0.9, 0.1]], [[1.0, 0.1], [0.1, 1.0]]
    start = torch.stack([packed(b, (1.0, 1.0)) for b in (strong, strong, weak)])[None]
    end = torch.stack([packed(b, r) for b, r in ((weak, (0.04, 0.15)), (strong, (0.08, 0.0)), (weak, (0.0, 0.0)))])
    of = Population.alike(1, (1.0, 1.0), (2.0, 2.0), 3.0, noise_std=1.0, rate=0.25)
    flow = Flow(PopulationNetwork(start.clone(), 2, of), 1.0, Streams(0, range(1)), {"phases": Phases(50)})
    with torch.no_grad():
        flow.learner.state.copy_(end[None])
    found = {name: one.values[0] for name, one in probes.outcomes(flow).items()}
    assert found["predicted_collapse"].tolist() == [1, 1, 0]
    assert found["diverse"].tolist() == [1, 0, 1]
    assert float(found["rescued"]) == 0.5
    assert found["other_overlap"].tolist() == pytest.approx([0.1] * 3)
    assert found["residual"].tolist() == pytest.approx([0.4, 0.3, 0.1])


def judged(id, arm, runs, study=STUDY):
    """One claim on one arm."""
    (test,) = (test for test in study.tests if test.statement.id == id)
    return test.judge(study, arm, runs)


def test_batches_are_compared_with_a_flow_that_goes_on_as_long_as_they_do():
    """500 steps of 0.01 are 5 units of time; a flow of one unit stands still for the rest of them."""
    study = replace(STUDY, duration=1.0, steps=500)
    flow, batches = study.arm("batches-flow"), measure(study, study.arm("batches-average"), 2)
    stopped = replace(flow, recipe=replace(flow.recipe, duration=1.0))
    beside = [measure(study, one, 2) for one in (flow, stopped)]
    assert [float(one["time"].max()) for one in beside] == [5.0, 1.0]
    far = [
        judged("average-makes-no-difference", "batches-average", {"batches-flow": one, "batches-average": batches})
        for one in beside
    ]
    assert far[0].measured < 0.8 * far[1].measured
    assert STUDY.arm("batches-flow").recipe.duration == STUDY.duration


def test_a_share_of_wide_networks_counts_as_many_as_the_arm_has():
    study = replace(STUDY, starts=100)
    claim = judged("any-width-collapses", "widths", {"widths": TRIAL.run("widths")}, study)
    neurons = study.arm("widths").recipe.start.starts
    assert set(claim.trials) == {neurons / WIDEST}


def test_a_share_of_collapse_that_does_not_depend_on_the_ratio_is_noticed():
    """That is right on average over the axis: the law has 0.96 to 0.40."""
    weak, chance = xr.DataArray([0.4, 1.0, 2.0, 3.0], dims="weak"), np.random.default_rng(0)
    law = (1 - 2 / np.pi * np.arctan((weak / 4) ** 1.5)) ** 2
    for share, verdict in ((law, "holds"), (0 * law + 0.7, "fails")):
        below = chance.random((8, 50, 4)) < share.values
        ended = xr.DataArray(below.astype(float), dims=("replica", "start", "weak"))
        run = xr.Dataset({"collapsed": ended, "mixed": 0 * ended}).assign_coords(weak=weak.values)
        assert judged("collapse-probability", "ratios", {"ratios": run}).verdict == "holds"
        assert judged("collapse-over-ratios", "ratios", {"ratios": run}).verdict == verdict


def test_a_share_of_collapse_that_does_not_depend_on_the_width_is_noticed():
    run, chance = TRIAL.run("widths"), np.random.default_rng(0)
    made_up = 0.48 + 0.02 * chance.normal(size=run.all_collapsed.shape)
    runs = {"widths": run.assign(all_collapsed=0 * run.all_collapsed + made_up)}
    assert judged("width-law", "widths", runs).verdict == "holds"
    assert judged("collapse-over-widths", "widths", runs).verdict == "fails"


def test_a_neuron_that_has_learned_nothing_has_no_feature():
    run = TRIAL.run("random-batches")
    for size, share in ((0.9, 1.0), (0.2, 0.0)):
        then = xr.DataArray([[0.9, 0.01], [0.01, size]], dims=("neuron", "feature"))
        changed = run.assign(overlap=0 * run.overlap + then)
        for stored in (changed, changed.drop_vars("unrescued")):  # as before there was this event
            claim = judged("random-start-sgd", "random-batches", {"random-batches": stored})
            assert claim.measured == share
            assert "none of 400" not in claim.note


@pytest.mark.long
def test_what_is_not_rescued_in_time_is_left_out_and_the_rest_is_judged():
    """As in 1,000 dimensions, or of a slow head."""
    study = replace(STUDY, head=replace(STUDY.head, rate=0.01))
    run = measure(study, study.arm("random-batches"), 1)
    assert run.last_step.item() == 0
    claim = judged("random-start-sgd", "random-batches", {"random-batches": run}, study)
    said = "in 1 of 1 replicas infinite batches rescue none of 400 random weights by time 60"
    assert said in claim.note
    assert np.isnan(claim.measured)
    claims, healthy = list(TRIAL.healthy.values()), TRIAL.runs
    assert said in STUDY.story({**healthy, "random-batches": run}, claims).found
    assert "random weights" not in STUDY.story(healthy, claims).found


@pytest.mark.parametrize(
    ("changed", "so"),
    [
        ({}, (1.0, 1.0)),
        ({"R_2": 0.4}, (0.0, 1.0)),
        ({"R_12": 0.5}, (0.0, 1.0)),
        ({"B_11": 0.45}, (0.0, 1.0)),
        ({"B_21": 0.14}, (1.0, 0.0)),
        ({"B_22": 0.03}, (1.0, 0.0)),
        ({"B_22": np.nan}, (np.nan, np.nan)),
    ],
)
def test_starts_are_told_apart_by_each_of_their_numbers(changed: dict[str, float], so: tuple[float, float]):
    run, start = TRIAL.run("head"), {"B_11": 0.15, "B_12": 0.1, "B_21": 0.1, "B_22": 0.1, "R_1": 1, "R_2": 1, "R_12": 0}
    seen = run["moments"].copy()
    for name, value in (start | changed).items():
        seen[{"moment": 0, "quantity": QUANTITIES.index(name)}] = value
    runs = {"head": run.assign(moments=seen)}
    names = ("random-neurons-at-the-start", "one-neuron-leads-at-the-start")
    np.testing.assert_equal([judged(name, "head", runs).measured for name in names], so)


def test_arms_follow_the_strong_feature():
    """They set a weak one, which is never the stronger; at the default it is 3 of 4."""
    for strong, weak in ((4.0, 2.0), (2.5, 1.0)):
        study = replace(STUDY, data=replace(STUDY.data, strong=strong, weak=weak))
        arms = [arm for arm in study.arms() if hasattr(arm.recipe, "data")]
        of = {arm.name: (arm.recipe.data.strong, arm.recipe.data.weak) for arm in arms}
        equal, on_batches = {"rare-weak", "equal-no-head"}, {name for name in of if "batches" in name}
        assert {of[name] for name in equal} == {(0.75 * strong, 0.75 * strong)}
        assert {of[name] for name in on_batches} == {(strong, 0.75 * strong)}
        assert {of[name] for name in of.keys() - equal - on_batches} == {(strong, weak)}
        over = {arm.name: axis.values for arm in arms for axis in arm.over if axis.name == "weak"}
        assert over == {"sizes": (strong / 4, strong / 2), "ratios": tuple(x * strong for x in (0.1, 0.25, 0.5, 0.75))}
    run = TRIAL.run("sizes")
    other = {"sizes": run.assign_coords(weak=run.weak / 2)}
    assert judged("phase1-scaling", "sizes", other).measured == TRIAL.healthy["phase1-scaling", "sizes"].measured


def test_what_options_do_not_reach_is_said():
    """Numbers in the help are those of the arms."""
    about = " ".join(PredictionHeadArms.__doc__.split())
    random, given = STUDY.arm("random-batches").recipe, STUDY.arm("batches").recipe
    assert f"`random-batches` and its twin have {random.objective.samples} samples" in about
    assert f"that of `random-batches` and its twin is {random.optimizer.lr:g}" in about
    assert f"until {random.flow.duration:g} where it chooses the random weights of `random-batches`" in about
    assert f"on batches from given overlaps its rate is {given.learner.head.rate:g}" in about
    assert f"{given.data.patches} patches" in about
    assert f"from given overlaps in {given.data.input_dim} dimensions" in about


def test_collapse_is_compared_after_as_many_steps():
    def of(shares):
        steps = 100 * np.arange(len(shares))
        values = {"one_line": (("replica", "step"), [shares] * 2), "last_step": ("replica", [steps[-1]] * 2)}
        return xr.Dataset(values, {"step": steps, "replica": [0, 1]})

    longer = of([0.5, 0.6, 0.9])
    runs = {"batches-sphere": of([0.5, 0.55]), "batches-no-head": longer, "batches": longer}
    assert judged("sphere-collapses-less", "batches-sphere", runs).measured == pytest.approx(-0.05)


def test_a_sweep_over_all_numbers_is_one_program():
    """Which find what they find alone, see `tests/training/test_infinite_batches.py`."""
    values = {"data.strong": 3.0, "data.weak": 1.5, "data.strong_share": 0.3, "data.noise_std": 0.8, "head.rate": 0.4}
    numbers = numeric_options(STUDY)
    axes = [Axis(option, (numbers[option], other)) for option, other in {**values, "duration": 1e4}.items()]
    sweep = Sweep(STUDY, tuple(axes))
    (program,) = Shard(sweep, sweep.arm(ARM), range(1), 0, "cpu").build()
    assert len(program.parts) == 2 ** len(axes)
    assert isinstance(program.whole.duration, torch.Tensor)


def test_a_sweep_over_what_the_flow_does_not_know_is_refused():
    with pytest.raises(ConfigError, match="changes nothing in the arm 'head'"):
        Sweep(STUDY, (Axis("optimizer.lr", (0.01, 0.02)),))


def test_wrong_options_are_named(capsys):
    with pytest.raises(ConfigError, match="starts = 0 is out of range: allowed is >= 1"):
        PredictionHeadStudy(starts=0)
    with pytest.raises(ConfigError, match=r"allowed is the loss NonContrastive\(\) as it is"):
        PredictionHeadStudy(objective=PredictOtherView(loss=NonContrastive("l2"))).arms()
    with pytest.raises(ConfigError, match="allowed is a learner of width 2"):
        PredictionHeadStudy(learner=CubicPatches(width=3)).arms()
    with pytest.raises(ConfigError, match=r"allowed is data with weak <= strong\. Raise --data\.strong, or lower"):
        replace(STUDY, data=replace(STUDY.data, weak=8.0)).arms()
    assert replace(STUDY, data=replace(STUDY.data, weak=4.0)).arms()  # where a sweep may end
    with pytest.raises(
        ConfigError, match=r"allowed is a learner with overlaps None\. Those that are given are the arm"
    ):
        replace(STUDY, learner=CubicPatches(overlaps=(0.3, 0.05, 0.12, 0.15))).arms()
    with pytest.raises(ConfigError, match=r"allowed is an optimizer with weight_decay 0\. The flow beside it has none"):
        replace(STUDY, optimizer=SGD(lr=0.01, weight_decay=0.1)).arms()
    with pytest.raises(SystemExit, match="2"):
        main(["run", "prediction-head", "--head.rate", "-1"])
    assert "--head.rate = -1.0 is out of range: allowed is > 0" in " ".join(capsys.readouterr().err.split())


# --- Planted faults: each takes the word "holds" from a claim that expects it -----------------------------------------

velocity, products, build_sgd = Population.velocity, Population.noise_products, SGD.build
start_of = infinite_batches.random_start
by_role, begin, normalized = OrderParameters.by_role, IdentityHead.__init__, NonContrastive.normalized


def without_the_three(self, packed, neurons):
    """(A.2) as printed: no factor 3 in what overlaps do."""
    moved = velocity(self, packed, neurons)
    return torch.cat([moved[: 2 * neurons] / 3, moved[2 * neurons :]])


def all_noise_patches(self, packed, neurons):
    """C2 as printed: all noise patches, not those of a view."""
    return velocity(replace(self, noise_patches=2 * self.noise_patches), packed, neurons)


def only_fourth_moments(self, r):
    """Noise products without the cube of the inner product."""
    return products(self, r) - self.noise * 6 * r**3


def rate_itself(self, off_diagonal, rate):
    """The head's step is multiplied with the square of its rate."""
    begin(self, off_diagonal, rate**2)


def goes_on(keys):
    """Targets are no constants."""
    return keys


def overlapping(z, in_first):
    """Both views are the whole sample: all noise is shared."""
    whole = (z**3).sum(-2)
    return whole, whole


def no_stop(self, packed, neurons):
    """Targets are differentiated."""
    return velocity(replace(self, stop_gradient=False), packed, neurons)


def frozen_head(self, packed, neurons):
    """The head never moves."""
    return velocity(replace(self, rate=0 * self.rate), packed, neurons)


def slow_first(self, fast):
    """Fast and slow are exchanged."""
    return by_role(self, 1 - fast)


def never_back(self, packed, neurons):
    """What the head has it keeps: a fault late in training only."""
    moved = velocity(self, packed, neurons)
    head = moved[-neurons * (neurons - 1) :]
    head[packed[-len(head) :].real * head.real < 0] = 0
    return moved


def twice_as_long(draws, starts, input_dim, neurons):
    """Weights have the variance 4/d."""
    packed = start_of(draws, starts, input_dim, neurons)
    overlaps, products = 2 * neurons, neurons * (neurons + 1) // 2
    packed[..., :overlaps] *= 2
    packed[..., overlaps : overlaps + products] *= 4
    return packed


def hardly_choosy(self, packed, neurons):
    """Overlaps grow with |B| where it should be B squared: what is behind catches up."""
    moved = velocity(self, packed, neurons)
    return torch.cat([moved[: 2 * neurons] / packed[: 2 * neurons].abs().clamp_min(1e-9), moved[2 * neurons :]])


def ten_times_the_rate(self, packed, neurons):
    """The head is ten times too fast."""
    return velocity(replace(self, rate=10 * self.rate), packed, neurons)


def hardly_moving(self, packed, neurons):
    return 1e-9 * velocity(self, packed, neurons)


def half_of_the_head(self, f):
    """The head's own gradient is halved, and nothing else is."""
    lent = f @ ((self.off_diagonal + self.off_diagonal.detach()) / 2).mT
    return f + lent


def not_tied(self, packed, neurons):
    return velocity(replace(self, tied=False), packed, neurons)


def normalised(self, packed, neurons):
    """Outputs are normalised where they should be as they are."""
    return velocity(replace(self, normalization="batch"), packed, neurons)


def no_head(self, f):
    """What the head makes of outputs is left out."""
    return f


def at_rest(self, parameters):
    return build_sgd(replace(self, lr=1e-9), parameters)


def over_the_batch(self, f):
    """Outputs are normalised over the batch where each should have norm 1."""
    return normalized(replace(self, normalization="batch"), f)


def in_the_system(where, name, line):
    return Fault(where, name, line, "ode-gradient-exact", "head", steps=1)


def a_tenth_moved(*of):
    found = order_parameters.substitution(*of)
    return found._replace(others_moved=found.others_moved / 10)


def on_the_way(where, name, line, claim):
    return Fault(where, name, line, claim, "head", steps=450)


FAULTS = {
    "without the 3": in_the_system(Population, "velocity", without_the_three),
    "all noise patches": in_the_system(Population, "velocity", all_noise_patches),
    "only fourth moments": in_the_system(Population, "noise_products", only_fourth_moments),
    "views overlap": in_the_system(cubic_patches, "views_of_cubes", overlapping),
    "targets are differentiated": in_the_system(non_contrastive, "stop_gradient", goes_on),
    "rate itself": Fault(IdentityHead, "__init__", rate_itself, "sgd-follows-ode", "batches"),
    "flow without the 3": Fault(
        Population, "velocity", without_the_three, "sgd-follows-ode", "batches", arms=("batches-flow",)
    ),
    "flow without stop-gradient": on_the_way(Population, "velocity", no_stop, "acceleration"),
    "frozen head": on_the_way(Population, "velocity", frozen_head, "acceleration"),
    "the head never returns": on_the_way(Population, "velocity", never_back, "rise-and-fall"),
    "frozen head, of all starts": on_the_way(Population, "velocity", frozen_head, "head-makes-diverse"),
    "hardly choosy": on_the_way(Population, "velocity", hardly_choosy, "other-overlap-small"),
    "slow first, on the way": on_the_way(OrderParameters, "by_role", slow_first, "weak-grows-noise-falls"),
    "flow with a fast head": Fault(
        Population, "velocity", ten_times_the_rate, "sgd-head-follows-ode", "batches", arms=("batches-flow",)
    ),
    "a tie that is not there": Fault(
        Population, "velocity", not_tied, "tied-head-is-symmetric", "tied-head", verdict="fails"
    ),
    "outputs that are not as they are": Fault(
        Population, "velocity", normalised, "tied-head-is-symmetric", "no-normalization"
    ),
    "half of Algorithm 1's pull on the head": in_the_system(IdentityHead, "forward", half_of_the_head),
    "Algorithm 1 at rest": Fault(SGD, "build", at_rest, "sgd-without-head-collapses", "batches-no-head"),
    "a flow at rest, without stop-gradient": Fault(
        Population, "velocity", hardly_moving, "no-stop-gradient-collapses", "no-stop-gradient"
    ),
    "a tenth of what moved": on_the_way(probes, "substitution", a_tenth_moved, "starts-are-told-by-their-paths"),
    "long starts": Fault(
        infinite_batches, "random_start", twice_as_long, "random-neurons-at-the-start", "head", steps=1
    ),
    "slow first": on_the_way(OrderParameters, "by_role", slow_first, "head-has-the-sign"),
    "spheres of the batch": Fault(NonContrastive, "normalized", over_the_batch, "sphere-views-agree", "batches-sphere"),
    "no decay": Fault(hand_set_head, "DECAY", 0.0, "symmetric-head-baseline", "hand-set-gap"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_takes_holds_from_an_expected_claim(name: str, monkeypatch: pytest.MonkeyPatch):
    TRIAL.require_noticed(FAULTS[name], monkeypatch)


@pytest.mark.long
def test_faults_are_not_noticed_for_being_short():
    TRIAL.require_not_for_being_short(list(FAULTS.values()))


@pytest.mark.parametrize("name", ["head_peak", "head_end", "slow_norm", "others_moved"])
def test_what_is_told_of_starts_is_compared_with_their_paths(name: str):
    (test,) = (test for test in STUDY.tests if test.statement.id == "starts-are-told-by-their-paths")
    run = TRIAL.run("head")
    told = run.assign({name: run[name] / 2})
    assert test.judge(STUDY, "head", {"head": run}).verdict == "holds"
    assert test.judge(STUDY, "head", {"head": told}).verdict == "fails"


@pytest.mark.long
def test_an_average_that_averages_nothing_is_not_behind(monkeypatch: pytest.MonkeyPatch):
    name, arm = "the-average-is-behind", "batches-average"
    assert TRIAL.healthy[name, arm].measured > 1e-3
    beside = {"batches": TRIAL.run("batches")}
    monkeypatch.setattr(torch.Tensor, "lerp_", lambda mean, now, share: mean.copy_(now))
    (test,) = (test for test in TRIAL.study.tests if test.statement.id == name)
    assert test.judge(TRIAL.study, arm, beside | {arm: TRIAL.measure(TRIAL.arms[arm])}).measured < 1e-4


def test_a_frozen_head_stays_where_it_is(monkeypatch: pytest.MonkeyPatch):
    """And the fast neuron gives way, which it does not if the head is never frozen."""
    name, arm = "fast-gives-way-to-the-head", "frozen-head"
    run, claim = TRIAL.run(arm), TRIAL.healthy[name, arm]
    came = (run.time_weak_learned < np.inf) & (run.predicted_collapse > 0)
    assert came.any()
    risen = run.head_end.where(came) / run.head_peak
    assert float(risen.median()) > 0.9  # in some the head was falling already when the slow neuron had borrowed
    monkeypatch.setattr(FrozenHeadRule, "forward", lambda *_: None)
    assert TRIAL.judge_again(name, arm, arm).measured < claim.measured / 2


@pytest.mark.long
def test_a_target_that_never_follows_is_noticed(monkeypatch: pytest.MonkeyPatch):
    """The planted fault of `average-makes-no-difference`, which takes all steps of a default run to see."""
    arm = STUDY.arm("batches-average")
    arm = replace(arm, recipe=replace(arm.recipe, steps=6000))
    test = next(test for test in STUDY.tests if test.statement.id == "average-makes-no-difference")
    beside = {"batches-flow": TRIAL.run("batches-flow")}
    sound = test.judge(STUDY, arm.name, {**beside, arm.name: measure(STUDY, arm, 8)})
    assert sound.verdict != "fails"  # 8 replicas leave it undecided, as the study's own do
    assert sound.stands
    monkeypatch.setattr(EMARule, "forward", lambda *_: None)
    assert test.judge(STUDY, arm.name, {**beside, arm.name: measure(STUDY, arm, 8)}).verdict == "fails"


@pytest.mark.long
def test_from_random_weights_claims_notice_a_head_that_does_nothing(monkeypatch: pytest.MonkeyPatch):
    """The planted faults of the two claims of random weights, which take thousands of steps to see."""
    study = PredictionHeadStudy(steps=4500)
    with_head, alone = (measure(study, study.arm(name), 2) for name in (WITH_HEAD, WITHOUT))
    of_head, of_none = ("sgd-head-learns-both-features", WITH_HEAD), ("sgd-without-head-learns-the-strong", WITHOUT)

    def found(claim, run):
        return judged(*claim, {claim[1]: run}, study).measured

    assert found(of_head, with_head) > 0.7
    assert found(of_none, alone) > 0.5
    assert found(of_none, with_head) < 0.3  # as if that arm had a head, too
    monkeypatch.setattr(IdentityHead, "forward", no_head)
    assert found(of_head, measure(study, study.arm(WITH_HEAD), 2)) < 0.3
    monkeypatch.setattr(SGD, "build", at_rest)
    assert found(of_none, measure(study, study.arm(WITHOUT), 2, at_most=50)) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.long
def test_outputs_of_norm_1_collapse_less_unless_they_are_normalised_over_the_batch(monkeypatch: pytest.MonkeyPatch):
    """The planted fault of `sphere-collapses-less`, which takes 2,000 steps to see."""
    long = STUDY.arm("batches-no-head"), STUDY.arm("batches-sphere")
    alone, sphere = (replace(arm, recipe=replace(arm.recipe, steps=2000)) for arm in long)
    test = next(test for test in STUDY.tests if test.statement.id == "sphere-collapses-less")
    runs = {"batches": TRIAL.run("batches"), "batches-no-head": measure(STUDY, alone, 4)}
    assert test.judge(STUDY, sphere.name, {**runs, sphere.name: measure(STUDY, sphere, 4)}).measured < -0.05
    monkeypatch.setattr(NonContrastive, "normalized", over_the_batch)
    assert test.judge(STUDY, sphere.name, {**runs, sphere.name: measure(STUDY, sphere, 4)}).measured > -0.05


@pytest.mark.long
def test_a_shard_that_stops_early_takes_no_number_from_a_claim():
    require_claims_stay(TRIAL)
