"""The study `longtail-images` at a tiny size."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr

from featscope.data import class_sizes
from featscope.figures import Bars, Curves
from featscope.models import AlexNet, ResNet18
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.studies.longtail_images import LongTailImages, judge, measures
from featscope.studies.longtail_images.table2 import TABLE_2
from featscope.training import MagnitudePruning, Record, probe_steps, train

pytest.importorskip("kornia", reason="extra 'images' is not installed")

TINY = LongTailImages(
    data="shapes",
    imbalance=10,
    largest=20,
    probe=6,
    test=5,
    alexnet=AlexNet(width=4),
    batch=8,
    steps=3,
    probe_every=2,
)
REPLICAS = 3


def run_arm(arm, replica: int) -> xr.Dataset:
    experiment, record = arm.config.build(Streams(0, [replica])), Record()
    with torch.no_grad():
        for assay in arm.at_start:
            record.put(assay(experiment))
    marks = probe_steps(arm.config.steps, arm.config.probe_every)
    train(experiment, arm.config.steps, arm.config.watch, marks, record)
    with torch.no_grad():
        for assay in arm.at_end:
            record.put(assay(experiment))
    return record.to_dataset([replica])


def run_all(study: LongTailImages, replicas: int = REPLICAS, only: tuple[str, ...] = ()) -> dict[str, xr.Dataset]:
    return {
        arm.name: xr.concat([run_arm(arm, replica) for replica in range(replicas)], dim="replica", join="outer")
        for arm in study.arms()
        if not only or arm.name in only
    }


@pytest.fixture(scope="module")
def runs():
    return run_all(TINY)


def by_arm(claims, id: str):
    return {claim.arm: claim for claim in claims if claim.id == id}


def test_arms_begin_with_the_same_network_and_are_measured_on_the_same_images():
    experiments = {arm.name: arm.config.build(Streams(0, [1])) for arm in TINY.arms()}
    plain = experiments["plain"]
    for other in experiments.values():
        assert torch.equal(plain.learner.filters, other.learner.filters)
    assert torch.equal(plain.source.train_set.pixels, experiments["pruned"].source.train_set.pixels)
    assert [bool(len(e.rules)) for e in experiments.values()] == [False, True, False, True, False]


def test_every_statement_is_put_to_the_test_and_controls_are_not_expected(runs):
    claims = list(TINY.claims(runs))
    assert {claim.id for claim in claims} == {statement.id for statement in TINY.statements}
    assert len({(claim.id, claim.arm) for claim in claims}) == len(claims)
    for claim in claims:
        assert claim.n == REPLICAS
        assert np.isfinite(claim.measured)
        assert claim.note
        assert not (claim.arm == "untrained" and claim.expected)


def test_counts_and_shares_hold_and_fail_on_their_controls(runs):
    claims = list(TINY.claims(runs))
    verdicts = {id: by_arm(claims, id) for id in ("class-sizes", "as-many-images", "pruned-share", "training-helps")}
    assert verdicts["class-sizes"]["plain"].verdict == "holds"
    assert verdicts["class-sizes"]["balanced"].verdict == "fails"
    assert verdicts["as-many-images"]["balanced"].verdict == "holds"
    assert verdicts["pruned-share"]["pruned"].verdict == "holds"
    assert verdicts["pruned-share"]["plain"].verdict == "fails"
    assert verdicts["training-helps"]["untrained"].verdict == "fails"
    assert runs["plain"]["class_size"].isel(replica=0).values.tolist() == class_sizes(8, 20, 10)


def test_the_gap_is_between_the_first_and_the_last_fifth_of_classes():
    accuracy = xr.DataArray(np.array([[0.9, 0.7, 0.1, 0.1, 0.5, 0.5, 0.5, 0.5, 0.4, 0.2]]), dims=("replica", "class"))
    run = xr.Dataset({"class_accuracy": accuracy})
    assert judge.gap(run) == pytest.approx([0.8 - 0.3])
    assert judge.accuracy(run) == pytest.approx([0.44])
    assert judge.tail_minus_head(accuracy[:, :3]) == pytest.approx([0.1 - 0.9])  # at least one class


def test_claims_are_arithmetic_on_what_was_measured(runs):
    claims = list(TINY.claims(runs))
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
        claim = by_arm(claims, id)[arm]
        assert claim.measured == pytest.approx(expected.mean())
        assert claim.relation == ">="
    assert by_arm(claims, "pruning-gains-as-printed")["pruned"].predicted == pytest.approx(0.6512 - 0.6321)


def test_pruning_is_measured_where_it_happens(runs):
    assert runs["pruned"]["pruned_share"].values == pytest.approx(np.full(REPLICAS, 0.5), abs=1e-3)
    assert not runs["plain"]["pruned_share"].values.any()
    experiment = next(a for a in TINY.arms() if a.name == "pruned").config.build(Streams(0, [0]))
    sizes = [p.numel() for p in experiment.learner.parameters() if p.ndim == 4]
    shares = runs["pruned"]["pruned_of_layer"].values
    assert shares @ sizes / sum(sizes) == pytest.approx(runs["pruned"]["pruned_share"].values)


def test_before_training_all_pruned_weights_are_those_of_the_start(runs):
    assert (runs["untrained"]["pruned_from_start"] == 1).all()
    assert (runs["pruned"]["pruned_from_start"] < 1).all()


def test_doubt_is_one_minus_the_softmax_of_the_partner_averaged_by_class():
    """A loop over views and classes, and a network of which nothing is pruned doubts no more than it did."""
    experiment = TINY.build(Streams(0, [0]))
    with torch.no_grad():
        nothing = measures.doubt(experiment, MagnitudePruning(0.0, "entry", "straight-through"))
        half = measures.doubt(experiment, TINY.pruning)
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


def test_figures_show_the_paper_s_table_beside_what_was_measured(runs):
    claims = list(TINY.claims(runs))
    figures = {figure.id: figure for figure in TINY.figures(runs, claims)}
    assert {type(figure) for figure in figures.values()} == {Bars, Curves}
    table = figures["accuracy"]
    assert len(table.groups) == 1 + len(TABLE_2) == 8
    value, low, high = table.series["long tail, pruned"]
    assert value[0] == pytest.approx(100 * runs["pruned"]["class_accuracy"].mean())
    assert (value[3], low[3], high[3]) == pytest.approx((81.31, 80.37, 82.25))
    assert np.isnan(table.series["untrained"][0][1:]).all()
    assert figures["gap"].series["long tail"][0][-1] == 8.47
    assert figures["class-accuracy"].groups[0] == "disc (20)"
    headline = TINY.headline(runs, claims)
    assert "with pruning" in headline
    assert "before training" in headline


def test_many_classes_are_shown_in_groups(runs):
    many = {arm: xr.concat([run] * 5, "class", data_vars="minimal") for arm, run in runs.items()}
    figure = next(f for f in TINY.figures(many, []) if f.id == "class-accuracy")
    assert len(figure.groups) == 20
    assert figure.groups[0] == "classes 1-2 (17 each)"


def test_one_replica_still_makes_a_report(runs):
    single = {arm: run.isel(replica=[0]) for arm, run in runs.items()}
    claims = list(TINY.claims(single))
    assert {claim.verdict for claim in claims} == {"undecided"}
    assert list(TINY.figures(single, claims))
    assert TINY.headline(single, claims)


def test_without_a_ratio_of_its_own_there_is_no_balanced_control(runs, tmp_path):
    """ImageNet-LT: the training split is taken as it is."""
    from PIL import Image

    Image.new("RGB", (12, 10)).save(tmp_path / "image.jpeg")
    for split, sizes in {"train": (6, 3), "val": (3, 3), "test": (2, 2)}.items():
        lines = "".join(f"image.jpeg {label}\n" for label, size in enumerate(sizes) for _ in range(size))
        (tmp_path / f"ImageNet_LT_{split}.txt").write_text(lines)
    study = replace(TINY, data=str(tmp_path), imbalance=None, largest=None, probe=3, test=2, side=32, batch=4, steps=1)
    assert [arm.name for arm in study.arms()] == ["plain", "pruned", "untrained"]
    runs = run_all(study, replicas=1)
    claims = list(study.claims(runs))
    need_balanced = {
        "class-sizes",
        "as-many-images",
        "imbalance-costs-accuracy",
        "imbalance-opens-gap",
        "pruning-helps-the-long-tail-more",
        "pruning-doubts-the-tail",
    }
    assert {c.id for c in claims} == {s.id for s in study.statements} - need_balanced
    assert list(study.figures(runs, claims))
    assert study.headline(runs, claims)


def test_the_resnet_runs():
    study = replace(TINY, network="resnet18", resnet18=ResNet18(width=2), batch=4, steps=1)
    run = run_all(study, replicas=1, only=("pruned",))["pruned"]
    assert run.sizes["convolution"] == 20
    assert run["pruned_share"].values == pytest.approx(0.5, abs=1e-3)


def test_on_cuda_the_default_is_all_images():
    study = LongTailImages(data="somewhere")
    on_cpu, on_cuda = (study.images(device) for device in ("cpu", "cuda"))
    assert (on_cpu.largest, on_cpu.probe, on_cpu.test) == (1000, 500, 1000)
    assert (on_cuda.largest, on_cuda.probe, on_cuda.test) == (0, 0, 0)
    assert replace(study, largest=7).images("cuda").largest == 7
    assert LongTailImages(data="shapes").images("cuda").probe == 500


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"data": ""}, "source"),
        ({"imbalance": 0.5}, "ratio"),
        ({"largest": -1}, "largest"),
        ({"batch": 1}, "batch"),
        ({"steps": -1}, "steps"),
        ({"probe_every": 0}, "probe_every"),
        ({"pruning": MagnitudePruning(0.5)}, "pruning"),
    ],
)
def test_wrong_options_are_named(wrong, named):
    with pytest.raises(ConfigError, match=rf"\.{named} = .* is out of range"):
        LongTailImages(**wrong)
