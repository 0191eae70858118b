"""The study of filters: the rule for clusters, what it refuses, and claims on made-up measurements with faults."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import xarray as xr

from featscope.claims import Claim
from featscope.claims.intervals import interval_of_share
from featscope.data.image_pool import ImagePool
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.studies.learned_filters import LearnedFilters, figures, training
from featscope.studies.learned_filters import study as claims_of
from featscope.studies.learned_filters.arms import (
    DIGITS,
    DIGITS_LARGE,
    PHOTOS,
    RESIDUAL,
    RESIDUAL_LOT,
    RESIDUAL_WIDE,
    TRAINED,
    WIDE_LOT,
)
from featscope.studies.learned_filters.clusters import PICKED, clusters, unit
from featscope.studies.learned_filters.training import CHUNK, CHUNKS, Filters
from featscope.testing import Fault
from featscope.testing.trial import by_name
from featscope.theory import gradient_consistency as theory

STUDY = LearnedFilters()
HIDDEN = (DIGITS, PHOTOS)


def made_up() -> dict[str, xr.Dataset]:
    """Runs in which all is as the study expects."""
    chance = np.random.default_rng(0)

    def each(value: float, *dims: tuple[str, int]) -> xr.DataArray:
        shape = (6, *(length for _, length in dims))
        return xr.DataArray(value + 0.01 * chance.standard_normal(shape), dims=("replica", *(d for d, _ in dims)))

    runs = {}
    for arm in STUDY.arms():
        residual, trained = arm.name.startswith("residual"), arm.name in TRAINED
        layers = ("layer", 4 if residual else 1)
        made = {DIGITS: 0.7, PHOTOS: 0.6, RESIDUAL: 0.2, RESIDUAL_WIDE: 0.3, DIGITS_LARGE: 0.1}.get(arm.name, 0.02)
        tight = xr.DataArray([0.02, made / 2, made], dims="stage")
        fewer = xr.DataArray([1.0, 0.6, 0.5, 0.4, 0.3], dims="count")
        lot = arm.name in (RESIDUAL_LOT, WIDE_LOT)
        runs[arm.name] = xr.Dataset(
            {
                "accuracy": each(0.97).clip(max=1.0),
                "tests": each(400.0).round().clip(max=400),
                "silhouettes": tight * fewer + each(0, ("stage", 3), layers, ("count", 5)),
                "between": xr.DataArray([-0.1, -0.8, -0.9 if arm.name in HIDDEN else -0.2], dims="stage")
                + each(0, ("stage", 3), layers),
                "own": each(0.7, ("stage", 3), layers),
                "picked": each(0.55, ("stage", 3), layers),
                "seen": 0 * each(0.0),
                "early": each(1.0 if trained else 0.0, layers),
                "late": each(0.2 if trained else 0.0, layers),
                "agreement": each(0.0 if lot else 0.6, ("pair", 3)),
                "agreement_of_all": each(0.0 if lot else 0.5, ("pair", 3)),
            }
            | ({} if residual else {"filters": each(0, ("unit", 4), ("channel", 1 if "digits" in arm.name else 3))})
        )
    return runs


def judged_alone(id: str, arm: str, runs: dict[str, xr.Dataset]) -> Claim:
    """One claim on one arm."""
    (test,) = (test for test in STUDY.tests if test.statement.id == id)
    return test.judge(STUDY, arm, runs)


RUNS = made_up()
HEALTHY = by_name(STUDY.claims(RUNS))
EXPECTED = [key for key, claim in HEALTHY.items() if claim.expected]
ROUND = xr.DataArray([3, 1, 2, 0, 4], dims="count")
CHANGED = {
    "tests-are-new-images": lambda run: run.assign(seen=run.seen + 1.0),
    "classes-are-learned": lambda run: run.assign(accuracy=run.accuracy - 0.47),
    "two-centres-are-opposite": lambda run: run.assign(between=run.between + 0.6),
    "two-clusters-fit-best": lambda run: run.assign(silhouettes=run.silhouettes.isel(count=ROUND)),
    "training-makes-clusters": lambda run: run.assign(silhouettes=run.silhouettes.isel(stage=[0, 0, 0])),
    "small-start-makes-clusters": lambda run: run.assign(silhouettes=run.silhouettes + 0.65),
    "residual-clusters-are-weaker": lambda run: run.assign(silhouettes=run.silhouettes + 0.65),
    "picked-clusters-are-in-random-filters": lambda run: run.assign(picked=run.picked - 0.3),
    "labels-make-gradients-agree": lambda run: run.assign(agreement_of_all=-run.agreement_of_all),
}
"""What each claim is about, taken out of the measurements."""
FAULTS = [
    Fault(theory, "unrelated_to_mean", lambda count: 1 / count, "unrelated-gradients-look-alike", RESIDUAL),
    Fault(claims_of, "TABLE", {128: ((0.9, 0.9, 0.2), (0.7, 0.5, 0.6))}, "table-is-consistent", RESIDUAL),
]


def test_what_is_expected_holds_on_made_up_runs():
    assert {id for id, _ in HEALTHY} == {s.id for s in STUDY.statements()}
    for key in EXPECTED:
        assert HEALTHY[key].verdict == "holds", (key, HEALTHY[key].interval)
    assert HEALTHY["early-gradients-agree", RESIDUAL_LOT].verdict != "holds"
    assert HEALTHY["printed-similarity-is-significant", RESIDUAL].verdict == "fails"


def test_nothing_is_expected_of_controls():
    controls = {arm.name for arm in STUDY.arms() if arm.role == "control"}
    assert not [key for key in EXPECTED if key[1] in controls]


@pytest.mark.parametrize(("id", "arm"), [key for key in EXPECTED if key[0] in CHANGED])
def test_what_is_not_so_is_not_said_to_hold(id, arm):
    assert judged_alone(id, arm, RUNS | {arm: CHANGED[id](RUNS[arm])}).verdict != "holds"


def test_every_expected_claim_has_a_fault():
    assert {id for id, _ in EXPECTED} == set(CHANGED) | {"unrelated-gradients-look-alike", "table-is-consistent"}


def test_a_fault_in_the_table_is_noticed(monkeypatch):
    monkeypatch.setattr(FAULTS[1].where, FAULTS[1].name, FAULTS[1].line)
    assert by_name(STUDY.claims(RUNS))[FAULTS[1].claim, FAULTS[1].arm].verdict == "fails"


def test_unrelated_gradients_have_the_cosine_that_is_predicted():
    for count in (2, 3, 7):
        v = np.eye(20)[:count]
        cosine = v[0] @ v.mean(0) / np.linalg.norm(v.mean(0))
        assert theory.unrelated_to_mean(count) == pytest.approx(cosine)
    claim = HEALTHY["unrelated-gradients-look-alike", RESIDUAL]
    assert claim.predicted == pytest.approx(3**-0.5)


def test_lengths_are_found_from_cosines():
    v = np.random.default_rng(1).standard_normal((3, 5)) + 1
    lengths = np.linalg.norm(v, axis=1)
    unit = v / lengths[:, None]
    mean = v.mean(0) / np.linalg.norm(v.mean(0))
    found = theory.implied(unit @ mean, [unit[0] @ unit[1], unit[0] @ unit[2], unit[1] @ unit[2]])
    assert found.off < 1e-8
    assert found.norms == pytest.approx(lengths[1:] / lengths[0], rel=1e-5)


def test_the_rule_finds_two_opposite_clusters():
    chance = np.random.default_rng(0)
    side = np.repeat([1.0, -1.0], 20)
    found = clusters(side[:, None] * np.eye(30)[0] * 3 + 0.1 * chance.standard_normal((40, 30)))
    assert found.between < -0.99
    assert found.own > 0.95
    assert found.silhouettes.argmax() == 0
    assert len(set(found.members[:20])) == 1
    assert found.members[0] != found.members[-1]


def test_filters_that_are_picked_of_random_ones_are_alike():
    found = clusters(np.random.default_rng(0).standard_normal((200, 400)))
    assert found.picked > PICKED**-0.5
    assert found.own < 0.3
    assert found.silhouettes[0] < 0.05


def test_five_filters_are_picked_or_none():
    """The first group of ResNet(4) has four filters: any two or three are near to the mean of them."""
    assert np.isnan(clusters(np.random.default_rng(0).standard_normal((4, 36))).picked)
    side = np.repeat([1.0, -1.0], [20, 2])  # one cluster of twenty, one of two
    filters = side[:, None] * np.eye(30)[0] * 3 + 0.2 * np.random.default_rng(1).standard_normal((22, 30))
    found = clusters(filters)
    large = found.members == found.members[0]
    assert (large.sum(), (~large).sum()) == (20, 2)
    of_twenty = unit(filters[large])
    five = of_twenty[np.argsort(-(of_twenty @ unit(of_twenty.mean(0))))[:PICKED]]
    assert found.picked == pytest.approx((five @ unit(five.mean(0))).mean())


def test_an_image_that_all_replicas_are_judged_by_counts_once():
    right = xr.DataArray([0.80, 0.79, 0.81, 0.80, 0.79], dims="replica")
    few = xr.Dataset({"accuracy": right, "tests": 0 * right + 24})
    claim = judged_alone("classes-are-learned", PHOTOS, RUNS | {PHOTOS: few})
    assert sum(claim.trials) == pytest.approx(24)
    assert claim.measured == pytest.approx(right.mean().item())
    assert claim.verdict == "undecided"  # 19 of 24 images are no more than 0.53
    assert interval_of_share(right.values, few.tests.values)[0] > 0.6  # as if there were 120


@pytest.mark.parametrize("split", ["train", "test"])
def test_both_classes_are_in_both_splits(monkeypatch, split):
    """Of labels that are counted from 1 all but one class would be left."""

    def pool(source, name, side):
        labels = torch.arange(12) % 3 + (name == split)
        return SimpleNamespace(labels=labels, pixels=lambda index, grey: torch.rand(1, index.numel(), 1, 4, 4))

    monkeypatch.setattr(training, "ImagePool", pool)
    with pytest.raises(ConfigError, match=rf"In {split} none has the label 0\. Count classes from 0"):
        training._two_classes(Filters(train=0), 0, Streams(0, [0]))


def test_replicas_are_judged_by_the_same_images():
    first, second = (training._two_classes(Filters(train=0), 0, Streams(seed, [0]))[2].flatten(1) for seed in (0, 1))
    assert not torch.equal(first, second)  # in another order
    assert torch.cdist(first, second).amin(1).max() < 0.1  # rounding


def test_replicas_are_judged_by_the_images_that_they_are_not_trained_on():
    pool = ImagePool("digits", "test")
    of_two = pool.pixels((pool.labels < 2).nonzero()[None, :, 0], True)[0].flatten(1)
    x, _, tests, _ = training._two_classes(Filters(train=60), 0, Streams(0, [0]))
    assert len(tests) == len(of_two) != len(x)
    moved = torch.corrcoef(torch.cat([tests.flatten(1), of_two]))[: len(tests), len(tests) :]
    assert (moved.amax(1) > 0.9999).all()  # pixels are on another scale


def test_groups_of_blocks_without_five_in_a_cluster_are_left_out():
    has_five = xr.DataArray([False, True, True, True], dims="layer")
    picked = RUNS[RESIDUAL].picked
    few = RUNS | {RESIDUAL: RUNS[RESIDUAL].assign(picked=picked.where(has_five))}
    claim = judged_alone("picked-clusters-are-in-random-filters", RESIDUAL, few)
    assert claim.verdict == "holds"
    assert claim.measured == pytest.approx(picked.isel(stage=0, layer=slice(1, None)).mean().item())
    figure = figures.by_layer(few)
    height = figure.series["of five that are picked"][0]
    assert [group for group, one in zip(figure.groups, height, strict=True) if np.isnan(one)] == ["slim 1"]
    assert "no bar where a replica has no cluster of five or more" in figure.caption


def test_gradients_are_those_of_the_first_steps():
    """Mean gradients of a network that hardly moves, against autograd at its start on the same batches."""
    options = Filters("digits", train=60, width=4, rate=1e-12, steps=CHUNKS * CHUNK, batch=60)
    learner = options.build(Streams(0, [0]).at("start"))
    learner(Streams(0, [0]).at("batch"))
    assert (learner.get_buffer("agreement_of_all") > 0.5).all()  # one gradient, batches drawn with replacement
    assert float(learner.get_buffer("early")[0, 0]) < 1e-6
    assert torch.allclose(learner.get_buffer("filters")[0, 0], learner.get_buffer("filters")[0, 2], atol=1e-6)


@pytest.mark.parametrize(("chunks", "cosine"), [(torch.ones(CHUNKS, 1, 1), 1.0), (torch.eye(CHUNKS)[:, None], 3**-0.5)])
def test_a_mean_gradient_is_that_over_chunks(chunks, cosine):
    """Averages that are equal are the mean, and unrelated ones are as far from it as a closed form says."""
    learner = Filters("digits", width=4).build(Streams(0, [0]).at("start"))
    of_filter = torch.randn(4, 1, generator=torch.Generator().manual_seed(0))  # of either sign
    learner._pulls(0, chunks * of_filter, torch.randn(4, 3, generator=torch.Generator().manual_seed(1)))
    torch.testing.assert_close(learner.get_buffer("to_mean")[0], torch.full((CHUNKS,), cosine).double())


def test_momentum_is_095():
    """Of one image, by tiny steps: the gradient stays, and a step is of all before it."""
    options = Filters("digits", train=1, width=4, rate=1e-6, steps=40)
    learner = options.build(Streams(0, [0]).at("start"))
    learner(Streams(0, [0]).at("batch"))
    early, all_steps = (sum((1 - 0.95**k) / 0.05 for k in range(1, steps + 1)) for steps in (6, 40))
    found = float(learner.get_buffer("late") / learner.get_buffer("early"))
    assert found == pytest.approx(all_steps / early - 1, rel=0.05)


@pytest.mark.parametrize(
    ("photographs", "expected"), [("shapes", True), ("cifar10", True), ("svhn", False), ("ufldl-stanford/SVHN", False)]
)
def test_two_clusters_are_not_expected_of_svhn_which_has_four_in_the_text(photographs, expected):
    study = replace(STUDY, photographs=photographs)
    (test,) = (test for test in STUDY.tests if test.statement.id == "two-clusters-fit-best")
    told, why = test.arms(study)[PHOTOS]
    assert told == expected
    assert expected == ("four clusters (Figure A.15)" not in why)
    assert test.arms(study)[DIGITS][0]


@pytest.mark.parametrize(("spread", "expected"), [(0.1, True), (0.9, True), (1.0, False), (2.0, False)])
def test_a_small_start_is_one_that_is_smaller_than_the_usual(spread, expected):
    (test,) = (test for test in STUDY.tests if test.statement.id == "small-start-makes-clusters")
    assert test.arms(replace(STUDY, spread=spread))[DIGITS_LARGE][0] == expected


def test_what_is_said_of_picked_filters_turns_with_the_claim():
    claim = HEALTHY["picked-clusters-are-in-random-filters", RESIDUAL]
    told = [
        STUDY.story(RUNS, [replace(claim, interval=ends)]).headlines[f"{claim.id}@{RESIDUAL}"]
        for ends in ((0.5, 0.6), (0.2, 0.3), (0.4, 0.5))
    ]
    assert told == ["So a hand proves little.", "They are no more alike than any few filters.", ""]


def test_figures_and_story_have_the_numbers():
    story = STUDY.story(RUNS, list(HEALTHY.values()))
    assert "fall in two opposite clusters (cosine -0." in story.found
    assert "scikit-learn's" in story.lede
    assert "made up" not in replace(STUDY, photographs="cifar10").story(RUNS, []).lede


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 29}, "steps = 29 .* >= 30"),
        ({"width": 3}, "width = 3"),
        ({"wider": 4}, "wider = 4"),
        ({"hidden": 2}, "hidden = 2"),
        ({"photographs": ""}, "photographs = ''"),
        ({"spread": 0.0}, "spread = 0.0"),
        ({"side": -1}, "side = -1"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        LearnedFilters(**options)
