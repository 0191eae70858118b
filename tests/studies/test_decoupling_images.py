"""The study `decoupling-images` at a tiny size."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from featscope.figures import Bars, Curves, Heatmaps, ImageGrids, Scatters
from featscope.models import WideResNet
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.studies.decoupling_images import DecouplingImages, probes
from featscope.testing import Trial, measure

pytest.importorskip("kornia", reason="extra 'images' is not installed")

TRIAL = Trial(DecouplingImages().smallest(), replicas=2)
TINY = TRIAL.study


def test_arms_begin_with_the_same_network_and_images():
    experiments = [arm.recipe.build(Streams(0, [1])) for arm in TINY.arms()]
    first = experiments[0]
    for other in experiments[1:]:
        assert torch.equal(first.learner.filters, other.learner.filters)
        assert torch.equal(first.source.train_set.pixels, other.source.train_set.pixels)


def test_every_statement_is_put_to_the_test_and_controls_are_not_expected():
    assert {id for id, _ in TRIAL.healthy} == {statement.id for statement in TINY.statements()}
    for (_, arm), claim in TRIAL.healthy.items():
        assert claim.n == 2
        assert np.isfinite(claim.measured)
        assert not (arm == "untrained" and claim.expected)


def test_the_untrained_network_has_not_moved():
    assert not TRIAL.run("untrained")["distance"].any()
    assert TRIAL.healthy["filters-move-without-augmentation", "untrained"].verdict == "fails"
    assert (TRIAL.run("crop")["distance"] > 0).all()


def test_claims_are_arithmetic_on_what_was_measured():
    def at(arm, name):
        return TRIAL.run(arm)[name].values

    thinner = at("crop", "density")[:, 1:].mean(1) - at("crop-colour", "density")[:, 1:].mean(1)
    top = {arm: at(arm, "linear_probe")[:, -1] for arm in ("none", "crop-colour", "untrained")}
    added = {
        arm: at(arm, "filters") - at("untrained", "filters") for arm in ("crop", "crop-colour")
    }  # [replica, filter, channel, row, column]
    chromatic = {
        arm: ((w - w.mean(2, keepdims=True)) ** 2).sum((2, 3, 4)) / (w**2).sum((2, 3, 4)) for arm, w in added.items()
    }
    for id, arm, expected in (
        ("colour-makes-contrastive-sparser", "crop-colour", thinner),
        (
            "augmentation-improves-linear-probe",
            "crop-colour",
            top["crop-colour"] - np.maximum(top["none"], top["untrained"]),
        ),
        ("no-augmentation-learns-no-signal", "none", top["none"] - top["untrained"]),
        ("crop-learns-colourful-filters", "crop", (chromatic["crop"] - chromatic["crop-colour"]).mean(1)),
    ):
        assert TRIAL.healthy[id, arm].measured == pytest.approx(expected.mean(), rel=1e-5)
    assert TRIAL.healthy["colour-makes-contrastive-sparser", "crop-colour"].relation in (">", ">=")
    assert TRIAL.healthy["no-augmentation-learns-no-signal", "none"].relation in ("<", "<=")


def test_figures_show_all_arms():
    figures = list(TINY.figures(TRIAL.runs))
    assert len({figure.id for figure in figures}) == len(figures)
    assert {type(figure) for figure in figures} == {Bars, Curves, Heatmaps, ImageGrids, Scatters}
    for figure in figures:
        if isinstance(figure, ImageGrids):
            assert len(figure.panels) == (5 if figure.id == "filters-learned" else 6)
            for images in figure.panels.values():
                assert images.shape == (4, 5, 5, 3)
                assert images.min() >= 0
                assert images.max() <= 1
        if isinstance(figure, Scatters):
            assert len(figure.class_names) == 8


def test_a_comma_in_the_name_of_a_class_moves_no_other_name():
    experiment = TINY.arm("none").recipe.build(Streams(0, [0]))
    names = ("granulocytes (myelocytes, metamyelocytes)", *experiment.source.class_names[1:])
    experiment.source.class_names = names
    with torch.no_grad():
        about = probes.readout(experiment)["map_class"].about
    start = TRIAL.run("untrained")
    start = start.assign(map_class=start.map_class.assign_attrs(long_name=about))
    (figure,) = (one for one in TINY.figures(TRIAL.runs | {"untrained": start}) if isinstance(one, Scatters))
    assert list(figure.class_names) == ["granulocytes (myelocytes; metamyelocytes)", *names[1:]]


@pytest.mark.parametrize(
    ("gain", "found"), [(0.2, "Distorted colours help:"), (-0.2, "Distorted colours do not help:")]
)
def test_the_story_turns_with_what_was_measured(gain, found):
    runs = TRIAL.runs
    best = np.maximum(runs["crop"].linear_probe, runs["untrained"].linear_probe)
    turned = runs | {
        "crop-colour": runs["crop-colour"].assign(
            linear_probe=best + gain + 1e-4 * (best["replica"] - best["replica"].mean())
        )
    }
    story = TINY.story(turned, TINY.claims(turned))
    named = 100 * (best.isel(layer=-1).mean().item() + gain)
    assert story.found.startswith(f"{found} {named:.0f} % of images are named right")
    assert set(story.headlines) <= {f"{id}@{arm}" for id, arm in TRIAL.healthy}
    unknown = runs | {"crop": runs["crop"].assign(colour_added=np.nan * runs["crop"].colour_added)}
    told = TINY.story(unknown, []).headlines["crop-learns-colourful-filters@crop"]
    assert "an unknown amount is colour with crops alone" in told


def test_one_replica_still_makes_a_report():
    single = {arm: run.isel(replica=[0]) for arm, run in TRIAL.runs.items()}
    assert {claim.verdict for claim in TINY.claims(single) if claim.chance} == {"undecided"}
    assert list(TINY.figures(single))
    assert TINY.story(single, TINY.claims(single)).found.startswith("Whether distorted colours help is unclear:")


def test_the_wide_resnet_runs():
    study = replace(TINY, network="wide-resnet", wide_resnet=WideResNet(depth=10, widen=1), batch=4, steps=1)
    run = measure(study, study.arm("crop-colour"), 1)
    assert run.sizes["layer"] == 4
    assert np.isfinite(run["density"]).all()


def test_without_a_silhouette_its_claim_says_nothing():
    """As of a few test images, all of different classes."""
    runs = {arm: run.assign(silhouette=run.silhouette * np.nan) for arm, run in TRIAL.runs.items()}
    (test,) = (test for test in DecouplingImages.tests if test.statement.id == "augmentation-separates-classes")
    assert {test.judge(TINY, arm, runs).verdict for arm in test.arms(TINY)} == {"undecided"}


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"data": ""}, "DecouplingImages.data"),
        ({"batch": 1}, "DecouplingImages.batch"),
        ({"steps": -1}, "DecouplingImages.steps"),
        ({"probe_every": 0}, "DecouplingImages.probe_every"),
        ({"train": -1}, "DecouplingImages.train"),
        ({"data": "shapes", "test": 0}, "Images.test"),
        ({"test": 1}, "DecouplingImages.test"),
    ],
)
def test_wrong_options_are_named(wrong, named):
    with pytest.raises(ConfigError, match=rf"^{named} = .* is out of range"):
        DecouplingImages(**wrong)
