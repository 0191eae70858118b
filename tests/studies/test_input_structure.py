"""The study of real and injected inputs: its parts, what it refuses, and claims on made-up measurements with faults."""

import gzip
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr

from featscope.claims import Claim
from featscope.claims.intervals import interval_of_mean
from featscope.data import splits
from featscope.data.image_pool import ImagePool, level
from featscope.data.splits import open_split
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.studies.input_structure import InputStructure, probes
from featscope.studies.input_structure import study as claims_of
from featscope.studies.input_structure.arms import FRACTIONS, PHOTOS_FOREIGN, PHOTOS_WHITE, SAME, SIZES, WHITE, WIDE
from featscope.studies.input_structure.by_size import Sizes, classical_minimum
from featscope.studies.input_structure.inputs import Injection
from featscope.studies.input_structure.mixing import LOOKS, Family, Mixing, pick
from featscope.studies.input_structure.networks import Adam, Fit, QuadraticNetworks, ResidualNetworks, balance, fitted
from featscope.studies.input_structure.stages import Staged
from featscope.testing import Fault
from featscope.testing.trial import by_name

STUDY = InputStructure(residual_steps=120)
"""With photographs."""
DRAWS = Streams(0, [0, 1])


def made_up() -> dict[str, xr.Dataset]:
    """Runs in which all is as the study expects: accuracies on parts, losses that descend twice."""
    chance = np.random.default_rng(0)

    def each(value: float, spread: float = 0.01) -> xr.DataArray:
        return xr.DataArray(value + spread * chance.standard_normal(6), dims="replica")

    looks = xr.DataArray(np.linspace(0, 1, LOOKS), dims="look")
    runs = {}
    for arm in STUDY.arms():
        if arm.name == SIZES:
            shape = xr.DataArray([1.2, 0.8, 0.6, 0.5, 0.6, 0.7, 0.75, 0.6, 0.5], dims="size")  # of sizes 2 to 100
            of_students = xr.DataArray([1.2, 0.8, 0.6, 0.4, 0.5, 0.7, 0.75, 0.6, 0.5], dims="size")
            of_larger = xr.DataArray([1.2, 1.1, 1.0, 0.9, 0.8, 0.7, 0.75, 0.8, 0.9], dims="size")

            def noisy(curve: xr.DataArray) -> xr.DataArray:
                return curve + xr.DataArray(0.003 * chance.standard_normal((6, 9)), dims=("replica", "size"))

            runs[SIZES] = xr.Dataset(
                {
                    "loss": noisy(shape),
                    "fitted": noisy(xr.DataArray(np.linspace(0.5, 1.1, 9), dims="size")),
                    "loss_of_fewer": noisy(shape.roll(size=-2)),
                    "right": noisy(xr.DataArray(np.linspace(0.5, 0.95, 9), dims="size")),
                    "chosen": xr.DataArray([6.0] * 6, dims="replica"),
                    "chosen_of_fewer": xr.DataArray([3.0] * 6, dims="replica"),
                    "student_loss": xr.concat([noisy(of_students), noisy(of_larger)], "teacher"),
                    "student_fitted": noisy(xr.DataArray(np.linspace(0.5, 1.1, 9), dims="size"))
                    * xr.DataArray([1.0, 0.95], dims="teacher"),
                    "least": xr.DataArray([[6.0, 13.0]] * 6, dims=("replica", "teacher")),
                }
            )
            continue
        far = {WHITE: 0.3, WIDE: 0.35, PHOTOS_WHITE: 0.2, "fraction=0.25": 0.4}.get(arm.name, 0.1)
        alike = arm.name == SAME
        final = 0.9 + each(0)
        runs[arm.name] = xr.Dataset(
            {
                "original": 0.1 + (final - 0.1) * looks**0.5,
                "injected": 0.1
                + (final - 0.1 - (0 if alike else far) + each(0)) * looks ** ((0.5 if alike else 1.5) + each(0)),
                "alone": 0.1 + (final - 0.1 + each(-0.03, 0.003)) * looks**0.5,
                "majority": each(0.2),
                "margin_gap": each(-0.05),
                **{name: each(value) for name, value in (("first", -2.2), ("second", 0.2))},
                **{name: each(value) for name, value in (("first_free", -2.0), ("second_free", 0.8))},
            }
        )
    return runs


def judged_alone(id: str, arm: str, runs: dict[str, xr.Dataset]) -> Claim:
    """One claim on one arm."""
    (test,) = (test for test in STUDY.tests if test.statement.id == id)
    return test.judge(STUDY, arm, runs)


RUNS = made_up()
HEALTHY = by_name(STUDY.claims(RUNS))
EXPECTED = [key for key, claim in HEALTHY.items() if claim.expected]


def test_what_is_expected_holds_on_made_up_runs():
    assert {id for id, _ in HEALTHY} == {s.id for s in STUDY.statements()}
    for key in EXPECTED:
        assert HEALTHY[key].verdict == "holds", (key, HEALTHY[key].interval)


def test_nothing_is_expected_of_controls_and_alike_parts_are_not_told_apart():
    controls = {arm.name for arm in STUDY.arms() if arm.role == "control"}
    assert controls == {SAME}
    for (id, arm), claim in HEALTHY.items():
        assert not (arm in controls and claim.expected)
        if arm in controls and id.startswith("injected-part-is"):
            assert claim.verdict != "holds"


FAULTS = [
    Fault(claims_of, "gap", lambda run: claims_of.end(run.injected - run.original), "injected-part-is-worse", WHITE),
    Fault(claims_of, "_progress", lambda curve: -curve.mean("look"), "injected-part-is-slower", WHITE),
    Fault(claims_of, "end", lambda values: values.isel(look=0), "mixture-below-alone", "foreign"),
    Fault(claims_of, "end", lambda values: values.isel(look=0), "injected-part-is-learned-at-all", WHITE),
    Fault(claims_of, "end", lambda values: values.isel(look=0), "covariance-is-structure", "covariance"),
    Fault(claims_of, "end", lambda values: -values.mean("look"), "foreign-images-help-more-than-noise", "foreign"),
    Fault(claims_of, "balance", lambda p: [2 * one for one in balance(p)], "regulariser-is-information", WHITE),
]
CHANGED = {
    "injected-inputs-help-real-ones": lambda run: run.assign(alone=run.original),
    "gap-falls-with-fraction": lambda run: run.assign(injected=run.original - 0.5),
    "original-part-as-alone": lambda run: run.assign(alone=run.alone + 0.3),
    "mixture-below-alone": lambda run: run.assign(alone=run.alone - 0.5),
    "injected-part-is-worse": lambda run: run.assign(injected=run.original),
    "injected-part-is-slower": lambda run: run.assign(injected=run.original),
    "injected-part-is-learned-at-all": lambda run: run.assign(injected=0 * run.injected + run.majority),
    "foreign-images-help-more-than-noise": lambda run: run.assign(injected=0.1 * run.injected),
    "covariance-is-structure": lambda run: run.assign(injected=0.1 * run.injected),
    "wider-student-separates-more": lambda run: run.assign(injected=run.original),
    "regulariser-balances-labels": lambda run: run.assign(first=run.first_free),
    "regulariser-sharpens-answers": lambda run: run.assign(second=run.second_free),
    "alone-real-inputs-are-learned": lambda run: run.assign(alone=0 * run.alone),
    "loss-descends-twice": lambda run: run.assign(
        loss=run.loss.min("size") - xr.DataArray(np.arange(9.0), dims="size")
    ),
    "teacher-is-at-the-minimum": lambda run: run.assign(loss=run.loss.roll(size=1)),
    "accuracy-has-no-minimum": lambda run: run.assign(right=-run.right),
    "minimum-grows-with-samples": lambda run: run.assign(loss_of_fewer=run.loss),
    "student-minimum-at-teacher-size": lambda run: run.assign(student_loss=run.student_loss.roll(size=-3)),
}
"""What each claim is about, taken out of the measurements."""


@pytest.mark.parametrize(("id", "arm"), EXPECTED)
def test_what_is_not_so_is_not_said_to_hold(id, arm):
    if id == "regulariser-is-information":
        return  # no run is in it: see FAULTS
    assert judged_alone(id, arm, RUNS | {arm: CHANGED[id](RUNS[arm])}).verdict != "holds"


def test_a_part_that_is_hardly_learned_is_neither_early_nor_late():
    """Its progress would be over a gain near 0, whose sign is chance."""
    looks = xr.DataArray(np.linspace(0, 1, LOOKS), dims="look")
    for curve in (0.1 + 0.02 * looks**2, 0.3 - 0.8 * looks * (1 - looks) + 0.01 * looks, 0.5 - 0.4 * looks):
        hardly = RUNS[WHITE].injected.copy()
        hardly[{"replica": [1, 4]}] = curve
        claim = judged_alone("injected-part-is-slower", WHITE, RUNS | {WHITE: RUNS[WHITE].assign(injected=hardly)})
        assert np.isnan(claim.values).nonzero()[0].tolist() == [1, 4]
        assert claim.verdict == "undecided"
        assert "In 2 of 6 replicas accuracy on a part rose by less than 0.1." in claim.note
    assert "rose by less" not in HEALTHY["injected-part-is-slower", WHITE].note


def test_what_is_learned_is_late_by_no_more_than_the_range_has():
    """As far apart as two parts can be: one is lost at once and hardly got back, the other is there at once."""
    first, end = np.r_[0.85, np.zeros(LOOKS - 2), 1.0], np.r_[0.0, np.ones(LOOKS - 2), 0.15]
    parts = {name: ("look", curve) for name, curve in (("original", end), ("injected", first))}
    far = xr.Dataset(parts).expand_dims(replica=6)
    claim = judged_alone("injected-part-is-slower", WHITE, RUNS | {WHITE: far})
    assert claim.outside is None
    assert claim.measured > 10


@pytest.mark.parametrize("seed", range(4))
def test_noise_on_losses_that_only_fall_is_no_rise(seed):
    """Each replica's own least and largest loss would say so: the second is above the first, whatever they are."""
    chance, run = np.random.default_rng(seed), RUNS[SIZES]
    curve = np.array([1.2, *[0.6] * 7, 0.4]) + 0.05 * chance.standard_normal((6, 9))
    loss = xr.DataArray(curve, dims=("replica", "size"))
    places = classical_minimum(curve, run.fitted.transpose("replica", "size").values)
    picked = zip(curve, places, strict=True)
    own_picks = [min(one[0] - one[at], one[at:].max() - max(one[at], one[-1])) for one, at in picked]
    assert interval_of_mean(np.array(own_picks))[0] > 0
    assert judged_alone("loss-descends-twice", SIZES, RUNS | {SIZES: run.assign(loss=loss)}).verdict != "holds"


@pytest.mark.parametrize(
    ("chosen", "fitted_from", "measured"),
    [
        (20.0, 4, np.nan),  # no size near 20 is in the classical regime
        (3.0, 4, np.nan),  # and no other than those near 3
        (6.0, 40, 1.1 - 0.5),  # 2 units, and 3 or 4 to 9 of them
    ],
)
def test_the_minimum_of_students_is_looked_for_in_the_classical_regime_alone(chosen, fitted_from, measured):
    """It ends at the first size that fits all; a loss that falls again beyond it is not the classical minimum."""
    run, sizes = RUNS[SIZES], np.array(STUDY.sizes)
    losses = {20.0: [0.9, 0.5, 0.7, 1.2, 1.1, 0.45, 0.3, 0.2, 0.15], 3.0: [0.9, 0.5, 0.7] + [1.0] * 6}
    losses[6.0] = [1.1, 0.9, 0.7, 0.5, 0.6, 1.4, 1.5, 1.6, 0.1]
    every = xr.DataArray(np.tile([losses[chosen]] * 2, (6, 1, 1)), dims=("replica", "teacher", "size"))
    fits = xr.DataArray(np.where(sizes >= fitted_from, 0.995, 0.5), dims="size")
    changed = run.assign(
        chosen=0 * run.chosen + chosen, student_loss=every, student_fitted=0 * run.student_fitted + fits
    )
    claim = judged_alone("student-minimum-at-teacher-size", SIZES, RUNS | {SIZES: changed})
    assert claim.values == pytest.approx([measured] * 6, nan_ok=True)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"regulariser-balances-labels", "regulariser-sharpens-answers"}),
        ({"sharpness": 0.0}, {"regulariser-balances-labels"}),
        ({"weight": 0.0}, set()),
    ],
)
def test_what_the_regulariser_does_is_expected_where_it_is_trained(options, expected):
    study = replace(STUDY, **options)
    tests = [test for test in STUDY.tests if test.statement.source in ("(A.290)", "(A.291)")]
    assert {test.statement.id for test in tests if test.arms(study)[WHITE][0]} == expected


def test_one_replica_has_no_others_to_pick_sizes():
    one = RUNS | {SIZES: RUNS[SIZES].isel(replica=[0])}
    claim = judged_alone("loss-descends-twice", SIZES, one)
    assert claim.verdict == "undecided"
    assert np.isnan(claim.values).all()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.claim)
def test_a_fault_in_what_is_computed_is_noticed(fault, monkeypatch):
    monkeypatch.setattr(fault.where, fault.name, fault.line)
    assert judged_alone(fault.claim, fault.arm, RUNS).verdict != "holds"


def test_a_size_that_is_not_tried_is_not_judged():
    others = replace(STUDY, sizes=(2, 3, 4, 7, 8, 13, 20, 40, 100))  # neither 6 nor 9
    asked = {test.statement.id: test.judge(others, SIZES, RUNS) for test in others.tests if SIZES in test.arms(others)}
    assert {id for id, claim in asked.items() if claim is None} == {"teacher-is-at-the-minimum", "minimum-at-nine"}


def test_figures_and_story_have_the_numbers():
    story = STUDY.story(RUNS, list(HEALTHY.values()))
    assert story.found.startswith("Real inputs are easier: a student names 90 %")
    assert "scikit-learn's" in story.lede
    assert "made up" not in replace(STUDY, photographs="cifar10").story(RUNS, []).lede
    bars = claims_of.figures.endings(RUNS, [WHITE, SAME])
    assert bars.series["injected inputs"][0][0] == pytest.approx(0.6, abs=0.02)


def test_the_classical_minimum_is_before_everything_is_fitted():
    loss = np.array([[3.0, 1.0, 2.0, 0.5], [3.0, 2.0, 1.0, 0.5]])
    fitted = np.array([[0.5, 0.9, 1.0, 1.0], [0.5, 0.6, 0.7, 0.8]])
    assert classical_minimum(loss, fitted).tolist() == [1, 3]


def test_quadratic_networks_are_sums_of_squares_and_do_not_see_others_units():
    network = QuadraticNetworks(5, 4, 3, DRAWS.at("start")).of([2, 3])
    x = torch.randn(2, 6, 1, 2, 2)
    found = network(x)
    for replica, size in enumerate((2, 3)):
        for image in range(6):
            pixels, slow = x[replica, image].flatten(), network.offset[replica, 0].clone()
            for unit in range(size):
                drive = network.weights[replica, unit] @ pixels + network.biases[replica, 0, unit]
                slow = slow + drive**2 * network.outer[replica, unit]
            torch.testing.assert_close(found[replica, image], slow)


def test_the_first_size_of_outer_weights_is_that_of_the_units_that_are_left():
    """Variance 1/(4 m), whatever the widest network beside it."""
    wide = QuadraticNetworks(400, 4, 50, DRAWS.at("start"), 3).of([7, 40, 400] * 2)
    for network, size in enumerate([7, 40, 400] * 2):
        assert float(wide.outer[network, :size].detach().var()) == pytest.approx(0.25 / size, rel=0.25)
        assert not wide.outer[network, size:].any()


def test_adam_is_torchs():
    network = QuadraticNetworks(3, 4, 3, DRAWS.at("start"))
    other = QuadraticNetworks(3, 4, 3, DRAWS.at("start"))
    fit = Fit(steps=5, rate=0.1)
    own, theirs = Adam(network, fit), torch.optim.Adam(other.parameters(), lr=0.1)
    x, y = torch.randn(2, 6, 1, 2, 2), torch.randint(3, (2, 6))
    for step in range(5):
        own.update(fitted(network(x), y), step)
        theirs.param_groups[0]["lr"] = 0.1 * (1 - step / 5)
        theirs.zero_grad()
        fitted(other(x), y).backward()
        theirs.step()
    for one, another in zip(network.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one, another)


def test_residual_networks_side_by_side_are_each_alone():
    x = torch.randn(2, 3, 3, 8, 8)
    both = ResidualNetworks(2, 4, DRAWS.at("start"))
    for replica in (0, 1):
        alone = ResidualNetworks(2, 4, Streams(0, [replica]).at("start"))
        for network in (both, alone):
            torch.nn.init.ones_(network.head)
        torch.testing.assert_close(both(x)[replica], alone(x[replica : replica + 1])[0], rtol=1e-4, atol=1e-5)
    assert {len(one) for one in both.parameters()} == {2}


def test_uniforms_pick_evenly():
    values = torch.arange(10.0)[None].repeat(2, 1)
    picked = pick(values, torch.tensor([[0.0, 0.05, 0.1, 0.999999], [0.5, 0.55, 0.95, 0.25]]))
    assert picked.tolist() == [[0, 0, 1, 9], [5, 5, 9, 2]]


TINY = Family(Injection(train=40, tests=12), fit=Fit(11, 10, 0.05, at_once=4))


PHOTOS = Injection("shapes", "digits", "foreign", train=6, tests=2, side=8, grey=False)
SMALL = Mixing(replace(TINY, data=PHOTOS, kind="residual", fit=Fit(11, 2, 0.01, at_once=8)), 1, 1)


@pytest.mark.parametrize(
    "learner", [Mixing(TINY, 3, 4), Sizes(TINY, (2, 4, 9), 5), SMALL], ids=["mixed", "sizes", "residual"]
)
def test_a_resumed_experiment_ends_where_one_ends_that_went_on(learner):
    recipe, streams = Staged(learner, 1, 1), Streams(0, [0] if learner is SMALL else [0, 1])
    whole, after = recipe.build(streams), recipe.build(streams)
    steps = len(whole.learner.stages) * learner.family.fit.parts
    for step in range(steps):
        whole.advance(step)
        if step == learner.family.fit.parts:  # some steps into the second stage
            after.restore(*deepcopy(whole.state()))
    for step in range(learner.family.fit.parts + 1, steps):
        after.advance(step)
    for name, values in whole.kept().items():
        assert values.isfinite().all()
        assert torch.equal(values, after.kept()[name]), name
    assert whole.learner.passed.all()
    assert whole.status() == "done"


@pytest.mark.parametrize("learner", [Mixing(TINY, 3, 4), Sizes(TINY, (2, 4, 9), 5)], ids=["mixed", "sizes"])
def test_step_sizes_fall_from_the_beginning_of_each_stage_to_its_end(learner, monkeypatch):
    seen = []
    monkeypatch.setattr(Adam, "update", lambda self, loss, step: seen.append(step))
    experiment = Staged(learner, 1, 1).build(DRAWS)
    stages = len(experiment.learner.stages)
    for step in range(stages * TINY.fit.parts):
        experiment.advance(step)
    assert seen == stages * list(range(TINY.fit.steps))


def test_half_of_a_batch_of_a_mixture_is_injected():
    """What the student is trained on: labels of injected inputs are asked for as often as their share says."""
    learner = Mixing(replace(TINY, data=replace(TINY.data, fraction=0.75)), 3, 4).build(DRAWS.at("start"))
    assert learner.share() == pytest.approx(0.75)
    assert learner.inputs.injected.shape[1] == 120


def test_the_regulariser_is_least_where_answers_are_sure_and_balanced():
    sure = torch.eye(4)[None].repeat(1, 3, 1)
    first, second = balance(sure)
    assert float(first + second) == pytest.approx(-np.log(4))
    first, second = balance(torch.full((1, 12, 4), 0.25))
    assert float(first + second) == pytest.approx(0, abs=1e-6)


def test_a_coloured_gaussian_has_the_images_mean_and_covariance():
    parts = Injection(kind="covariance", train=600, tests=100).build(DRAWS.at("start"))
    flat, made = parts.x.flatten(2), parts.injected.flatten(2)
    assert (flat.mean(1) - made.mean(1)).abs().max() < 0.3
    wide, other = (torch.linalg.eigvalsh(torch.cov(one[0].T))[-1] for one in (flat, made))
    assert float(other / wide) == pytest.approx(1, abs=0.25)
    assert parts.x.mean((1, 2, 3, 4)).abs().max() < 1e-5


def test_images_of_another_data_set_are_on_the_scale_of_those_that_are_injected():
    """What they are judged by has no part in it."""
    parts = Injection(kind="foreign", train=40, tests=12).build(DRAWS.at("start"))
    for one in (parts.x, parts.injected):
        mean, scale = level(one)
        torch.testing.assert_close(mean, torch.zeros_like(mean), rtol=0, atol=1e-5)
        torch.testing.assert_close(scale, torch.ones_like(scale))


def test_more_of_the_same_are_other_images():
    parts = Injection(kind="same", train=600, tests=100).build(DRAWS.at("start"))
    seen = {tuple(one.flatten().tolist()) for one in parts.x[0]}
    again = sum(tuple(one.flatten().tolist()) in seen for one in parts.injected[0])
    assert again <= 5  # of digits that are alike pixel by pixel


def test_mnist_files_are_read_and_one_pair_is_split(tmp_path):
    pixels = np.arange(10 * 4, dtype=np.uint8).reshape(10, 2, 2)
    head = [bytes([0, 0, 8, 3]) + np.array([10, 2, 2], ">u4").tobytes(), bytes([0, 0, 8, 1, 0, 0, 0, 10])]
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(head[0] + pixels.tobytes()))
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(head[1] + bytes(range(10)))
    train, test = (open_split(str(tmp_path), split) for split in ("train", "test"))
    assert (len(train.labels), len(test.labels)) == (8, 2)
    first = train.pixels(torch.tensor([0]))[0]
    assert first.shape == (3, 2, 2)
    assert first[0].flatten().tolist() == pixels[int(train.labels[0])].flatten().tolist()
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(head[1] + bytes(range(9)))
    splits._open.cache_clear()
    with pytest.raises(ConfigError, match="idx files of 1 axes"):
        open_split(str(tmp_path), "train")


def test_idx_files_of_other_data_sets_are_told_apart(tmp_path):
    head = [bytes([0, 0, 8, 3]) + np.array([2, 2, 2], ">u4").tobytes(), bytes([0, 0, 8, 1, 0, 0, 0, 2])]
    for part, value in (("letters-test", 1), ("letters-train", 7)):
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(head[0] + bytes([value] * 8))
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(head[1] + bytes([0, 1]))
    seen = [int(open_split(str(tmp_path), split).pixels(torch.tensor([0])).max()) for split in ("train", "test")]
    assert seen == [7, 1]
    with pytest.raises(ConfigError, match="one file val-images-idx3-ubyte"):
        open_split(str(tmp_path), "val")


def test_pools_are_the_same_at_every_call():
    first, again = (ImagePool("shapes", "test", 8) for _ in range(2))
    index = torch.tensor([[3, 5]])
    assert torch.equal(first.pixels(index), again.pixels(index))
    assert ImagePool("digits", "train").pixels(index, True).shape == (1, 2, 1, 8, 8)
    mean, scale = level(first.pixels(index))
    assert mean.shape == scale.shape == (1, 1, 1, 1, 1)


def test_students_are_looked_at_twelve_times_and_last_at_the_end():
    for steps in (11, 60, 2000):
        looks = Mixing(Family(fit=Fit(steps))).looks
        assert len(set(looks)) == LOOKS
        assert (looks[0], looks[-1]) == (0, steps)


def few_images(folder):
    """A data set of ten images, eight of which are to train on."""
    head = [bytes([0, 0, 8, 3]) + np.array([10, 8, 8], ">u4").tobytes(), bytes([0, 0, 8, 1, 0, 0, 0, 10])]
    pixels = np.random.default_rng(0).integers(0, 255, 10 * 64, dtype=np.uint8)
    (folder / "t10k-images-idx3-ubyte").write_bytes(head[0] + pixels.tobytes())
    (folder / "t10k-labels-idx1-ubyte").write_bytes(head[1] + bytes(range(10)))
    return str(folder)


def test_as_many_foreign_images_are_injected_as_there_are_and_their_share_is_known(tmp_path):
    data = Injection("digits", few_images(tmp_path), "foreign", train=40, tests=2)
    learner = Mixing(replace(TINY, data=data), 3, 4).build(DRAWS.at("start"))
    assert learner.inputs.injected.shape[1] == 6
    assert learner.share() == pytest.approx(6 / 46)


def test_the_share_is_no_state_so_that_older_checkpoints_go_on():
    experiment = Staged(Mixing(replace(TINY, data=replace(TINY.data, fraction=0.75)), 3, 4), 1, 1).build(DRAWS)
    state, numbers = experiment.state()
    assert "learner.count" in state
    assert "learner.share" not in state
    experiment.restore(state, numbers)
    assert probes.mixed(experiment)["share"].values.tolist() == pytest.approx([0.75] * 2)


def test_replicas_that_have_no_share_stored_have_the_one_that_was_asked_for():
    asked = STUDY.share_injected(WHITE, RUNS[WHITE].drop_vars("share", errors="ignore"))
    run = RUNS[WHITE].assign(share=("replica", [np.nan, *[0.25] * 5]))
    assert STUDY.share_injected(WHITE, run).values.tolist() == [asked, *[0.25] * 5]


def test_no_more_foreign_images_than_to_judge_by_are_refused(tmp_path):
    source = few_images(tmp_path)
    for tests in (8, 12):
        data = Injection("digits", source, "foreign", train=40, tests=tests)
        with pytest.raises(ConfigError, match=f"more than {tests} images.* It has 8. Set test lower") as refused:
            data.build(DRAWS.at("start"))
        assert refused.value.source == source  # the option that says so is named by it


def test_a_mixture_is_of_the_parts_that_were_trained_on():
    run = RUNS[WHITE].assign(share=("replica", [0.25] * 6))
    ends = {name: run[name].isel(look=-1) for name in ("alone", "original", "injected")}
    wanted = ends["alone"] - 0.75 * ends["original"] - 0.25 * ends["injected"]
    found = judged_alone("mixture-below-alone", WHITE, RUNS | {WHITE: run})
    assert found.measured == pytest.approx(float(wanted.mean()))
    panel = claims_of.figures.learning(STUDY, {WHITE: run}).panels[0]
    mixture = {curve.label: curve for curve in panel.curves}["the mixture"]
    assert mixture.y[-1] == pytest.approx(float((ends["alone"] - wanted).mean()))


@pytest.mark.parametrize(("share", "judged"), [(0.5, True), (0.495, True), (0.385, False)])
def test_foreign_images_are_compared_with_as_many_gaussians(share, judged):
    fewer = RUNS[PHOTOS_FOREIGN].assign(share=("replica", [share] * 6))
    white = RUNS[PHOTOS_WHITE].assign(share=("replica", [0.5] * 6))
    runs = RUNS | {PHOTOS_FOREIGN: fewer, PHOTOS_WHITE: white}
    found = judged_alone("foreign-images-help-more-than-noise", PHOTOS_FOREIGN, runs)
    assert (found is not None) == judged


def test_headlines_turn_with_their_claims():
    keys = [("covariance-is-structure", "covariance"), ("loss-descends-twice", SIZES)]
    keys += [("minimum-grows-with-samples", SIZES), ("gap-falls-with-fraction", FRACTIONS[0.75])]
    told = {key: [] for key in keys}
    for ends in ((0.1, 0.2), (-0.2, -0.1), (-0.1, 0.1)):
        story = STUDY.story(RUNS, [replace(HEALTHY[key], interval=ends) for key in keys])
        for id, arm in keys:
            told[id, arm].append(story.headlines[f"{id}@{arm}"])
    for holds, fails, undecided in told.values():
        assert holds
        assert fails
        assert holds != fails
        assert undecided == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"digits": ""}, "digits = ''"),
        ({"steps": 10}, "steps = 10 .* >= 11"),
        ({"residual_steps": 9}, "residual_steps = 9 .* 0 or >= 11"),
        ({"sizes": (3, 2, 1)}, "sizes = "),
        ({"sizes": (3,)}, "sizes = .* three"),
        ({"student": 0}, "student = 0"),
        ({"train": -1}, "train = -1"),
        ({"weight": -1.0}, "weight = -1.0"),
        ({"larger": 0}, "larger = 0"),
        ({"teacher": 0}, "teacher = 0"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        InputStructure(**options)
