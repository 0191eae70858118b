"""The study `prediction-head-images` at a tiny size."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr
from torch import nn

from featscope.figures import Bars, Curves, Heatmaps
from featscope.models import IdentityHead, ProjectionHead, ResNet18
from featscope.options import ConfigError
from featscope.probes.collapse import effective_rank, mean_correlation, spread, standardised
from featscope.streams import Streams
from featscope.studies.prediction_head_images import PredictionHeadImages, figures, judge, measures
from featscope.training import EMA, Record, probe_steps, train

pytest.importorskip("kornia", reason="extra 'images' is not installed")

TINY = PredictionHeadImages(
    data="shapes",
    train=40,
    test=24,
    side=8,
    network=ResNet18(width=2),
    projection=ProjectionHead(hidden=8, outputs=6),
    ema=EMA(momentum=0.5),
    batch=8,
    steps=4,
    probe_every=2,
)
REPLICAS = 3


def run_arm(arm, replica: int) -> xr.Dataset:
    experiment, record = arm.config.build(Streams(0, [replica])), Record()
    marks = probe_steps(arm.config.steps, arm.config.probe_every)
    train(experiment, arm.config.steps, arm.config.watch, marks, record)
    with torch.no_grad():
        for assay in arm.at_end:
            record.put(assay(experiment))
    return record.to_dataset([replica])


def run_all(study: PredictionHeadImages, replicas: int = REPLICAS) -> dict[str, xr.Dataset]:
    return {
        arm.name: xr.concat([run_arm(arm, replica) for replica in range(replicas)], dim="replica")
        for arm in study.arms()
    }


@pytest.fixture(scope="module")
def runs():
    return run_all(TINY)


def by_arm(claims, id: str):
    return {claim.arm: claim for claim in claims if claim.id == id}


def arm(name: str):
    return next(a for a in TINY.arms() if a.name == name)


def test_arms_begin_with_the_same_network_and_see_the_same_batches():
    experiments = {a.name: a.config.build(Streams(0, [1])) for a in TINY.arms()}
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
    assert [name for name, e in experiments.items() if e.objective.target is not None] == ["identity-ema", "none-ema"]


def test_the_target_network_is_in_the_state_and_moves_halfway():
    experiment = arm("identity-ema").config.build(Streams(0, [0]))
    before = experiment.objective.target.average[0].filters.clone()
    experiment.advance(0)
    target = experiment.objective.target.average[0].filters
    torch.testing.assert_close(target, (before + experiment.learner.filters) / 2)
    assert not torch.equal(target, before)
    other = arm("identity-ema").config.build(Streams(0, [0]))
    other.load_state_dict(experiment.state_dict())
    assert torch.equal(other.objective.target.average[0].filters, target)


def test_every_statement_is_put_to_the_test_and_controls_are_not_expected(runs):
    claims = list(TINY.claims(runs))
    assert {claim.id for claim in claims} == {statement.id for statement in TINY.statements}
    assert len({(claim.id, claim.arm) for claim in claims}) == len(claims)
    for claim in claims:
        assert claim.n == REPLICAS
        assert np.isfinite(claim.measured)
        assert claim.note
        assert not (claim.arm == "untrained" and claim.expected)


def test_what_the_comparison_rests_on_holds_and_fails_on_its_control(runs):
    claims = list(TINY.claims(runs))
    assert by_arm(claims, "targets-are-constant")["identity"].verdict == "holds"
    assert by_arm(claims, "diagonal-frozen")["identity"].verdict == "holds"
    assert by_arm(claims, "diagonal-frozen")["linear"].verdict == "fails"
    assert by_arm(claims, "training-helps")["untrained"].verdict == "fails"
    assert by_arm(claims, "target-follows")["identity-ema"].measured < 0.9


def test_the_untrained_head_is_the_identity_and_symmetric(runs):
    for id in ("rise-and-fall-on-images", "head-asymmetric-early", "head-not-symmetric"):
        claim = by_arm(TINY.claims(runs), id)["untrained"]
        assert (claim.measured, claim.verdict) == (0, "fails")


def course(off: list[float], difference: list[float]) -> xr.Dataset:
    series = {"head_off_diagonal": off, "head_difference": difference, "loss": [1.0] * len(off)}
    steps = [0, 1, 5, 10, 50][: len(off)]
    data = {name: (("replica", "step"), np.array([values])) for name, values in series.items()}
    return xr.Dataset(data, coords={"step": steps})


def test_rise_and_fall_and_asymmetry_by_hand():
    run = course([0.0, 1.0, 2.0, 4.0, 3.0], [0.0, 0.0, 2.0, 8.0, 3 * 2**0.5])
    assert judge.lost(run) == pytest.approx([0.25])
    assert judge.asymmetry(run).values[0] == pytest.approx([0, 0, 1, 2, 2**0.5])
    assert judge.early(run) == 5
    assert judge.lost(course([0.0, 1.0, 2.0], [0.0] * 3)) == pytest.approx([0])
    assert judge.lost(course([0.0, 0.0], [0.0] * 2)) == pytest.approx([0])


def test_what_is_drawn_of_the_head_is_its_matrix():
    experiment = arm("identity").config.build(Streams(0, [0]))
    with torch.no_grad():
        experiment.objective.head.scaled.copy_(torch.arange(36.0).reshape(6, 6) / 36)
    matrix = measures._matrix(experiment.objective.head)
    torch.testing.assert_close(matrix, experiment.objective.head.matrix)
    with torch.no_grad():
        found = measures.during(experiment)
    off = matrix.detach().numpy() - np.eye(6)
    assert float(found["head_off_diagonal"].values) == pytest.approx(np.linalg.norm(off))
    assert float(found["head_difference"].values) == pytest.approx(np.linalg.norm(off - off.T))
    linear = arm("linear").config.build(Streams(0, [0])).objective.head
    torch.testing.assert_close(measures._matrix(linear), linear.weight)
    assert "head_difference" not in measures.during(arm("mlp").config.build(Streams(0, [0])))


def test_collapse_is_measured_on_encoder_and_projection():
    experiment = TINY.build(Streams(0, [0]))
    with torch.no_grad():
        found = measures.collapse(experiment) | measures.during(experiment)
        h = experiment.learner(experiment.source.test_set.pixels.float() / 255)
        z = experiment.objective.projection(h)
    for name, output in (("encoder", h), ("projection", z)):
        correlations = np.corrcoef(output.double().numpy().T)
        assert found[f"{name}_correlations"].values[0].numpy() == pytest.approx(correlations, abs=1e-6)
        assert float(found[f"{name}_mean_correlation"].values) == pytest.approx(float(mean_correlation(output)))
        assert float(found[f"{name}_effective_rank"].values) == pytest.approx(
            float(effective_rank(standardised(output)))
        )
        assert float(found[f"{name}_final_spread"].values) == pytest.approx(float(spread(output)))
        for series, single in (("rank", "effective_rank"), ("correlation", "mean_correlation")):
            assert torch.equal(found[f"{name}_{series}"].values, found[f"{name}_{single}"].values)


def test_claims_are_arithmetic_on_what_was_measured(runs):
    claims = list(TINY.claims(runs))
    accuracy = {name: run["linear_probe"].values for name, run in runs.items()}
    correlation = {name: run["projection_mean_correlation"].values for name, run in runs.items()}
    rank = {name: run["projection_effective_rank"].values for name, run in runs.items()}
    inside = runs["none"]["encoder_mean_correlation"].values
    for id, name, expected in (
        ("training-helps", "identity-ema", accuracy["identity-ema"] - accuracy["untrained"]),
        ("identity-head-competitive", "linear", accuracy["identity"] - accuracy["linear"]),
        ("identity-head-competitive", "mlp", accuracy["identity"] - accuracy["mlp"]),
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
        assert by_arm(claims, id)[name].measured == pytest.approx(expected.mean())


def test_figures_show_the_paper_s(runs):
    claims = list(TINY.claims(runs))
    drawn = {figure.id: figure for figure in TINY.figures(runs, claims)}
    assert [type(figure) for figure in drawn.values()] == [Bars, Curves, Heatmaps, Curves, Curves, Curves]
    place = drawn["linear-probe"].groups.index("no head")
    value, _, _ = drawn["linear-probe"].series[""]
    assert value[place] == pytest.approx(100 * float(runs["none"]["linear_probe"].mean()))
    for panel in drawn["correlations"].panels:
        assert [curve.y.sum() for curve in panel.curves] == pytest.approx([100] * 4)
    assert drawn["correlation-matrices"].panels["no head"].shape == (6, 6)
    assert len(drawn["head"].panels[1].curves) == 3 + 2  # arms and references
    headline = TINY.headline(runs, claims)
    for words in ("with the identity-initialised head", "without", "before training"):
        assert words in headline


def test_constant_outputs_have_no_part_in_the_histogram():
    matrix = np.array([[1.0, 0, 0.5], [0, 0, 0], [0.5, 0, 1]])
    assert figures.off_diagonal(matrix).tolist() == [0.5]


def test_one_replica_still_makes_a_report(runs):
    single = {name: run.isel(replica=[0]) for name, run in runs.items()}
    claims = list(TINY.claims(single))
    assert {claim.verdict for claim in claims} == {"undecided"}
    assert list(TINY.figures(single, claims))
    assert TINY.headline(single, claims)


def test_on_cuda_the_default_is_all_images_as_they_are():
    study = PredictionHeadImages(data="somewhere")
    on_cpu, on_cuda = (study.images(device) for device in ("cpu", "cuda"))
    assert (on_cpu.train, on_cpu.test, on_cpu.side) == (5000, 2000, 16)
    assert (on_cuda.train, on_cuda.test, on_cuda.side) == (0, 0, 0)
    assert replace(study, side=64).images("cuda").side == 64
    assert PredictionHeadImages(data="shapes").images("cuda").train == 5000


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"data": ""}, "source"),
        ({"train": -1}, "train"),
        ({"side": -1}, "side"),
        ({"batch": 1}, "batch"),
        ({"steps": -1}, "steps"),
        ({"probe_every": 0}, "probe_every"),
    ],
)
def test_wrong_options_are_named(wrong, named):
    with pytest.raises(ConfigError, match=rf"\.{named} = .* is out of range"):
        PredictionHeadImages(**wrong)
