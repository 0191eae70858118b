"""The study `prediction-head-images` at a tiny size."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr
from known_images import MeanColour, by_chance, colours, experiment_of
from torch import nn

from featscope.figures import Bars, Curves, Heatmaps
from featscope.losses import NonContrastive
from featscope.models import IdentityHead, ProjectionHead
from featscope.options import ConfigError
from featscope.probes.collapse import effective_rank, mean_correlation, spread, standardised
from featscope.streams import Streams
from featscope.studies.prediction_head_images import PredictionHeadImages, probes
from featscope.studies.prediction_head_images.figures import asymmetry
from featscope.testing import Trial, by_name
from featscope.training import EMA

pytest.importorskip("kornia", reason="extra 'images' is not installed")

TINY = replace(PredictionHeadImages().smallest(), side=8, projection=ProjectionHead(8, 6), ema=EMA(momentum=0.5))
TRIAL = Trial(TINY, replicas=3)


def build(arm: str, replica: int = 0):
    return TINY.arm(arm).recipe.build(Streams(0, [replica]))


def test_arms_begin_with_the_same_network_and_see_the_same_batches():
    experiments = {arm.name: build(arm.name, 1) for arm in TINY.arms()}
    plain = experiments["identity"]
    for other in experiments.values():
        assert torch.equal(plain.learner.filters, other.learner.filters)
        assert torch.equal(plain.objective.projection.output.weight, other.objective.projection.output.weight)
        assert torch.equal(plain.source.train_set.pixels, other.source.train_set.pixels)
    heads = {name: type(e.objective.head) for name, e in experiments.items()}
    assert heads == {
        "identity": IdentityHead,
        "none": nn.Identity,
        "linear": nn.Linear,
        "mlp": nn.Sequential,
        "identity-ema": IdentityHead,
        "none-ema": nn.Identity,
        "identity-l2": IdentityHead,
        "none-l2": nn.Identity,
        "untrained": IdentityHead,
    }
    normalizations = {name: e.objective.loss.normalization for name, e in experiments.items()}
    assert {name for name, kind in normalizations.items() if kind == "l2"} == {"identity-l2", "none-l2"}
    averaged = [name for name, e in experiments.items() if e.objective.target is not None]
    assert averaged == ["identity-ema", "none-ema"] == [name for name, e in experiments.items() if len(e.rules)]


def test_the_target_network_is_in_the_state_and_moves_halfway():
    experiment = build("identity-ema")
    before = experiment.objective.target.average[0].filters.clone()
    experiment.advance(0)
    target = experiment.objective.target.average[0].filters
    torch.testing.assert_close(target, (before + experiment.learner.filters) / 2)
    assert not torch.equal(target, before)
    other = build("identity-ema")
    other.load_state_dict(experiment.state_dict())
    assert torch.equal(other.objective.target.average[0].filters, target)


def test_the_lag_of_the_target_is_over_the_way_from_the_start():
    """After one step the target has made a quarter of it: three quarters are left."""
    study = replace(TINY, ema=EMA(momentum=0.75))
    experiment = study.arm("identity-ema").recipe.build(Streams(0, [0]))
    experiment.advance(0)
    found = probes.parts(experiment, study.initial(experiment))
    assert found["target_lag"].values.item() == pytest.approx(0.75, rel=1e-3)


def test_the_probe_is_fitted_to_training_images_and_asked_about_test_images():
    """Of which a third have another label than their colour."""
    train, test = colours(90, seed=0), colours(60, seed=1)
    labels = torch.where(torch.arange(60) < 20, (test.labels + 1) % 3, test.labels)
    found = probes.readout(experiment_of(MeanColour(), train, test._replace(labels=labels)))
    assert found["linear_probe"].values.item() == pytest.approx(2 / 3)


def test_every_statement_is_put_to_the_test_and_controls_are_not_expected():
    assert {id for id, _ in TRIAL.healthy} == {statement.id for statement in TINY.statements()}
    for (_, arm), claim in TRIAL.healthy.items():
        assert claim.n == 3
        assert np.isfinite(claim.measured)
        assert claim.note
        assert not (arm == "untrained" and claim.expected)


def test_what_the_comparison_rests_on_holds_and_fails_on_its_control():
    for id, arm, verdict in (
        ("targets-are-constant", "identity", "holds"),
        ("diagonal-frozen", "identity", "holds"),
        ("diagonal-frozen", "linear", "fails"),
        ("lengths-are-not-seen", "identity-l2", "holds"),
        ("lengths-are-not-seen", "none-l2", "holds"),
        ("lengths-are-not-seen", "identity", "fails"),
        ("training-helps", "untrained", "fails"),
    ):
        assert TRIAL.healthy[id, arm].verdict == verdict
    for arm in ("identity-ema", "none-ema"):
        assert TRIAL.healthy["target-follows", arm].measured < 0.9


def test_the_gradient_along_predictions_is_that_of_their_lengths():
    """Of an inner product with (3, 4) at (2, 0) it is 3 of 5; of a cosine there is none."""
    prediction, target = torch.tensor([[2.0, 0.0]]), torch.tensor([[3.0, 4.0]])
    assert float(probes.gradient_along(NonContrastive("none"), prediction, target)) == pytest.approx(0.6)
    assert float(probes.gradient_along(NonContrastive("l2"), prediction, target)) == pytest.approx(0, abs=1e-12)


def test_the_untrained_head_is_the_identity_and_symmetric():
    for id in ("rise-and-fall-on-images", "head-asymmetric-early", "head-not-symmetric"):
        claim = TRIAL.healthy[id, "untrained"]
        assert (claim.measured, claim.verdict) == (0, "fails")


def course(off: list[float], difference: list[float]) -> xr.Dataset:
    steps = [0, 1, 5, 10, 50][: len(off)]
    series = {"head_off_diagonal": off, "head_difference": difference}
    data = {name: (("replica", "step"), np.array([values])) for name, values in series.items()}
    return xr.Dataset(data | {"last_step": (("replica",), steps[-1:])}, coords={"step": steps})


def measured(id: str, run: xr.Dataset) -> float:
    (test,) = (test for test in TINY.tests if test.statement.id == id)
    return test.judge(TINY, "identity", {"identity": run}).measured


def test_rise_and_fall_and_asymmetry_by_hand():
    run = course([0.0, 1.0, 2.0, 4.0, 3.0], [0.0, 0.0, 2.0, 8.0, 3 * 2**0.5])
    assert asymmetry(run).values[0] == pytest.approx([0, 0, 1, 2, 2**0.5])
    assert measured("rise-and-fall-on-images", run) == pytest.approx(0.25)
    assert measured("head-asymmetric-early", run) == pytest.approx(1)  # at step 5 of 50
    assert measured("head-not-symmetric", run) == pytest.approx(2**0.5)
    assert measured("rise-and-fall-on-images", course([0.0, 1.0, 2.0], [0.0] * 3)) == 0
    assert measured("rise-and-fall-on-images", course([0.0, 0.0], [0.0] * 2)) == 0


def test_what_is_drawn_of_the_head_is_its_matrix():
    experiment = build("identity")
    with torch.no_grad():
        experiment.objective.head.scaled.copy_(torch.arange(36.0).reshape(6, 6) / 36)
        found = probes.during(experiment)
    off = experiment.objective.head.matrix.detach().numpy() - np.eye(6)
    assert float(found["head_off_diagonal"].values) == pytest.approx(np.linalg.norm(off))
    assert float(found["head_difference"].values) == pytest.approx(np.linalg.norm(off - off.T))
    assert "head_difference" not in probes.during(build("mlp"))


def test_collapse_is_measured_on_encoder_and_projection():
    experiment = build("identity")
    with torch.no_grad():
        found = {**probes.at_the_end(experiment), **probes.during(experiment)}
        h = experiment.learner(experiment.source.test_set.pixels.float() / 255)
        z = experiment.objective.projection(h)
    for name, output in (("encoder", h), ("projection", z)):
        alive = (output.std(0) > 0).numpy()  # a unit that is never active goes with none
        correlations = np.corrcoef(output.double().numpy().T[alive])
        assert found[f"{name}_correlations"].values[0].numpy()[np.ix_(alive, alive)] == pytest.approx(
            correlations, abs=1e-6
        )
        assert float(found[f"{name}_mean_correlation"].values) == pytest.approx(float(mean_correlation(output)))
        assert float(found[f"{name}_effective_rank"].values) == pytest.approx(
            float(effective_rank(standardised(output)))
        )
        assert float(found[f"{name}_final_spread"].values) == pytest.approx(float(spread(output)))
        for series, single in (("rank", "effective_rank"), ("correlation", "mean_correlation")):
            assert torch.equal(found[f"{name}_{series}"].values, found[f"{name}_{single}"].values)


def test_claims_are_arithmetic_on_what_was_measured():
    series = "projection_mean_correlation", "projection_effective_rank", "projection_final_spread"
    runs = by_chance(TRIAL.runs, "linear_probe", "encoder_mean_correlation", *series)
    claims = by_name(TINY.claims(runs))
    accuracy = {name: run["linear_probe"].values for name, run in runs.items()}
    correlation = {name: run["projection_mean_correlation"].values for name, run in runs.items()}
    rank = {name: run["projection_effective_rank"].values for name, run in runs.items()}
    inside = runs["none"]["encoder_mean_correlation"].values
    best = np.maximum(accuracy["linear"], accuracy["mlp"])
    for id, name, expected in (
        ("training-helps", "identity-ema", accuracy["identity-ema"] - accuracy["untrained"]),
        ("identity-head-competitive", "linear", accuracy["identity"] - accuracy["linear"]),
        ("identity-head-competitive", "mlp", accuracy["identity"] - accuracy["mlp"]),
        ("identity-head-competitive", "untrained", accuracy["untrained"] - best),
        ("head-beats-none", "identity", accuracy["identity"] - accuracy["none"]),
        ("l2-gap", "identity-l2", accuracy["identity"] - accuracy["identity-l2"]),
        ("no-head-correlation", "none", correlation["none"]),
        ("head-beats-none", "identity-ema", accuracy["identity-ema"] - accuracy["none-ema"]),
        ("head-decorrelates", "mlp", correlation["none"] - correlation["mlp"]),
        ("head-decorrelates", "identity-ema", correlation["none-ema"] - correlation["identity-ema"]),
        ("head-keeps-rank", "identity-ema", rank["identity-ema"] - rank["none-ema"]),
        ("head-keeps-rank", "identity", rank["identity"] - rank["none"]),
        ("milder-in-encoder", "none", correlation["none"] - inside),
        ("l2-no-head-collapses", "none-l2", runs["none-l2"]["projection_final_spread"].values),
    ):
        assert claims[id, name].measured == pytest.approx(expected.mean()), id


def test_figures_show_the_paper_s():
    drawn = {figure.id: figure for figure in TINY.figures(TRIAL.runs)}
    assert [type(figure) for figure in drawn.values()] == [Heatmaps, Curves, Bars, Curves, Curves, Curves]
    place = drawn["linear-probe"].groups.index("no head")
    value, _, _ = drawn["linear-probe"].series[""]
    assert value[place] == pytest.approx(100 * float(TRIAL.run("none")["linear_probe"].mean()))
    for panel in drawn["correlations"].panels:
        assert [curve.y.sum() for curve in panel.curves] == pytest.approx([100] * 4)
    assert drawn["correlation-matrices"].panels["no head"].shape == (6, 6)
    assert len(drawn["head"].panels[1].curves) == 3 + 2  # arms and references


def test_spectra_are_means_and_histograms_are_of_their_own_outputs():
    runs = dict(by_chance(TRIAL.runs, "projection_spectrum", "encoder_spectrum"))
    alike = {"projection": -0.52, "encoder": 0.52}
    for name, value in alike.items():
        kept = f"{name}_correlations"
        for arm, run in runs.items():
            matrix = value + (1 - value) * np.eye(run[kept].shape[-1])
            runs[arm] = run.assign({kept: run[kept].copy(data=np.broadcast_to(matrix, run[kept].shape).copy())})
    figures = {figure.id: figure for figure in TINY.figures(runs)}
    panels = zip(alike, figures["spectra"].panels, figures["correlations"].panels, strict=True)
    for name, spectra, histograms in panels:
        for drawn, run in zip(spectra.curves, runs.values(), strict=True):
            np.testing.assert_allclose(drawn.y, run[f"{name}_spectrum"].mean("replica"))
        for drawn in histograms.curves:
            assert abs(drawn.x[drawn.y.argmax()] - alike[name]) < 0.05
            assert drawn.y.max() == pytest.approx(100)


def test_the_story_turns_with_what_was_found():
    def alike(with_head: float, without: float):
        values = {"identity": with_head, "none": without}
        return TRIAL.runs | {
            arm: TRIAL.run(arm).assign(projection_mean_correlation=TRIAL.run(arm).linear_probe * 1e-3 + value)
            for arm, value in values.items()
        }

    for runs, words in (
        (
            alike(0.2, 0.9),
            "Outputs are less alike with a prediction head: two correlate by 0.20 with it, 0.90 without.",
        ),
        (
            alike(0.9, 0.2),
            "Outputs are no less alike with a prediction head: two correlate by 0.90 with it, 0.20 without.",
        ),
        (alike(np.nan, 0.2), "Outputs may be less alike with a prediction head: two correlate by an unknown amount"),
    ):
        claims = TINY.claims(runs)
        story = TINY.story(runs, claims)
        assert story.found.startswith(words)
        assert story.headlines.keys() <= {f"{claim.id}@{claim.arm}" for claim in claims}
    assert f"{100 * float(TRIAL.run('none')['linear_probe'].mean()):.1f} % without" in story.lede


def test_one_replica_still_makes_a_report():
    single = {name: run.isel(replica=[0]) for name, run in TRIAL.runs.items()}
    assert {claim.verdict for claim in TINY.claims(single) if claim.chance} == {"undecided"}
    assert list(TINY.figures(single))
    assert "may be" in TINY.story(single, TINY.claims(single)).found


def test_on_cuda_the_default_is_all_images_as_they_are():
    def sizes(device: str, **options) -> list[int]:
        data = PredictionHeadImages(**options).arm("none").recipe.data
        return data.sizes(torch.device(device), "train", "test", "side")

    assert sizes("cpu", data="somewhere") == [5000, 2000, 16]
    assert sizes("cuda", data="somewhere") == [0, 0, 0]
    assert sizes("cuda", data="somewhere", side=64) == [0, 0, 64]
    assert sizes("cuda", data="shapes") == [5000, 2000, 0]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"data": ""}, "data"),
        ({"train": -1}, "train"),
        ({"side": -1}, "side"),
        ({"batch": 1}, "batch"),
        ({"steps": -1}, "steps"),
        ({"probe_every": 0}, "probe_every"),
    ],
)
def test_wrong_options_are_named(wrong, named):
    with pytest.raises(ConfigError, match=rf"PredictionHeadImages\.{named} = .* is out of range"):
        PredictionHeadImages(**wrong)
