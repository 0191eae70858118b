"""The study `decoupling-images` at a tiny size."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from known_images import by_chance, colours, experiment_of, flat
from torch import nn

from featscope.data import ImageSet
from featscope.figures import Bars, Curves, Heatmaps, ImageGrids, Scatters
from featscope.models import WideResNet
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.studies.decoupling_images import DecouplingImages, probes
from featscope.testing import Trial, by_name, measure
from featscope.training.image_objectives import ClassifyImages

pytest.importorskip("kornia", reason="extra 'images' is not installed")

TRIAL = Trial(DecouplingImages().smallest(), replicas=2)
TINY = TRIAL.study


def test_arms_begin_with_the_same_network_and_images():
    experiments = [arm.recipe.build(Streams(0, [1])) for arm in TINY.arms()]
    first = experiments[0]
    for other in experiments[1:]:
        assert torch.equal(first.learner.filters, other.learner.filters)
        assert torch.equal(first.source.train_set.pixels, other.source.train_set.pixels)


def test_views_of_each_arm_are_what_it_is_called_for():
    """A red image whose upper half is darker: whether a view is cut out of it, and whether red stays red."""
    image = torch.tensor([0.8, 0.3, 0.2])[:, None, None] * torch.tensor([0.5, 1.0]).repeat_interleave(8)[:, None]
    images, found = image.expand(1, 40, 3, 16, 16), {}
    for arm in TINY.arms():
        for view in arm.recipe.objective.view(images, Streams(0, [0]).at("view")):
            cut = not torch.allclose(view, images)
            share = view / view.sum(2, keepdim=True)
            red = torch.allclose(share[:, :, 0], torch.tensor(0.8 / 1.3), atol=1e-3)
            found.setdefault(arm.name, []).append((cut, red))
    plain, cropped, distorted = (False, True), (True, True), (True, False)
    assert found == {
        "none": [plain] * 2,
        "crop": [cropped] * 2,
        "crop-colour": [distorted] * 2,
        "supervised-crop": [cropped] * 2,
        "supervised-crop-colour": [distorted] * 2,
        "untrained": [plain] * 2,
    }
    supervised = [arm.name for arm in TINY.arms() if isinstance(arm.recipe.objective, ClassifyImages)]
    assert supervised == ["supervised-crop", "supervised-crop-colour"]


class TwoLayers(nn.Module):
    """How far the mean of an image's colours is above a bound, and above that how far each colour is above half."""

    layers = ("mean", "colours")

    def __init__(self, bound: float, filters: torch.Tensor | None = None) -> None:
        super().__init__()
        self.mean, self.colours, self.bound, self.filters = nn.ReLU(), nn.ReLU(), bound, filters

    def forward(self, x):
        self.mean(x.mean(1, keepdim=True).expand_as(x) - self.bound)
        return self.colours(x - 0.5).mean((-2, -1))


def test_firing_is_that_of_test_images_layer_by_layer():
    """All of a training image is bright; of a test image one channel of three, and the others are not quite so."""
    test, labels = flat(torch.tensor([[100, 200, 120]] * 9)), torch.arange(9) % 3
    grey, units = torch.ones(2, 3, 5, 5), test[0].numel()
    known = experiment_of(TwoLayers(0.9, 2 * grey), ImageSet(255 + 0 * test, labels), ImageSet(test, labels))
    found = probes.firing(known) | probes.during(known, TwoLayers(0.9, grey))
    assert found["density"].values[0].tolist() == pytest.approx([0, 1 / 3])
    assert found["watched_density"].values[0].tolist() == pytest.approx([0, 1 / 3])
    assert found["treves_rolls"].values[0, 1].item() == pytest.approx(1 / 3)
    assert found["hoyer"].values[0, 1].item() == pytest.approx((units**0.5 - (units / 3) ** 0.5) / (units**0.5 - 1))
    assert found["filter_distance"].values.item() == pytest.approx(1)
    assert found["filter_colourfulness"].values.item() == pytest.approx(0)


def test_what_is_read_out_is_of_test_images_and_of_each_layer():
    """Classes are colours, of which the first layer says nothing; a third of the test images have another label."""
    train, test = colours(90, seed=0), colours(60, seed=1)
    labels = torch.where(torch.arange(60) < 20, (test.labels + 1) % 3, test.labels)
    known = experiment_of(TwoLayers(0.1), train, test._replace(labels=labels))
    found = {name: measured.values[0] for name, measured in probes.readout(known).items()}
    for name in ("linear_probe", "knn"):
        assert found[name][1].item() == pytest.approx(2 / 3), name
        assert found[name][0] < 0.5, name
    assert found["silhouette"][1] < 0.6
    assert found["colour_readout"][1] > 0.99
    assert found["colour_readout"][0] < 0.1
    near = torch.cdist(found["map"], found["map"]).fill_diagonal_(torch.inf).argmin(1)
    assert (test.labels[near] == test.labels).all()
    assert torch.equal(found["map_class"], labels)


def test_neighbours_tell_what_no_line_does():
    """Whether one alone of two channels is bright."""
    bright = torch.stack([torch.arange(80) // 2 % 2, torch.arange(80) % 2, torch.zeros(80)], 1)
    noise = torch.randint(-5, 6, (80, 3), generator=torch.Generator().manual_seed(0)) * torch.tensor([1, 1, 0])
    images = ImageSet(flat(150 + 80 * bright + noise), (bright[:, 0] != bright[:, 1]).long())
    found = probes.readout(experiment_of(TwoLayers(0.1), images, images))
    assert found["knn"].values[0, 1] == 1
    assert found["linear_probe"].values[0, 1] < 0.8


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


def test_colour_is_that_of_the_filters_and_of_what_was_added_to_them():
    start = TRIAL.run("untrained").filters.values  # [replica, filter, channel, row, column]
    for arm in ("crop", "crop-colour"):
        run = TRIAL.run(arm)
        for found, w in (
            (run.colour_added, run.filters.values - start),
            (run.filter_colourfulness[:, -1], run.filters.values),
        ):
            share = ((w - w.mean(2, keepdims=True)) ** 2).sum((2, 3, 4)) / (w**2).sum((2, 3, 4))
            np.testing.assert_allclose(found, share.mean(1), rtol=1e-5)


def test_claims_are_arithmetic_on_what_was_measured():
    features = "linear_probe", "knn", "silhouette", "colour_readout"
    runs = by_chance(TRIAL.runs, *features, "density", "hoyer", "colour_added", "filter_colourfulness")
    claims = by_name(TINY.claims(runs))
    probe, knn, apart, hue = ({a: r[name].values[:, -1] for a, r in runs.items()} for name in features)
    firing, hoyer = ({a: r[name].values[:, 1:].mean(1) for a, r in runs.items()} for name in ("density", "hoyer"))
    added, whole = ({a: r[n] for a, r in runs.items()} for n in ("colour_added", "filter_colourfulness"))
    whole = {arm: values[:, -1] for arm, values in whole.items()}
    both, supervised = "crop-colour", "supervised-crop"
    for id, arm, expected in (
        ("no-augmentation-learns-no-signal", "none", probe["none"] - probe["untrained"]),
        ("crop-learns-some-semantics", "crop", probe["crop"] - np.maximum(probe["none"], probe["untrained"])),
        ("crop-keeps-colour-features", "crop", hue["crop"] - hue[both]),
        ("crop-keeps-colourful-filters", "crop", whole["crop"] - whole[both]),
        ("crop-learns-colourful-filters", "crop", added["crop"] - added[both]),
        ("colour-makes-contrastive-sparser", both, firing["crop"] - firing[both]),
        ("colour-makes-contrastive-sparser-hoyer", both, hoyer[both] - hoyer["crop"]),
        ("no-augmentation-fires-densely", both, firing["none"] - firing[both]),
        ("colour-improves-features", both, probe[both] - np.maximum(probe["crop"], probe["untrained"])),
        ("augmentation-improves-linear-probe", both, probe[both] - np.maximum(probe["none"], probe["untrained"])),
        ("augmentation-improves-knn", both, knn[both] - np.maximum(knn["none"], knn["untrained"])),
        ("augmentation-separates-classes", both, apart[both] - np.maximum(apart["none"], apart["untrained"])),
        ("supervised-sparser-than-crop", supervised, firing["crop"] - firing[supervised]),
        (
            "supervised-firing-ignores-colour",
            f"{supervised}-colour",
            firing[supervised] - firing[f"{supervised}-colour"],
        ),
        ("supervised-learns-more-colour", supervised, added[supervised] - added[both]),
        ("supervised-more-colourful", supervised, whole[supervised] - whole[both]),
    ):
        assert claims[id, arm].measured == pytest.approx(float(expected.mean()), rel=1e-5), id
        assert (claims[id, arm].relation in ("<", "<=")) == (id == "no-augmentation-learns-no-signal"), id


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


def test_figures_and_story_show_what_was_measured():
    features = "linear_probe", "knn", "colour_readout"
    runs = by_chance(TRIAL.runs, *features, "density", "hoyer", "watched_density", "colour_added", "firing_pattern")
    figures = {figure.id: figure for figure in TINY.figures(runs)}
    labels = {arm.name: arm.label for arm in TINY.arms()}
    for arm, run in runs.items():
        tops = [float(run[name][:, -1].mean()) for name in features]
        assert figures["readouts"].series[labels[arm]][0] == pytest.approx(np.array(tops))
        for name in ("density", "hoyer"):
            np.testing.assert_allclose(figures[name].series[labels[arm]][0], run[name].mean("replica"))
        shown = figures["firing-patterns"].panels[labels[arm]]
        np.testing.assert_array_equal(shown[:, :24], run.firing_pattern[0, 1])
        np.testing.assert_array_equal(shown[:, -24:], run.firing_pattern[0, -1])
    (course,) = (one for one in figures["training"].panels[0].curves if one.label == labels["crop"])
    np.testing.assert_allclose(course.y, runs["crop"].watched_density.mean("replica")[..., -1])
    told = TINY.story(runs, []).headlines
    crop, both = (runs[arm] for arm in ("crop", "crop-colour"))
    for headline, one, other in (
        ("crop-learns-colourful-filters@crop", crop.colour_added, both.colour_added),
        ("crop-keeps-colour-features@crop", crop.colour_readout[:, -1], both.colour_readout[:, -1]),
        ("colour-makes-contrastive-sparser@crop-colour", both.density[:, 1:], crop.density[:, 1:]),
    ):
        means = [float(values.mean()) for values in (one, other)]
        first, second = (f"{m:.2f}" if "keeps" in headline else f"{100 * m:.0f} %" for m in means)
        assert -1 < told[headline].find(f" {first} ") < told[headline].find(f" {second} "), told[headline]


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
