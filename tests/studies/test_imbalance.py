"""The study of imbalance as a whole, small: what holds, what must not, and what claims make of measurements.

Seed 0 is fixed. At another seed each interval of a claim that holds misses its mean once in a hundred.
"""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr
from small_imbalance import CHEAP, HARDLY_ANY, STUDY, TRIAL, sampling

from featscope.axes import numeric_options, with_options
from featscope.claims import Claim, Found
from featscope.data import SparseTokens, SparseTokensSource
from featscope.losses import InfoNCE
from featscope.models import TokenMLP, TokenMLPNetwork
from featscope.options import ConfigError
from featscope.runs.execute import Settings, run
from featscope.runs.shard import Shard
from featscope.runs.stored import read_trajectory
from featscope.streams import Streams
from featscope.studies import Axis
from featscope.studies.imbalance import Imbalance, probes
from featscope.studies.sweep import Sweep
from featscope.testing import by_name, measure
from featscope.theory.imbalance import Census, activities
from featscope.training import SGD, BiasSchedule, ContrastivePairs, GradientTraining

HOLD = [
    "stage1-identity",
    "stage1-identity-off-features",
    "stage1-identity-negatives",
    "stage1-of-every-neuron",
    "mean-token-noise",
    "stage1-growth-majority",
    "stage1-growth-minority",
    "nonfeature-decay",
    "stage1-duration",
    "growth-ratio-exponential",
    "features-per-neuron",
    "lucky-census",
    "minority-alignment-rises",
    "minority-count-rises",
    "cosine-rises",
    "minority-mse-falls",
    "heatmap-majority-first",
    "heatmap-dominating-neuron",
    "stage3-offfeature-small",
    "heads-are-tested-on-fresh-pairs",
    "gradient-formula",
    "pseudo-loss-gradient",
    "pseudo-loss-value",
    "pseudo-loss-convex",
    "common-frequency",
    "rare-frequency",
    "signs-symmetric",
    "pairs-share-signals",
    "dictionary-flat",
    "initial-norms",
    "initial-features",
    "few-absent-at-start",
    "few-strong-at-start",
    "noise-tail",
    "signal-tail",
    "logit-deviation-order",
    "logits-uniform-in-stage1",
    "batches-concentrate",
    "replicas-independent",
    "samples-independent",
    "lucky-at-t1-as-proved",
    "others-at-t1",
    "few-features-at-t1",
    "off-features-at-t1",
    "thresholds-set",
    "thresholds-rise",
    "thresholds-capped",
    "stage2-duration",
    "stage2-growth",
    "lucky-above-thresholds",
    "others-below-thresholds",
    "few-features-at-t2",
    "lucky-at-t2",
    "lucky-win",
    "luck-decides",
    "ends-in-features",
    "few-features-held",
    "pure-neurons",
    "norms-bounded",
    "amplitudes-below-tau",
    "fires-for-its-own",
    "silent-without-its-own",
    "fires-rarely",
    "loss-falls",
    "average-beats-optimal-learner",
    "step-is-the-papers",
    "growth-with-masking",
    "growth-under-softmax",
    "growth-under-linear-exactly",
    "noise-and-alignment",
    "noise-lowers-cosine",
    "minority-count-curve",
    "minority-alignment-curve",
    "cosine-curve",
    "minority-mse-curve",
    "attention-is-not-uniform",
    "late-amplitudes-are-alike",
    "few-neurons-do",
]
FAIL = [
    "few-share-two-features",
    "stage1-duration-in-d1",
    "growth-ratio-linear",
    "lucky-lower-bound",
    "strong-neurons-are-lucky",
    "amplitude-law",
    "optimal-learner-loss",
    "lucky-at-t1",
    "thresholds-large",
    "ends-off-features",
    "neurons-of-a-feature",
    "model-size-needed",
    "average-loss",
    "growth-as-if-unmasked",
    "growth-under-linear",
    "heatmap-every-neuron",
]
TOO_FEW_REPLICAS = [
    "noise-raises-error",
    "lucky-share-at-t2",
    "shared-as-the-law-says",
    "mse-falls",
    "lucky-lead",
    "training-beats-optimal-learner",
    "ideal-error",
]
TOO_FEW_STEPS = [("late-amplitudes-are-alike", "late")]
"""In 200 rare features have not caught up, 0.88; they have in the fewer dimensions of `heat-map-unbiased`."""


@pytest.mark.long
@pytest.mark.parametrize("id", HOLD)
def test_what_is_expected_holds_already_at_this_size(id):
    assert [claim for claim in TRIAL.healthy.values() if claim.id == id and claim.expected and claim.verdict == "holds"]


@pytest.mark.long
@pytest.mark.parametrize("id", FAIL)
def test_what_the_papers_get_wrong_fails_already_at_this_size(id):
    found = [claim for claim in TRIAL.healthy.values() if claim.id == id]
    assert [claim for claim in found if not claim.expected and claim.verdict == "fails"]


@pytest.mark.long
def test_no_expected_claim_fails():
    expected = [claim for claim in TRIAL.healthy.values() if claim.expected]
    assert {claim.id for claim in expected} == {*HOLD, *TOO_FEW_REPLICAS}
    assert [(claim.id, claim.arm) for claim in expected if claim.verdict == "fails"] == TOO_FEW_STEPS


@pytest.mark.long
def test_every_statement_is_put_to_the_test_and_no_claim_is_made_twice():
    claims = STUDY.claims(TRIAL.runs)
    assert {claim.id for claim in claims} == {statement.id for statement in Imbalance.statements()}
    assert len({(claim.id, claim.arm) for claim in claims}) == len(claims)
    for claim in claims:
        assert claim.source
        assert claim.note
        assert claim.measures
        assert "as above" not in claim.statement
        assert (claim.relation == "=") == (claim.kind in ("identity", "scaling"))


@pytest.mark.long
def test_on_the_control_nothing_holds():
    control = [claim for claim in TRIAL.healthy.values() if claim.arm == "heat-map-balanced"]
    assert {claim.id for claim in control} == {"heatmap-majority-first", "heatmap-every-neuron"}
    assert not any(claim.expected or claim.verdict == "holds" for claim in control)
    assert [arm.name for arm in STUDY.arms() if arm.role == "control"] == ["heat-map-balanced"]


@pytest.mark.long
def test_closed_forms_of_uniform_attention_are_not_expected_under_another():
    softmax = replace(STUDY, learner=replace(STUDY.learner, attention="softmax"))
    expected = {claim.id for claim in softmax.claims(TRIAL.runs) if claim.expected}
    assert {claim.id for claim in TRIAL.healthy.values() if claim.expected} - expected == {
        "stage1-identity",
        "stage1-identity-off-features",
        "stage1-identity-negatives",
        "stage1-of-every-neuron",
        "mean-token-noise",
        "stage1-growth-majority",
        "stage1-growth-minority",
        "nonfeature-decay",
        "stage1-duration",
        "growth-ratio-exponential",
        "logit-deviation-order",
        "batches-concentrate",
        "stage2-duration",
        "stage2-growth",
        "growth-with-masking",
    }


@pytest.mark.long
def test_closed_forms_in_which_every_token_shows_a_feature_are_not_expected_where_some_do():
    some = replace(STUDY, data=replace(STUDY.data, token_activity=0.7))
    expected = {claim.id for claim in some.claims(TRIAL.runs) if claim.expected}
    assert {claim.id for claim in TRIAL.healthy.values() if claim.expected} - expected == {
        "stage2-duration",
        "stage2-growth",
        "growth-under-softmax",
        "growth-under-linear-exactly",
        "ideal-error",
    }


def run_alone(claim: str, study: Imbalance, arm: str, replicas: int, at_most: int | None = None) -> Claim:
    """One claim of ``study`` on ``arm``, which is run as it is but for what is measured before and after."""
    test = next(test for test in Imbalance.tests if test.statement.id == claim)
    run = measure(study, replace(study.arm(arm), at_start=(), at_end=()), replicas, at_most=at_most)
    return test.judge(study, arm, {arm: run})


@pytest.mark.parametrize(("temperature", "steps"), [(0.5, 36), (2.0, 142)])
def test_the_second_stage_is_as_long_as_the_scale_of_the_loss_has_it(temperature: float, steps: int):
    """Of a loss that is not multiplied by τ gradients are over τ. By those of the other it would take 71 steps."""
    study = replace(STUDY, objective=replace(STUDY.objective, loss=InfoNCE(temperature, "1")))
    found = run_alone("stage2-duration", study, "lottery", 4)
    assert f"predicted {steps}." in found.note
    assert found.expected
    assert found.verdict == "holds"


def test_what_batches_add_off_the_features_is_part_of_the_prediction():
    """With so much noise it hides a fifth of the decay."""
    study = Imbalance(data=SparseTokens(noise_std=0.2))
    found = run_alone("nonfeature-decay", study, "stage-one", 6, at_most=25)
    assert abs(found.measured - 1) > 3 * found.tolerance
    assert found.verdict == "holds"


@pytest.mark.long
def test_the_story_turns_with_what_was_measured():
    runs = TRIAL.runs
    story = STUDY.story(runs, list(TRIAL.healthy.values()))
    assert set(story.headlines) <= {f"{claim.id}@{claim.arm}" for claim in TRIAL.healthy.values()}
    heat_map, late = runs["heat-map"], runs["late"].isel(step=-1)
    reached = float((heat_map.minority_energy / heat_map.majority_energy).isel(step=-1).mean())
    assert story.found.startswith(f"Once neurons grow picky, rare features lose: they reach {100 * reached:.0f} % of")
    ended = 100 * float((late.minority_energy / late.majority_energy).mean())
    assert f"end with {ended:.0f} %" in story.headlines["amplitude-law@late"]
    early = story.headlines["growth-ratio-exponential@stage-one"]
    assert "30 % as frequent" in early
    assert early.endswith("in 45 steps.")
    rare_first = heat_map.assign(alignment=heat_map.alignment.isel(feature=slice(None, None, -1)))
    for turned, found in ((rare_first, "Even once neurons"), (runs["heat-map-balanced"], "It is open")):
        missing = {name: heat_map[name] for name in heat_map.keys() - turned.keys()}
        other = runs | {"heat-map": turned.assign(missing)}
        assert STUDY.story(other, STUDY.claims(other)).found.startswith(found)
    unknown = runs | {"heat-map": heat_map.assign(minority_energy=np.nan * heat_map.minority_energy)}
    assert "reach an unknown amount of" in STUDY.story(unknown, []).found


@pytest.mark.long
def test_figures_say_what_was_measured():
    figures = list(STUDY.figures(TRIAL.runs))
    names = ["heat-map", "stage-one", "stage-two", "figures-1-2", "figures-3-4", "late"]
    assert [figure.id for figure in figures] == names
    assert all(figure.title and figure.caption and figure.claims for figure in figures)
    assert "after 40 steps at b = 0" in figures[3].caption
    assert [len(panel.curves) for panel in figures[3].panels] == [3, 3]
    assert [len(panel.curves) for panel in figures[4].panels] == [4] * 5
    biased = list(replace(STUDY, bias=BiasSchedule()).figures(TRIAL.runs))
    assert "with the bias schedule" in biased[3].caption


def after(replicas: range, steps: int = 30) -> torch.Tensor:
    """Weights of replica 3 in the heat map after ``steps``, trained with others."""
    experiment = CHEAP.arm("heat-map").recipe.build(Streams(0, replicas))
    for step in range(steps):
        experiment.advance(step)
    assert bool((experiment.learner.bias > 0).all())
    return experiment.learner.weight.detach()[list(replicas).index(3)]


def test_a_replica_alone_and_among_8_drifts_apart_by_rounding_only():
    """Bit for bit the same draws; sums run in another order."""
    alone, of_8 = after(range(3, 4)), after(range(8))
    scale = alone.abs().max()
    assert float((of_8 - alone).abs().max() / scale) < 1e-4
    assert float((of_8 - after(range(3, 5), 29)).abs().max() / scale) > 1e-3  # a step moves more than that


# --- arms and options ------------------------------------------------------------------------------------------------


def test_arms_differ_in_what_they_say():
    of = {arm.name: arm.recipe for arm in Imbalance().arms()}
    picky = {"heat-map", "heat-map-balanced", "lottery", "few-neurons"}
    assert {name for name, recipe in of.items() if recipe.rules["bias"]} == picky
    assert {name: recipe.steps for name, recipe in of.items()} == {
        "imbalanced": 150,
        "stage-one": 60,
        "stage-one-narrow": 60,
        "figures-1-2": 150,
        "figures-3-4": 150,
        "heat-map": 500,
        "heat-map-unbiased": 500,
        "heat-map-balanced": 500,
        "lottery": 500,
        "few-neurons": 500,
        "token-masking": 60,
        "softmax-attention": 20,
        "linear-attention": 20,
        "late": 1500,
    }
    assert of["imbalanced"].data.minority == 1
    assert of["stage-one"].data.minority == of["late"].data.minority == 10
    assert of["stage-one-narrow"].data.input_dim == 125
    assert replace(of["stage-one-narrow"], data=of["stage-one"].data) == of["stage-one"]
    assert of["heat-map-balanced"].data.eps_min == 1
    assert replace(of["heat-map-balanced"], data=of["heat-map"].data) == of["heat-map"]
    assert replace(of["heat-map-unbiased"], rules=of["heat-map"].rules) == of["heat-map"]
    few, many = of["few-neurons"], of["lottery"]
    assert (few.learner.width, many.learner.width) == (200, 1000)
    assert (few.objective.pairs, many.objective.pairs) == (128, 64)
    assert (few.data.eps_min, many.data.eps_min) == (0.6, 0.9)
    d, decay = 20, of["stage-one"].optimizer.weight_decay
    assert d**-1.49 < decay < d**-1.01  # the papers' range


def test_options_reach_every_arm():
    data = replace(STUDY.data, tokens=7, token_activity=0.5, noise_std=0.07)
    learner = replace(STUDY.learner, attention="linear")
    study = replace(STUDY, data=data, learner=learner, steps=3, objective=ContrastivePairs(InfoNCE(2.0), 9))
    for arm in study.arms():
        kept = arm.recipe.data
        shown = 0.25 if arm.name == "token-masking" else 0.5
        assert (kept.tokens, kept.token_activity, kept.noise_std) == (7, shown, 0.07)
        own = arm.name.removesuffix("-attention")
        assert arm.recipe.learner.attention == (own if own != arm.name else "linear")
        assert arm.recipe.objective.loss.temperature == 2.0
        assert arm.recipe.steps == 3


def test_with_biases_on_the_curves_stage_1_stays_without():
    of = {arm.name: arm.recipe for arm in replace(STUDY, bias=BiasSchedule()).arms()}
    without = {name for name, recipe in of.items() if recipe.rules["bias"] is None}
    attending = {"token-masking", "softmax-attention", "linear-attention"}
    assert without == {"stage-one", "stage-one-narrow", "heat-map-unbiased", "late", *attending}
    events = of["imbalanced"].build(Streams(0, [0])).events()
    assert set(events) == {"t1", "t1_of_every_neuron", "stage1_end", "stage2_end"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": replace(STUDY.data, minority=0)}, "Imbalance.data = .*minority=0.* 0 < minority < features"),
        ({"data": replace(STUDY.data, minority=12)}, "Imbalance.data = .*minority=12.* 0 < minority < features"),
        ({"data": replace(STUDY.data, eps_min=0.0)}, "Imbalance.data = .*eps_min=0.0.* eps_min > 0"),
        ({"data": replace(STUDY.data, frequencies=(0.5,) * 12)}, "Imbalance.data = .* data without frequencies"),
        ({"data": replace(STUDY.data, input_dim=12)}, "Imbalance.data = .*input_dim=12.* input_dim > features"),
    ],
)
def test_what_the_study_as_a_whole_cannot_have_is_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        replace(STUDY, **change).arms()


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"curve_steps": 0}, {"probe_every": 0}])
def test_wrong_options_are_named_with_what_is_allowed(wrong):
    (field,) = wrong
    with pytest.raises(ConfigError, match=f"Imbalance.{field} = 0 is out of range: allowed is >= 1"):
        Imbalance(**wrong)


TINY = replace(
    STUDY,
    data=SparseTokens(features=6, input_dim=20),
    learner=TokenMLP(width=8),
    objective=ContrastivePairs(pairs=16),
    curve_steps=2,
    steps=4,
)


@pytest.mark.parametrize(
    "study",
    [
        TINY,
        replace(TINY, learner=TokenMLP(width=8, attention="softmax")),
        replace(TINY, data=SparseTokens(features=3, input_dim=4, noise_std=0.0)),
        replace(TINY, data=SparseTokens(features=6, input_dim=7, minority=5, eps_min=1.0, token_activity=0.5)),
        replace(TINY, bias=BiasSchedule(feature_energy=0.1), optimizer=SGD(0.05, 0.0)),
    ],
    ids=["tiny", "softmax", "noiseless", "equally frequent", "with biases"],
)
def test_acceptable_options_make_a_report_even_where_nothing_can_be_measured(study):
    """Also with one replica, all of whose intervals are the whole line but of draws. Division by zero is an error."""
    arms = [arm for arm in study.arms() if not arm.over and arm.name != "late"]
    with sampling(HARDLY_ANY):
        measured = {arm.name: measure(study, arm, replicas=1) for arm in arms}
    measured |= {name: TRIAL.run(name).isel(replica=[0]) for name in ("figures-1-2", "figures-3-4")}
    measured["late"] = measured["heat-map-unbiased"]
    claims = study.claims(measured)
    assert {claim.verdict for claim in claims if claim.chance and claim.law != "draws"} == {"undecided"}
    assert len(list(study.figures(measured))) == 6
    assert "nan" not in repr(study.story(measured, claims))


def test_it_runs_from_plan_to_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: 1)
    with sampling(HARDLY_ANY):
        outcome = run(TINY, Settings(replicas=2), tmp_path / "run")
    stored = read_trajectory(outcome.folder)
    assert set(stored) == {arm.name for arm in TINY.arms()}
    assert dict(stored["figures-1-2"].sizes) | {"eps_min": 4, "noise_std": 3} == dict(stored["figures-1-2"].sizes)
    for arm in stored.values():
        assert all({"units", "long_name"} <= set(variable.attrs) for variable in arm.data_vars.values())
    assert pickle.loads(pickle.dumps(list(TINY.arms()))) == list(TINY.arms())  # as workers get them


def test_a_sweep_varies_the_setting_of_the_curves():
    sweep = Sweep(TINY, (Axis("data.eps_min", (0.1, 1.0)), Axis("data.noise_std", (0.01, 0.05))))
    (arm,) = sweep.arms()
    assert arm.recipe.steps == TINY.curve_steps
    with sampling(HARDLY_ANY):
        measured = measure(sweep, arm, replicas=2)
    assert measured["mse"].sizes == {"replica": 2, "eps_min": 2, "noise_std": 2}
    assert {"minority_count", "minority_cosine", "cosine", "mse_minority"} <= set(measured)


SWEPT = {
    "data.eps_min": 0.9,
    "data.activity": 0.2,
    "data.token_activity": 0.5,  # exactly 1 is a program of its own
    "data.noise_std": 0.1,
    "learner.init_norm": 1.0,
    "objective.loss.temperature": 0.5,
    "optimizer.lr": 0.05,
    "optimizer.weight_decay": 0.5,
}


@pytest.mark.parametrize("option", SWEPT)
def test_every_float_varies_within_one_program_of_a_sweep(option):
    """A point is what a run of its own finds, but for rounding, and the other point is not."""
    data = replace(TINY.data, activity=0.5, token_activity=0.9)
    study = replace(TINY, data=data, optimizer=SGD(0.5, 0.01), curve_steps=4)
    axis = Axis(option, (numeric_options(study)[option], SWEPT[option]))
    sweep = Sweep(study, (axis,))
    (arm,) = sweep.arms()
    assert len(Shard(sweep, arm, range(2), 0, "cpu").build()) == 1
    found = measure(sweep, replace(arm, at_end=()), replicas=2)
    alone = with_options(study, {option: SWEPT[option]})
    single = measure(alone, replace(alone.arm("imbalanced"), at_end=()), replicas=2)
    here, there = (found.sel({axis.name: value}) for value in reversed(axis.values))
    for name in ("loss", "minority_energy", "feature_share"):
        np.testing.assert_allclose(here[name], single[name], rtol=1e-4)
    assert float(abs(there["minority_energy"] / single["minority_energy"] - 1).max()) > 1e-3


# --- measurements -----------------------------------------------------------------------------------------------------


def experiment(weight: torch.Tensor, data: SparseTokens) -> GradientTraining:
    """One replica of a network with ``weight`` on features along the first axes."""
    activity = torch.from_numpy(activities(data.features, data.minority, data.eps_min, data.activity)).float()[None]
    frame, std = torch.eye(data.input_dim, data.features)[None], torch.tensor([data.noise_std])
    source = SparseTokensSource(frame, activity, std, data.tokens, data.token_activity, data.minority)
    source.means = True
    learner = TokenMLPNetwork(weight[None], data.tokens)
    return GradientTraining(source, learner, ContrastivePairs(InfoNCE(), 32), SGD(), {}, Streams(0, [0]))


def values(found) -> dict[str, np.ndarray]:
    return {name: one.values[0].numpy() for name, one in found.items()}


FOUR = SparseTokens(features=4, input_dim=6, minority=2, eps_min=0.5, activity=0.4, noise_std=0.1)


def test_the_trajectory_counts_what_it_says():
    """Three neurons: feature 0 alone; features 0 and 2 with a cosine of 0.6 and 0.8; nearly all off the features."""
    weight = torch.tensor([[2.0, 0, 0, 0, 0, 0], [0.6, 0, 0.8, 0, 0, 0], [0, 0.2, 0, 0.3, 3.0, 0]])
    with torch.no_grad():
        found = values(probes.trajectory(experiment(weight, FOUR)))
    assert found["norm"].tolist() == pytest.approx([2, 1, (0.04 + 0.09 + 9) ** 0.5])
    assert found["minority_count"] == pytest.approx(0.5)  # one neuron for feature 2, none for feature 3
    assert found["majority_count"] == pytest.approx(1.0)  # two for feature 0, none for feature 1
    assert found["minority_cosine"] == pytest.approx((0.8 + 0.3 / 9.13**0.5) / 2)
    assert found["majority_cosine"] == pytest.approx((1 + 0.2 / 9.13**0.5) / 2)
    assert found["majority_energy"] == pytest.approx((4 + 0.36 + 0.04) / 2)
    assert found["minority_energy"] == pytest.approx((0.64 + 0.09) / 2)
    assert found["feature_share"] == pytest.approx((4 + 1 + 0.13) / (4 + 1 + 9.13))
    assert found["singletons"] == 2


def test_stage_1_ends_when_features_hold_half_of_the_squared_norm_of_all_or_of_each():
    lead = torch.tensor([[2.0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1.0, 0]])
    trail = torch.tensor([[1.0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1.5, 0]])
    even = torch.tensor([[1.1, 0, 0, 0, 1.0, 0], [0, 0.8, 0, 0, 0.7, 0]])
    for weight, all_of_them, each in ((lead, True, False), (trail, False, False), (even, True, True)):
        e = experiment(weight, FOUR)
        assert bool(probes.features_lead(e)) is all_of_them
        assert bool(probes.half_of_every_neuron(e)) is each


def test_a_representation_that_knows_the_features_has_the_cosine_and_error_of_its_noise():
    """f(X) = L Mᵀx̄. Per coordinate: noise σ²/L over signal p, plus the head's shrinkage; 5000 test pairs, 10 %."""
    data = replace(FOUR, noise_std=0.2, tokens=1)
    with torch.no_grad():
        found = values(probes.represented(experiment(torch.eye(4, 6), data)))
    assert found["mse"] == pytest.approx(0.04 / 0.44, rel=0.1)
    assert found["mse_minority"] == pytest.approx(0.04 / 0.44, rel=0.15)
    assert found["mse_imbalanced"] > found["mse"]
    assert 0.8 < found["cosine_all"] < found["cosine"] < 1
    with torch.no_grad():
        blind = values(probes.represented(experiment(torch.eye(3, 6), data)))
        silent = values(probes.represented(experiment(torch.zeros(2, 6), data)))
    assert blind["mse_minority"] == pytest.approx(1, abs=0.02)
    assert silent["cosine"] == silent["cosine_all"] == 0
    assert silent["mse"] == pytest.approx(1, abs=0.02)


def test_the_census_is_of_the_study_s_own_ratio_and_of_two_crowds(monkeypatch):
    counted, count = [], probes.count_lucky
    monkeypatch.setattr(probes, "count_lucky", lambda streams, *what: counted.append(what) or count(streams, *what))
    data = replace(STUDY.data, features=12, input_dim=14, minority=3, eps_min=0.9)
    with sampling({"CENSUS_NEURONS": 100, "CROWD_NEURONS": 200}):
        probes.census(experiment(torch.zeros(1, 14), data))
    assert counted == [(100, 12, pytest.approx(0.9)), (100, 12, 0.8), (200, 60, 0.8)]


def test_keys_that_show_an_anchor_s_signals_cost_more_than_any_learner_saves():
    """The floor is below the pseudo-loss of an oracle whose representation grows without bound."""
    e = experiment(1e3 * torch.eye(4, 6), replace(FOUR, noise_std=0.001))
    with torch.no_grad():
        found = values(probes.optimal_learner(e))
    assert found["optimal_loss"] >= found["loss_floor"] - 1e-3
    assert found["loss_floor"] > 0.5
    assert found["above_tangent"] > -1e-6


# --- claims are arithmetic --------------------------------------------------------------------------------------------


def trajectory(weights: np.ndarray, steps: list[int]) -> xr.Dataset:
    """A trajectory of weights ``[replica, step, neuron, input]`` on features along the first nine axes."""
    norm = np.linalg.norm(weights, axis=-1)
    return xr.Dataset(
        {
            "alignment": (("replica", "step", "neuron", "feature"), weights[..., :9] / norm[..., None]),
            "norm": (("replica", "step", "neuron"), norm),
            "last_step": ("replica", [steps[-1]] * len(weights)),
        },
        {"replica": range(len(weights)), "step": steps},
    )


def of_heat_map(id: str, weights: np.ndarray) -> np.ndarray:
    """What is measured for a claim on the heat map with these weights."""
    test = next(test for test in Imbalance.tests if test.statement.id == id)
    run = trajectory(weights, [0, 1])
    found = test.method(STUDY, **({"run": run, "arm": "heat-map"} if "arm" in test.wants else {"run": run}))
    return found.measured.values if isinstance(found, Found) else found.values


def test_majority_lead_is_a_difference_of_means_over_neurons_and_features():
    weights = np.zeros((1, 2, 2, 9))
    weights[:, :, 0, 0] = weights[:, :, 1, 5] = 1
    weights[0, 1, 0, 1] = weights[0, 1, 1, 6] = 1  # at the end, two majority and two minority features, halved
    assert of_heat_map("heatmap-majority-first", weights) == pytest.approx([(0.5 + 0.5) / 10 - (0.5 + 0.5) / 8])


def test_what_neurons_must_not_have_is_what_was_not_ordinary_at_the_start():
    """By the definition: P (26) at the start, cosines over (ε_j/ε_max)/√d at the end."""
    weights = np.random.default_rng(0).normal(size=(2, 2, 7, 9))
    over = []
    for replica, neuron, feature in np.ndindex(2, 7, 9):
        start, end = weights[replica, :, neuron]
        if start[feature] ** 2 < 2 * 0.99 * 0.3**2 * np.log(9) / 9 * (start @ start):
            bound = (1.0 if feature < 5 else 0.3) / 3
            over.append((replica, (end[feature] / np.linalg.norm(end) / bound) ** 2))
    assert 0 < len(over) < 2 * 7 * 9
    expected = [np.mean([x for replica, x in over if replica == r]) ** 0.5 for r in range(2)]
    assert of_heat_map("stage3-offfeature-small", weights) == pytest.approx(expected)


def test_curves_are_judged_by_the_difference_of_their_ends_over_the_papers_noise_levels():
    run = TRIAL.run("figures-3-4")
    claim = TRIAL.healthy["cosine-rises", "figures-3-4"]
    at = run["cosine"].sel(noise_std=[0.05, 0.075, 0.1]).mean("noise_std")
    assert claim.measured == pytest.approx(float((at.sel(eps_min=0.5) - at.sel(eps_min=0.05)).mean()))
    claim = TRIAL.healthy["minority-mse-falls", "figures-3-4"]
    at = run["mse_minority"].sel(noise_std=[0.03, 0.05, 0.075]).mean("noise_std")
    assert claim.measured == pytest.approx(float((at.sel(eps_min=0.05) - at.sel(eps_min=0.5)).mean()))


def curves(values: np.ndarray) -> xr.Dataset:
    """Curves ``[replica, noise_std, eps_min]`` of test pairs' cosines."""
    axes = {"noise_std": [0.03, 0.05], "eps_min": [0.05, 0.2, 0.35, 0.5]}
    return xr.Dataset({"cosine": (("replica", *axes), values)}, {"replica": range(len(values)), **axes})


def judged(id: str, arm: str, run: xr.Dataset):
    return next(test for test in Imbalance.tests if test.statement.id == id).judge(STUDY, arm, {arm: run})


def test_a_curve_is_one_thing_however_many_points_and_noise_levels_it_has():
    """Copies of a noise level decide nothing: of eight networks the least rise is known no better."""
    rises = np.random.default_rng(0).uniform(0.01, 0.03, (8, 1, 4))
    once = np.cumsum(rises, -1)
    claim = judged("cosine-curve", "figures-3-4", curves(once.repeat(2, 1)))
    assert claim.measured == pytest.approx(float(rises[..., 1:].min((1, 2)).mean()))
    assert claim.verdict == "holds"
    again = xr.concat(
        [curves(once.repeat(2, 1)).assign_coords(noise_std=noise) for noise in ([1, 2], [3, 4])], "noise_std"
    )
    assert judged("cosine-curve", "figures-3-4", again).interval == claim.interval
    assert judged("cosine-curve", "figures-3-4", curves(once.repeat(2, 1)).isel(replica=[0, 1])).verdict == "undecided"


def test_a_curve_that_falls_far_in_one_network_does_not_rise():
    """One of 48 steps from point to point, of 96 pairs of points: a share of them would not notice."""
    values = np.cumsum(np.random.default_rng(0).uniform(0.01, 0.03, (8, 2, 4)), -1)
    values[3, 1, -1] = values[3, 1, -2] - 0.2
    assert judged("cosine-curve", "figures-3-4", curves(values)).verdict == "undecided"
    values[..., -1] = values[..., -2] - 0.2 * np.random.default_rng(1).uniform(0.5, 1, (8, 2))
    assert judged("cosine-curve", "figures-3-4", curves(values)).verdict == "fails"
    values[5, 0, 2] = np.nan
    assert judged("cosine-curve", "figures-3-4", curves(values)).verdict == "undecided"


def test_a_neuron_that_holds_nothing_is_tied_to_nothing():
    """Random directions among features have cosines of 0.3 and more, and no feature half of them."""
    weights = np.random.default_rng(0).normal(size=(8, 2, 30, 9))
    common = abs(weights[:, 1, :, :5]) / np.linalg.norm(weights[:, 1], axis=-1, keepdims=True)
    assert (common.max(-1) >= 0.3).mean() > 0.9
    assert judged("heatmap-every-neuron", "heat-map", trajectory(weights, [0, 1])).verdict == "fails"
    weights[:, 1, :, 0] = 5 * np.linalg.norm(weights[:, 1], axis=-1)
    assert judged("heatmap-every-neuron", "heat-map", trajectory(weights, [0, 1])).verdict == "holds"


def test_the_exact_census_stands_in_the_note():
    note = TRIAL.healthy["lucky-lower-bound", "stage-one"].note
    census = Census(60, 0.8)
    assert f"{census.lucky_probability / census.stated_lucky_probability:.3f} at d = 60" in note


def test_cheap_and_exact_recipes_agree_in_what_claims_read():
    """The small study trains some arms with another batch, step size and activity, which their claims do not use."""
    for name in ("heat-map", "late", "figures-1-2"):
        exact, cheap = STUDY.arm(name).recipe, CHEAP.arm(name).recipe
        assert replace(exact.data, activity=cheap.data.activity) == cheap.data
    assert by_name(CHEAP.claims({"late": TRIAL.run("late")})) == by_name(STUDY.claims({"late": TRIAL.run("late")}))
