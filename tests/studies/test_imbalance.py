"""The study of imbalance as a whole, small: what holds, what must not, and what claims make of measurements.

Seed 0 is fixed. At another seed each interval of a claim that holds misses its mean once in a hundred.
"""

from dataclasses import replace

import numpy as np
import pytest
import small_imbalance
import torch
import xarray as xr
from small_imbalance import CHEAP, STUDY, healthy, runs

from featscope.data import SparseTokens, SparseTokensSource, TokenPairs
from featscope.losses import InfoNCE
from featscope.models import TokenMLP, TokenMLPNetwork
from featscope.options import ConfigError
from featscope.runs.execute import Settings, run
from featscope.runs.folder import RunFolder
from featscope.streams import Streams
from featscope.studies.axes import Axis
from featscope.studies.imbalance import Imbalance, identities, judge, measures
from featscope.studies.sweep import Sweep
from featscope.theory.imbalance import Census, Stage1, activities
from featscope.training import SGD, BiasSchedule, ContrastivePairs, Experiment

HOLD = [
    "stage1-identity",
    "stage1-identity-off-features",
    "stage1-identity-negatives",
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
    "gradient-formula",
    "pseudo-loss-gradient",
    "pseudo-loss-value",
    "pseudo-loss-convex",
]
FAIL = [
    "stage1-duration-in-d1",
    "growth-ratio-linear",
    "lucky-lower-bound",
    "strong-neurons-are-lucky",
    "amplitude-law",
    "optimal-learner-loss",
]
TOO_FEW_REPLICAS = ["mse-falls", "heatmap-every-neuron"]


@pytest.mark.parametrize("id", HOLD)
def test_what_is_expected_holds_already_at_this_size(id):
    assert [claim for claim in healthy().values() if claim.id == id and claim.expected and claim.verdict == "holds"]


@pytest.mark.parametrize("id", FAIL)
def test_what_the_papers_get_wrong_fails_already_at_this_size(id):
    assert [claim for claim in healthy().values() if claim.id == id and not claim.expected and claim.verdict == "fails"]


def test_no_expected_claim_fails():
    expected = {claim.id: claim.verdict for claim in healthy().values() if claim.expected}
    assert set(expected) == {*HOLD, *TOO_FEW_REPLICAS}
    assert "fails" not in expected.values()


def test_every_statement_is_put_to_the_test_and_no_claim_is_made_twice():
    claims = list(STUDY.claims(runs()))
    assert {claim.id for claim in claims} == {statement.id for statement in Imbalance.statements}
    assert len({(claim.id, claim.arm) for claim in claims}) == len(claims)
    for claim in claims:
        assert claim.source
        assert claim.note
        assert "as above" not in claim.statement
        assert (claim.relation == "=") == (claim.kind in ("identity", "scaling"))


def test_on_the_control_nothing_holds():
    control = [claim for claim in healthy().values() if claim.arm == "heat-map-balanced"]
    assert {claim.id for claim in control} == {"heatmap-majority-first"}
    assert not any(claim.expected or claim.verdict == "holds" for claim in control)
    assert [arm.name for arm in STUDY.arms() if arm.control] == ["heat-map-balanced"]


def test_closed_forms_of_uniform_attention_are_not_expected_under_another():
    softmax = replace(STUDY, learner=replace(STUDY.learner, attention="softmax"))
    expected = {claim.id for claim in softmax.claims(runs()) if claim.expected}
    assert {claim.id for claim in healthy().values() if claim.expected} - expected == {
        "stage1-identity",
        "stage1-identity-off-features",
        "stage1-identity-negatives",
        "mean-token-noise",
        "stage1-growth-majority",
        "stage1-growth-minority",
        "nonfeature-decay",
        "stage1-duration",
        "growth-ratio-exponential",
    }


def test_headline_and_figures_say_what_was_measured():
    claims = list(healthy().values())
    headline = STUDY.headline(runs(), claims)
    held = sum(claim.expected and claim.verdict == "holds" for claim in claims)
    assert f"{held} of the {sum(claim.expected for claim in claims)} claims expected to hold" in headline
    figures = list(STUDY.figures(runs(), claims))
    assert [figure.id for figure in figures] == [
        "heat-map",
        "stage-one",
        "figures-1-2",
        "figures-3-4",
        "identities",
        "late",
    ]
    assert all(figure.title and figure.caption for figure in figures)
    assert "after 40 steps at b = 0" in figures[2].caption
    assert [len(panel.curves) for panel in figures[2].panels] == [3, 3]
    assert [len(panel.curves) for panel in figures[3].panels] == [4] * 5
    biased = list(replace(STUDY, bias=BiasSchedule()).figures(runs(), claims))
    assert "with the bias schedule" in biased[2].caption


def after(replicas: range, steps: int = 30) -> torch.Tensor:
    """Weights of replica 3 in the heat map after ``steps``, trained with others."""
    experiment = CHEAP.arm("heat-map").build(Streams(0, replicas))
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
    configs = {arm.name: arm.config for arm in Imbalance().arms()}
    assert {name for name, config in configs.items() if config.bias is not None} == {"heat-map", "heat-map-balanced"}
    assert {name: config.steps for name, config in configs.items()} == {
        "imbalanced": 150,
        "stage-one": 60,
        "stage-one-narrow": 60,
        "figures-1-2": 150,
        "figures-3-4": 150,
        "heat-map": 500,
        "heat-map-unbiased": 500,
        "heat-map-balanced": 500,
        "late": 1500,
    }
    assert configs["imbalanced"].data.minority == 1
    assert configs["stage-one"].data.minority == configs["late"].data.minority == 10
    assert configs["stage-one-narrow"].data.input_dim == 125
    narrow = replace(configs["stage-one-narrow"], data=configs["stage-one"].data)
    assert narrow == configs["stage-one"]
    assert configs["heat-map-balanced"].data.eps_min == 1
    assert replace(configs["heat-map-balanced"], data=configs["heat-map"].data) == configs["heat-map"]
    assert replace(configs["heat-map-unbiased"], bias=configs["heat-map"].bias) == configs["heat-map"]
    d, decay = 20, configs["stage-one"].optimizer.weight_decay
    assert d**-1.49 < decay < d**-1.01  # the papers' range


def test_options_reach_every_arm():
    data = replace(STUDY.data, tokens=7, token_activity=0.5, noise_std=0.07)
    learner = replace(STUDY.learner, attention="linear")
    study = replace(STUDY, data=data, learner=learner, steps=3, objective=ContrastivePairs(InfoNCE(2.0), 9))
    for arm in study.arms():
        kept = arm.config.data
        assert (kept.tokens, kept.token_activity, kept.noise_std) == (7, 0.5, 0.07)
        assert arm.config.learner.attention == "linear"
        assert arm.config.objective.loss.temperature == 2.0
        assert arm.config.steps == 3


def test_with_biases_on_the_curves_stage_1_stays_without():
    configs = {arm.name: arm.config for arm in replace(STUDY, bias=BiasSchedule()).arms()}
    without = {name for name, config in configs.items() if config.bias is None}
    assert without == {"stage-one", "stage-one-narrow", "heat-map-unbiased", "late"}
    events = configs["imbalanced"].build(Streams(0, [0])).events()
    assert set(events) == {"t1", "t1_of_every_neuron", "stage1_end", "stage2_end"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": replace(STUDY.data, minority=0)}, "Imbalance.data = .*minority=0.* 0 < minority < features"),
        ({"data": replace(STUDY.data, minority=12)}, "Imbalance.data = .*minority=12.* 0 < minority < features"),
        ({"data": replace(STUDY.data, eps_min=0.0)}, "Imbalance.data = .*eps_min=0.0.* eps_min > 0"),
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
def test_acceptable_options_make_a_report_even_where_nothing_can_be_measured(study, tmp_path):
    """Also with one replica, all of whose intervals are the whole line. Division by zero is an error here."""
    measured = {
        arm.name: small_imbalance.train(arm, range(1)) for arm in study.arms() if not arm.over and arm.name != "late"
    }
    measured |= {name: runs()[name].isel(replica=[0]) for name in ("figures-1-2", "figures-3-4")}
    measured["late"] = measured["heat-map-unbiased"]
    claims = list(study.claims(measured))
    assert {claim.verdict for claim in claims} == {"undecided"}
    assert len(list(study.figures(measured, claims))) == 6
    assert study.headline(measured, claims)


def test_it_runs_from_plan_to_folder(tmp_path):
    with small_imbalance.few_samples():
        outcome = run(TINY, Settings(replicas=2), tmp_path / "run")
    stored = RunFolder(outcome.folder).read_trajectory()
    assert set(stored) == {arm.name for arm in TINY.arms()}
    assert dict(stored["figures-1-2"].sizes) | {"eps_min": 4, "noise_std": 3} == dict(stored["figures-1-2"].sizes)
    for arm in stored.values():
        assert all({"units", "long_name"} <= set(variable.attrs) for variable in arm.data_vars.values())


def test_a_sweep_varies_the_setting_of_the_curves():
    sweep = Sweep(TINY, (Axis("data.eps_min", (0.1, 1.0)), Axis("data.noise_std", (0.01, 0.05))))
    assert sweep.steps == TINY.curve_steps
    (arm,) = sweep.arms()
    measured = small_imbalance.train(arm, range(2))
    assert measured["mse"].sizes == {"replica": 2, "eps_min": 2, "noise_std": 2}
    assert {"minority_count", "minority_cosine", "cosine", "mse_minority"} <= set(measured)


# --- measurements -----------------------------------------------------------------------------------------------------


def experiment(weight: torch.Tensor, data: SparseTokens, *, attention: str = "uniform", loss: InfoNCE | None = None):
    """One replica of a network with ``weight`` on features along the first axes."""
    activity = torch.from_numpy(activities(data.features, data.minority, data.eps_min, data.activity)).float()[None]
    frame, std = torch.eye(data.input_dim, data.features)[None], torch.tensor([data.noise_std])
    shape = (data.tokens, data.token_activity, data.minority)
    source = SparseTokensSource(frame, activity, std, *shape, means=attention == "uniform")
    learner = TokenMLPNetwork(weight[None], data.tokens, attention)
    objective = ContrastivePairs(loss or InfoNCE(), 32)
    return Experiment(source, learner, objective, SGD(), [], Streams(0, [0]))


def values(found) -> dict[str, np.ndarray]:
    return {name: one.values[0].numpy() for name, one in found.items()}


FOUR = SparseTokens(features=4, input_dim=6, minority=2, eps_min=0.5, activity=0.4, noise_std=0.1)


def test_the_trajectory_counts_what_it_says():
    """Three neurons: feature 0 alone; features 0 and 2 with a cosine of 0.6 and 0.8; nearly all off the features."""
    weight = torch.tensor([[2.0, 0, 0, 0, 0, 0], [0.6, 0, 0.8, 0, 0, 0], [0, 0.2, 0, 0.3, 3.0, 0]])
    with torch.no_grad():
        found = values(measures.trajectory(experiment(weight, FOUR)))
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
        assert bool(measures.features_lead(e)) is all_of_them
        assert bool(measures.half_of_every_neuron(e)) is each


def test_a_representation_that_knows_the_features_has_the_cosine_and_error_of_its_noise():
    """f(X) = L Mᵀx̄. Per coordinate: noise σ²/L over signal p, plus the head's shrinkage; 5000 test pairs, 10 %."""
    data = replace(FOUR, noise_std=0.2, tokens=1)
    with torch.no_grad():
        found = values(measures.represented(experiment(torch.eye(4, 6), data)))
    assert found["mse"] == pytest.approx(0.04 / 0.44, rel=0.1)
    assert found["mse_minority"] == pytest.approx(0.04 / 0.44, rel=0.15)
    assert found["mse_imbalanced"] > found["mse"]
    assert 0.8 < found["cosine_all"] < found["cosine"] < 1
    with torch.no_grad():
        blind = values(measures.represented(experiment(torch.eye(3, 6), data)))
        silent = values(measures.represented(experiment(torch.zeros(2, 6), data)))
    assert blind["mse_minority"] == pytest.approx(1, abs=0.02)
    assert silent["cosine"] == silent["cosine_all"] == 0
    assert silent["mse"] == pytest.approx(1, abs=0.02)


def test_the_census_counts_by_the_definition(monkeypatch):
    """Against a loop over neurons, on its own draws."""
    monkeypatch.setattr(measures, "CENSUS_NEURONS", 4000)
    monkeypatch.setattr(measures, "CROWD_NEURONS", 4000)
    data = replace(STUDY.data, features=12, input_dim=14, minority=3, eps_min=0.9)
    e = experiment(torch.zeros(1, 14), data)
    found = values(measures.census(e))

    def counted(features: int, ratio: float) -> tuple[int, int, int]:
        ordinary = strong = lucky = 0
        for block in range(20):
            for normals in e.streams.at(f"census of {features}", block).normal(200, features)[0].numpy():
                shares = [x**2 / sum(normals**2) for x in normals]
                low = 2 * 0.99 * ratio**2 * np.log(features) / features
                high = 2 * 1.01 / ratio**2 * np.log(features) / features
                ordinary += sum(share >= low for share in shares)
                for j, share in enumerate(shares):
                    strong += share >= high
                    lucky += share >= high and all(s <= low for k, s in enumerate(shares) if k != j)
        return ordinary, strong, lucky

    assert found["features_per_neuron"] == pytest.approx(counted(12, 0.9)[0] / 4000)
    assert found["lucky_probability"] == pytest.approx(counted(12, 0.8)[2] / 4000 / 12)
    _, strong, lucky = counted(60, 0.8)
    assert found["alone_among_strong"] == pytest.approx(lucky / strong)


@pytest.mark.parametrize("scale", ["tau", "1"])
@pytest.mark.parametrize("attention", ["uniform", "linear", "softmax"])
def test_gradient_and_pseudo_loss_are_the_network_s_under_any_attention_and_temperature(attention, scale):
    weight = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    e = experiment(weight, replace(FOUR, tokens=3, token_activity=0.7), attention=attention, loss=InfoNCE(0.7, scale))
    e.learner.bias.fill_(0.3)
    with torch.no_grad():
        found = values(identities.gradients(e)) | values(identities.optimal_learner(e))
    for name in ("gradient_error", "pseudo_gradient_error", "pseudo_value_error"):
        assert found[name] < 1e-12, name
    assert found["above_tangent"] > 0


def test_keys_that_show_an_anchor_s_signals_cost_at_least_their_number():
    """The floor against a loop, and below the loss of an oracle whose representation grows without bound."""
    e = experiment(1e3 * torch.eye(4, 6), replace(FOUR, noise_std=0.001))
    with torch.no_grad():
        found = values(identities.optimal_learner(e))
        batch: TokenPairs = e.source.pairs(e.streams.at("optimal learner"), 32, dtype=torch.float64)
    codes = batch.codes_y[0].numpy()
    alike = [sum((a == b).all() for b in codes) for a in codes]
    assert found["loss_floor"] == pytest.approx(np.mean(np.log(alike)))
    assert found["optimal_loss"] >= found["loss_floor"] - 1e-3


# --- claims are arithmetic --------------------------------------------------------------------------------------------


def dataset(weights: np.ndarray, steps: list[int]) -> xr.Dataset:
    """A trajectory of weights ``[replica, step, neuron, input]`` on features along the first three axes."""
    norm = np.linalg.norm(weights, axis=-1)
    return xr.Dataset(
        {
            "alignment": (("replica", "step", "neuron", "feature"), weights[..., :3] / norm[..., None]),
            "norm": (("replica", "step", "neuron"), norm),
            "loss": (("replica", "step"), np.ones(norm.shape[:2])),
        },
        {"replica": range(len(weights)), "step": steps},
    )


def test_growth_is_along_the_start_and_its_ratio_that_of_means():
    start = np.random.default_rng(0).normal(size=(2, 5, 4))
    grown = start * [8.0, 4.0, 3.0, 0.5]
    turned = np.stack([-start[:, 1], start[:, 0], *start.transpose(1, 0, 2)[2:]], 1)  # another direction altogether
    run = dataset(np.stack([start, grown, turned], 1), [0, 5, 9])
    found = judge.growth(run)
    assert found.sel(step=0).values == pytest.approx(1)
    assert found.sel(step=5).values == pytest.approx(np.array([[8.0, 4.0, 3.0]] * 2))
    squares = start[..., :3] ** 2  # neurons 0 and 1 turned by a right angle: nothing of them is along their start
    assert found.sel(step=9).values == pytest.approx(squares[:, 2:].sum(1) / squares.sum(1))
    study = replace(STUDY, data=SparseTokens(features=3, input_dim=4, minority=1))
    assert judge.growth_ratio(study, run).sel(step=5).values == pytest.approx((8 + 4) / 2 / 3)
    assert judge._outside(run).sel(step=5).values == pytest.approx(0.5)


def test_linear_growth_starts_like_exponential_growth_and_ends_at_the_ratio_of_rates():
    p = activities(4, 2, 0.25, 0.1)
    theory = Stage1(p, 4, 9, 0.0, lr=0.05, weight_decay=0.0, keys=1e12, anchors=np.inf)
    assert judge.linear_ratio(theory, np.array([0, 10])) == pytest.approx([1, 1.8 / 1.2])
    (late,) = judge.linear_ratio(theory, np.array([10**9]))
    assert late == pytest.approx(theory.stated_growth_ratio)


def test_majority_lead_is_a_difference_of_means_over_neurons_and_features():
    weights = np.zeros((1, 2, 2, 4))
    weights[:, :, 0, 0] = weights[:, :, 1, 2] = 1
    weights[0, 1] = [[1, 1, 0, 0], [0, 0, 1, 1]]
    lead = judge.majority_lead(dataset(weights, [0, 1]), 1)
    assert lead.values == pytest.approx([(0.5 + 0.5) / 4 - 0.5 / 2])


def test_ordinary_pairs_are_those_of_the_definition():
    weights = np.random.default_rng(0).normal(size=(2, 2, 7, 5))
    study = replace(STUDY, data=SparseTokens(features=3, input_dim=5, minority=1, eps_min=0.8))
    found = judge.ordinary_pairs(study, dataset(weights, [0, 1])).values
    for replica, neuron, feature in np.ndindex(2, 7, 3):
        w = weights[replica, 0, neuron, :3]
        threshold = 2 * 0.99 * 0.64 * np.log(3) / 3 * (w @ w)
        assert found[replica, neuron, feature] == (w[feature] ** 2 >= threshold)
    assert 0 < found.mean() < 1


def test_curves_are_judged_by_the_difference_of_their_ends_over_the_papers_noise_levels():
    run = runs()["figures-3-4"]
    claim = healthy()["cosine-rises", "figures-3-4"]
    at = run["cosine"].sel(noise_std=[0.05, 0.075, 0.1]).mean("noise_std")
    assert claim.measured == pytest.approx(float((at.sel(eps_min=0.5) - at.sel(eps_min=0.05)).mean()))
    claim = healthy()["minority-mse-falls", "figures-3-4"]
    at = run["mse_minority"].sel(noise_std=[0.03, 0.05, 0.075]).mean("noise_std")
    assert claim.measured == pytest.approx(float((at.sel(eps_min=0.05) - at.sel(eps_min=0.5)).mean()))


def test_the_exact_census_stands_in_the_note():
    note = healthy()["lucky-lower-bound", "stage-one"].note
    census = Census(60, 0.8)
    assert f"{census.lucky_probability / census.stated_lucky_probability:.3f} at d = 60" in note


def test_cheap_and_exact_configs_agree_in_what_claims_read():
    """The small study trains some arms with another batch, step size and activity, which their claims do not use."""
    for name in ("heat-map", "late", "figures-1-2"):
        exact, cheap = STUDY.arm(name), CHEAP.arm(name)
        assert replace(exact.data, activity=cheap.data.activity) == cheap.data
