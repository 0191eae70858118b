"""The study `longtail-images` at a tiny size."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import xarray as xr
from known_images import NAMES, MeanColour, by_chance, colours
from torch import nn

from featscope.claims import Claim
from featscope.data import LongTailedSource, class_sizes
from featscope.figures import Agreement, Bars, Curves
from featscope.models import AlexNet, ResNet18
from featscope.options import ConfigError
from featscope.probes.long_tail import accuracy, gap, tail_minus_head
from featscope.streams import Streams
from featscope.studies.longtail_images import LongTailImages, figures, probes
from featscope.studies.longtail_images.table2 import GAINS, GAP, TABLE_2
from featscope.studies.summaries import identities
from featscope.testing import Trial, by_name, measure
from featscope.training import MagnitudePruning
from featscope.training.pruning import PruningMask

pytest.importorskip("kornia", reason="extra 'images' is not installed")

TRIAL = Trial(LongTailImages().smallest(), replicas=2)
TINY = TRIAL.study


def test_arms_begin_with_the_same_network_and_are_measured_on_the_same_images():
    experiments = {arm.name: arm.recipe.build(Streams(0, [1])) for arm in TINY.arms()}
    plain = experiments["plain"]
    for other in experiments.values():
        assert torch.equal(plain.learner.filters, other.learner.filters)
    assert torch.equal(plain.source.train_set.pixels, experiments["pruned"].source.train_set.pixels)
    assert [list(e.rules) for e in experiments.values()] == [[], ["pruning"], [], ["pruning"], []]


def test_every_statement_is_put_to_the_test_and_controls_are_not_expected():
    assert {id for id, _ in TRIAL.healthy} == {statement.id for statement in TINY.statements()}
    for (_, arm), claim in TRIAL.healthy.items():
        assert claim.n == 2
        assert np.isfinite(claim.measured)
        assert claim.note
        assert not (arm == "untrained" and claim.expected)


def test_counts_and_shares_hold_and_fail_on_their_controls():
    for id, arm, verdict in (
        ("class-sizes", "plain", "holds"),
        ("class-sizes", "balanced", "fails"),
        ("as-many-images", "balanced", "holds"),
        ("pruned-share", "pruned", "holds"),
        ("pruned-share", "plain", "fails"),
        ("the-control-is-even", "balanced-pruned", "holds"),
        ("pruning-changes-training", "pruned", "holds"),
        ("pruning-changes-training", "balanced-pruned", "holds"),
        ("training-helps", "untrained", "fails"),
    ):
        assert TRIAL.healthy[id, arm].verdict == verdict
    assert TRIAL.run("plain")["class_size"].isel(replica=0).values.tolist() == class_sizes(8, 20, 10)
    tail, even = TRIAL.run("plain")["class_size"], TRIAL.run("balanced")["class_size"]
    for arm, sizes in {"pruned": tail, "untrained": tail, "balanced-pruned": even}.items():
        np.testing.assert_array_equal(TRIAL.run(arm)["class_size"], sizes)
    data = TINY.arm("plain").recipe.data.build(Streams(0, [0]).at("data"))
    assert data.probe_set.labels.bincount().tolist() == [TINY.probe] * 8
    assert data.test_set.labels.bincount().tolist() == [TINY.test] * 8


def test_each_class_has_its_own_size_and_accuracy_from_head_to_tail():
    """Classes are colours. Training images are labelled wrongly; so are half of the green test images, and all blue."""
    train, fitted, test = (colours(count, seed) for seed, count in enumerate((12, 90, 60)))
    labels = torch.tensor([1] * 4 + [2] * 2 + [0] * 6)
    asked = test.labels.clone()
    asked[(test.labels == 1).nonzero()[:10]], asked[test.labels == 2] = 2, 1
    source = LongTailedSource(train._replace(labels=labels), fitted, test._replace(labels=asked), NAMES, (2, 0, 1))
    found = probes.readout(SimpleNamespace(learner=MeanColour(), source=source))
    assert found["class_size"].values[0].tolist() == [2, 6, 4]
    assert found["class_size"].about == "training images of blue, red, green"
    assert found["class_accuracy"].values[0].tolist() == pytest.approx([0, 1, 1 / 3])


def test_the_norm_of_weights_is_of_all_together():
    layer = nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[3.0, 0.0]]))
        layer.bias.fill_(4)
        assert float(probes.during(SimpleNamespace(learner=layer))["weight_norm"].values) == pytest.approx(5)


def test_the_gap_is_between_the_first_and_the_last_fifth_of_classes():
    by_class = xr.DataArray(np.array([[0.9, 0.7, 0.1, 0.1, 0.5, 0.5, 0.5, 0.5, 0.4, 0.2]]), dims=("replica", "class"))
    run = xr.Dataset({"class_accuracy": by_class})
    assert gap(run).values == pytest.approx([0.8 - 0.3])
    assert accuracy(run).values == pytest.approx([0.44])
    assert tail_minus_head(by_class[:, :3]).values == pytest.approx([0.1 - 0.9])  # at least one class


def test_claims_are_arithmetic_on_what_was_measured():
    runs = by_chance(TRIAL.runs, "class_accuracy", "doubt_added")
    claims = by_name(TINY.claims(runs))
    accuracy = {arm: run["class_accuracy"].values.mean(1) for arm, run in runs.items()}
    gap = {arm: run["class_accuracy"].values for arm, run in runs.items()}
    gap = {arm: a[:, :2].mean(1) - a[:, -2:].mean(1) for arm, a in gap.items()}
    rise = {arm: runs[arm]["doubt_added"].values for arm in ("plain", "balanced")}
    rise = {arm: r[:, -2:].mean(1) - r[:, :2].mean(1) for arm, r in rise.items()}
    gain, balanced_gain = accuracy["pruned"] - accuracy["plain"], accuracy["balanced-pruned"] - accuracy["balanced"]
    for id, arm, expected in (
        ("pruning-raises-accuracy", "pruned", gain),
        ("pruning-gains-as-printed", "pruned", gain),
        ("pruning-lowers-gap", "pruned", gap["plain"] - gap["pruned"]),
        ("pruning-helps-the-long-tail-more", "pruned", gain - balanced_gain),
        ("imbalance-costs-accuracy", "plain", accuracy["balanced"] - accuracy["plain"]),
        ("imbalance-opens-gap", "plain", gap["plain"] - gap["balanced"]),
        ("pruning-doubts-the-tail", "plain", rise["plain"] - rise["balanced"]),
        ("training-helps", "plain", accuracy["plain"] - accuracy["untrained"]),
    ):
        claim = claims[id, arm]
        assert claim.measured == pytest.approx(expected.mean()), id
        assert claim.relation in (">", ">=")
    assert TRIAL.healthy["pruning-gains-as-printed", "pruned"].predicted == pytest.approx(0.6512 - 0.6321)


def test_pruned_arms_are_compared_with_the_same_images_without_pruning():
    norms = {"plain": 1.0, "pruned": 2.0, "balanced": 4.0, "balanced-pruned": 16.0}
    runs = {
        arm: xr.Dataset({"weight_norm": (("replica", "step"), [[norm]])}, {"step": [3]}).assign(
            last_step=("replica", [3])
        )
        for arm, norm in norms.items()
    }
    (test,) = (test for test in TINY.tests if test.statement.id == "pruning-changes-training")
    assert [test.judge(TINY, arm, runs).measured for arm in ("pruned", "balanced-pruned")] == [1, 3]
    assert [*test.arms(replace(TINY, data="a folder", imbalance=None))] == ["pruned"]


def test_pruning_is_measured_where_it_happens():
    pruned = TRIAL.run("pruned")
    assert pruned["pruned_share"].values == pytest.approx(np.full(2, 0.5), abs=1e-3)
    assert not TRIAL.run("plain")["pruned_share"].values.any()
    experiment = TINY.arm("pruned").recipe.build(Streams(0, [0]))
    sizes = [p.numel() for p in experiment.learner.parameters() if p.ndim == 4]
    shares = pruned["pruned_of_layer"].values
    assert shares @ sizes / sum(sizes) == pytest.approx(pruned["pruned_share"].values)


def share_of(study: LongTailImages, run: xr.Dataset) -> Claim:
    (test,) = (test for test in LongTailImages.tests if test.statement.id == "pruned-share")
    return test.judge(study, "pruned", {"pruned": run})


@pytest.mark.parametrize(("ratio", "share"), [(0.3, 0.275), (0.45, 0.475)])
def test_the_share_of_filters_is_that_of_layers_which_round_each_for_itself(ratio: float, share: float):
    """4, 8, 12, 8 and 8 filters: 1, 2, 4, 2 and 2 of them at .3, and 2, 4, 5, 4 and 4 at .45."""
    study = replace(TINY, pruning=MagnitudePruning(ratio, "neuron", "straight-through"), steps=1)
    found = share_of(study, measure(study, study.arm("pruned"), 1))
    assert found.predicted == pytest.approx(share)
    assert found.verdict == "holds"


def test_of_few_weights_the_share_is_rounded_to_whole_ones_and_one_more_is_noticed():
    study = replace(TINY, alexnet=AlexNet(1), steps=1)
    run = measure(study, study.arm("pruned"), 1)
    found = share_of(study, run)
    assert found.predicted == pytest.approx(118 / 237)
    assert found.verdict == "holds"
    assert share_of(study, run.assign(pruned_share=run.pruned_share + 1 / 237)).verdict == "fails"


@pytest.mark.parametrize(("granularity", "expected"), [("entry", True), ("neuron", False)])
def test_a_gain_is_not_expected_of_whole_filters_which_get_no_gradient_while_hidden(granularity, expected):
    study = replace(TINY, pruning=MagnitudePruning(0.5, granularity, "straight-through"))
    (test,) = (test for test in TINY.tests if test.statement.id == "pruning-raises-accuracy")
    assert test.arms(study)["pruned"][0] == expected


def test_before_training_all_pruned_weights_are_those_of_the_start():
    assert (TRIAL.run("untrained")["pruned_from_start"] == 1).all()
    assert (TRIAL.run("pruned")["pruned_from_start"] < 1).all()


def test_doubt_is_one_minus_the_softmax_of_the_partner_averaged_by_class():
    """A loop over views and classes, and a network of which nothing is pruned doubts no more than it did."""
    experiment = TINY.arm("plain").recipe.build(Streams(0, [0]))
    with torch.no_grad():
        nothing = probes.doubt(experiment, MagnitudePruning(0.0, "entry", "straight-through"))
        half = probes.doubt(experiment, TINY.pruning)
        assert nothing["doubt_added"].values.abs().max() < 1e-6
        assert torch.equal(nothing["doubt"].values, half["doubt"].values)
        assert half["doubt_added"].values.abs().max() > 1e-6
        images, objective, doubts = experiment.source.test_set, experiment.objective, {}
        for batch in range(10):
            draws = experiment.streams.at("doubt", batch)
            chosen = draws.choice(len(images.labels), 8)[0]
            pairs = objective.view(images.pixels[chosen][None].float() / 255, draws)
            z = objective.head(experiment.learner(torch.cat(pairs, 1)[0])).numpy()
            z = z / np.linalg.norm(z, axis=1, keepdims=True)
            similar = np.exp(z @ z.T / 0.5)
            for view in range(16):
                others = sum(similar[view, other] for other in range(16) if other != view)
                label = int(images.labels[chosen[view % 8]])
                doubts.setdefault(label, []).append(1 - similar[view, (view + 8) % 16] / others)
    for label, values in doubts.items():
        assert float(nothing["doubt"].values[0, label]) == pytest.approx(np.mean(values), rel=1e-4)


def test_what_pruning_would_take_is_measured_whenever_it_begins():
    experiment, late = TINY.arm("plain").recipe.build(Streams(0, [0])), replace(TINY.pruning, start=2)
    initial = TINY.initial(experiment)
    with torch.no_grad():
        for probe in (probes.doubt, lambda *given: probes.pruning(*given, initial)):
            before, after = (probe(experiment, pruning) for pruning in (TINY.pruning, late))
            assert {name: one.values.tolist() for name, one in before.items()} == {
                name: one.values.tolist() for name, one in after.items()
            }


def test_figures_show_the_paper_s_table_beside_what_was_measured():
    claims = list(TRIAL.healthy.values())
    figures = {figure.id: figure for figure in [*TINY.figures(TRIAL.runs), *identities(claims)]}
    assert {type(figure) for figure in figures.values()} == {Agreement, Bars, Curves}
    table = figures["accuracy"]
    assert len(table.groups) == 1 + len(TABLE_2) == 8
    value, low, high = table.series["long tail, pruned"]
    assert value[0] == pytest.approx(100 * TRIAL.run("pruned")["class_accuracy"].mean())
    assert (value[3], low[3], high[3]) == pytest.approx((81.31, 80.37, 82.25))
    assert np.isnan(table.series["untrained"][0][1:]).all()
    assert figures["gap"].series["long tail"][0][-1] == 8.47
    assert figures["class-accuracy"].groups[0] == "disc (20)"
    notes = {claim.id: claim.note for claim in claims}
    for id, pattern, of_table in (
        ("pruning-raises-accuracy", r"\+(\d\.\d\d)\b", GAINS[:3]),
        ("pruning-helps-the-long-tail-more", r"(\d\.\d\d)\b", GAINS[:3]),
        ("pruning-lowers-gap", r"(\d\.\d\d)\b", GAP[2].flatten()),
    ):
        assert [float(one) for one in re.findall(pattern, notes[id])][: len(of_table)] == pytest.approx(of_table), id
    for label, bars in table.samples.items():  # of each replica, and none of the paper's
        assert np.isnan(bars[:, 1:]).all()
        assert bars[:, 0].mean() == pytest.approx(table.series[label][0][0])


def test_figures_show_what_was_measured():
    runs = by_chance(TRIAL.runs, "class_accuracy", "doubt_added", "pruned_of_layer")
    drawn = {
        figure.id: {name: bar[0] for name, bar in figure.series.items()}
        for figure in TINY.figures(runs)
        if isinstance(figure, Bars)
    }
    for arm, run in runs.items():
        label = TINY.arm(arm).label
        by_class = 100 * run.class_accuracy.mean("replica").values
        assert drawn["gap"][label][0] == pytest.approx(by_class[:2].mean() - by_class[-2:].mean())
        for id, kept in (
            ("doubt", "doubt_added"),
            ("pruned-share", "pruned_of_layer"),
            ("class-accuracy", "class_accuracy"),
        ):
            np.testing.assert_allclose(drawn[id][label], 100 * run[kept].mean("replica"))


@pytest.mark.parametrize(("gain", "found"), [(0.1, "helps"), (-0.1, "does harm")])
def test_the_story_turns_with_what_was_measured(gain, found):
    plain = TRIAL.run("plain")
    apart = 1e-4 * (plain["replica"] - plain["replica"].mean())  # what every replica measures alike is no verdict
    pruned = TRIAL.run("pruned").assign(class_accuracy=plain.class_accuracy + gain + apart)
    turned = TRIAL.runs | {"pruned": pruned}
    story, named = TINY.story(turned, TINY.claims(turned)), 100 * accuracy(plain).mean().item()
    assert story.found == (
        f"Leaving out small weights {found}: {named + 100 * gain:.1f} % of images are named right with it, "
        f"{named:.1f} % without."
    )
    assert f"the change is {100 * gain:+.1f}." in story.headlines["pruning-gains-as-printed@pruned"]
    assert "20 of the most frequent kind and 2 of the rarest" in story.lede
    assert set(story.headlines) <= {f"{id}@{arm}" for id, arm in TRIAL.healthy}


def test_many_classes_are_shown_in_groups():
    many = {arm: xr.concat([run] * 5, "class", data_vars="minimal") for arm, run in TRIAL.runs.items()}
    figure = next(f for f in TINY.figures(many) if f.id == "class-accuracy")
    assert len(figure.groups) == 20
    assert figure.groups[0] == "classes 1-2 (17 each)"


def test_a_comma_in_the_name_of_a_class_moves_no_other_name():
    experiment = TINY.arm("plain").recipe.build(Streams(0, [0]))
    experiment.source.class_names = ("tench, Tinca tinca", *experiment.source.class_names[1:])
    with torch.no_grad():
        about = probes.readout(experiment)["class_size"].about
    sizes = TRIAL.run("plain")["class_size"].isel(replica=0)
    named = figures._names(sizes.assign_attrs(long_name=about))
    assert named == ["tench; Tinca tinca (20)", *figures._names(sizes)[1:]]


def test_one_replica_still_makes_a_report():
    single = {arm: run.isel(replica=[0]) for arm, run in TRIAL.runs.items()}
    claims = TINY.claims(single)
    assert {claim.verdict for claim in claims if claim.chance} == {"undecided"}
    assert list(TINY.figures(single))
    assert TINY.story(single, claims).found.startswith("Leaving out small weights makes no clear difference:")


def test_without_a_ratio_of_its_own_there_is_no_balanced_control(tmp_path):
    """ImageNet-LT: the training split is taken as it is."""
    from PIL import Image

    Image.new("RGB", (12, 10)).save(tmp_path / "image.jpeg")
    for split, sizes in {"train": (6, 3), "val": (3, 3), "test": (2, 2)}.items():
        lines = "".join(f"image.jpeg {label}\n" for label, size in enumerate(sizes) for _ in range(size))
        (tmp_path / f"ImageNet_LT_{split}.txt").write_text(lines)
    study = replace(TINY, data=str(tmp_path), imbalance=None, largest=None, probe=3, test=2, side=32, batch=4, steps=1)
    assert [arm.name for arm in study.arms()] == ["plain", "pruned", "untrained"]
    runs = {arm.name: measure(study, arm, 1) for arm in study.arms()}
    claims = study.claims(runs)
    need_balanced = {
        "class-sizes",
        "as-many-images",
        "imbalance-costs-accuracy",
        "imbalance-opens-gap",
        "pruning-helps-the-long-tail-more",
        "pruning-doubts-the-tail",
    }
    assert {c.id for c in claims} == {s.id for s in study.statements()} - need_balanced
    assert list(study.figures(runs))
    assert "nan" not in repr(study.story(runs, claims))


def test_the_resnet_runs():
    study = replace(TINY, network="resnet18", resnet18=ResNet18(width=2), batch=4, steps=1)
    run = measure(study, study.arm("pruned"), 1)
    assert run.sizes["convolution"] == 20
    assert run["pruned_share"].values == pytest.approx(0.5, abs=1e-3)


def test_on_cuda_the_default_is_all_images():
    names = "largest", "probe", "test", "side"

    def sizes(device: str, **options) -> list[int]:
        return LongTailImages(**options).arm("plain").recipe.data.sizes(torch.device(device), *names)

    assert sizes("cpu", data="somewhere") == [1000, 500, 1000, 0]
    assert sizes("cuda", data="somewhere") == [0, 0, 0, 0]
    assert sizes("cuda", data="somewhere", largest=7) == [7, 0, 0, 0]
    assert sizes("cuda", data="shapes") == [1000, 500, 1000, 0]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"data": ""}, "data"),
        ({"imbalance": 0.5}, "imbalance"),
        ({"largest": -1}, "largest"),
        ({"batch": 1}, "batch"),
        ({"steps": -1}, "steps"),
        ({"probe_every": 0}, "probe_every"),
        ({"pruning": MagnitudePruning(0.5)}, "pruning"),
        ({"steps": 5, "pruning": replace(LongTailImages().pruning, start=5)}, "start"),
    ],
)
def test_wrong_options_are_named(wrong, named):
    with pytest.raises(ConfigError, match=rf"\.{named} = .* is out of range"):
        LongTailImages(**wrong)


def test_at_a_ratio_of_0_the_story_speaks_of_no_pruning():
    study = replace(TINY, pruning=replace(TINY.pruning, ratio=0.0))
    assert study.story(TRIAL.runs, list(TRIAL.healthy.values())).found.startswith("At a ratio of 0 nothing is pruned,")


def test_pruning_may_begin_with_the_last_step():
    assert LongTailImages(steps=5, pruning=replace(LongTailImages().pruning, start=4)).pruning.start == 4


def test_a_mask_that_no_loss_looks_at_is_noticed(monkeypatch):
    claim = "pruning-changes-training", "pruned"
    assert TRIAL.healthy[claim].verdict == "holds"
    monkeypatch.setattr(PruningMask, "seen", lambda self, learner: learner)
    assert TRIAL.judge_again(*claim, "pruned").verdict == "fails"
