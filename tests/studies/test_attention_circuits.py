"""The study of attention circuits, small: what holds, what must not, what it refuses, and planted faults.

Seed 0 is fixed. Arms other than that of three numbers take two steps here; what training does to them is not looked at.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr
from small_attention_circuits import SHORT, STUDY, TRIAL

from featscope.models import AttentionOnlyNetwork
from featscope.models.attention_only import AttentionOnly
from featscope.options import ConfigError
from featscope.studies import addition
from featscope.studies.attention_circuits import AttentionCircuits, probes
from featscope.testing import Fault
from featscope.theory import attention_circuits as theory

TRAINED = {"learns-the-sum"}
"""Claims that so few steps and heads do not bear out."""


def test_what_is_expected_stands_and_controls_do_not_hold():
    looked_at = {key: claim for key, claim in TRIAL.healthy.items() if key[1] not in SHORT and key[0] not in TRAINED}
    assert len(looked_at) >= 8
    assert not [key for key, claim in looked_at.items() if claim.expected and not claim.stands]
    control = [claim for (_, arm), claim in TRIAL.healthy.items() if arm == "shuffled-labels"]
    assert len(control) >= 5
    assert not [claim.id for claim in control if claim.expected or claim.verdict == "holds"]


def test_answers_read_at_equals_do_not_depend_on_pairs_of_numbers():
    assert TRIAL.healthy["read-at-equals-pairs-do-not-count", "read-at-equals"].verdict == "holds"
    assert TRIAL.healthy["read-at-equals-pairs-do-not-count", "three-inputs"].verdict == "fails"


def test_shuffled_labels_are_those_of_other_points():
    objective = addition.Batches(
        addition.BatchCrossEntropy(4, shuffled=True),
        STUDY.arm("five-inputs").recipe.data.build(_streams().at("data")),
        torch.tensor([[3, 1, 4]]),
        torch.tensor([[2]]),
    )
    assert objective.shown_labels(torch.tensor([[0, 1, 2]])).tolist() == [[1, 4, 3]]
    assert objective.labels(torch.tensor([6])).tolist() == [2]


def _streams():
    from featscope.streams import Streams

    return Streams(0, range(1))


def test_both_parts_are_apart_and_all_points():
    streams = _streams()
    source = STUDY.arm("five-inputs").recipe.data.build(streams.at("data"))
    objective = addition.BatchCrossEntropy().build(source, None, streams)
    assert bool(source.shown[0, objective.shown[0]].all())
    assert not bool(source.shown[0, objective.hidden[0]].any())
    assert objective.shown.shape[1] == len(objective.shown[0].unique()) == int(source.shown.sum())


def test_figures_and_story_have_the_numbers():
    drawn = {figure.id: figure for figure in STUDY.figures(TRIAL.runs)}
    assert list(drawn) == ["heads", "spectra", "over-time", "shares"]
    after = drawn["spectra"].panels["head 1, after"]
    assert after.sum() == pytest.approx(1)
    assert np.sort(after.ravel())[-4:].sum() > 0.5
    story = STUDY.story(TRIAL.runs, list(TRIAL.healthy.values()))
    assert "of the power of an attention matrix ends in four bins" in story.found
    assert (
        "layer of attention may learn to add 3 and 4 and 5 numbers. With 3 of them" in STUDY.story(TRIAL.runs, []).found
    )
    assert story.headlines.keys() <= {f"{id}@{arm}" for id, arm in TRIAL.healthy}


def test_eight_bins_are_said_to_be_of_the_default_size():
    (test,) = (test for test in STUDY.tests if test.statement.id == "sparser-than-its-embeddings")
    _, why = test.arms(STUDY)["five-inputs"]
    assert why.startswith("At the default size, modulo 5,")


def untrained(study, arm):
    """What random weights have in four bins, of eight replicas."""
    noise = 0.01 * np.random.default_rng(0).standard_normal((8, 4))
    shares = xr.DataArray(study.exponential(arm) + noise, dims=("replica", "head"))
    return xr.Dataset({"share": shares, "start_share": shares})


@pytest.mark.parametrize(
    ("moduli", "told"), [((17, 7, 5), ["three-inputs"]), ((61, 31, 17), ["three-inputs", "four-inputs"])]
)
def test_few_bins_are_judged_where_random_weights_do_not_have_half_of_the_power_there(moduli, told):
    study = AttentionCircuits(moduli=moduli)
    (test,) = (test for test in study.tests if test.statement.id == "few-bins-hold-most")
    judged = {arm: test.judge(study, arm, {arm: untrained(study, arm)}) for arm in test.arms(study)}
    assert [arm for arm, claim in judged.items() if claim.expected] == told
    assert {claim.verdict for claim in judged.values()} == {"fails"}


@pytest.mark.parametrize(("p", "judged"), [(5, False), (7, False), (9, True), (17, True)])
def test_frequencies_are_counted_where_two_of_random_weights_do_not_have_most_of_the_power(p, judged):
    study = AttentionCircuits(moduli=(p, 5, 5))
    for id in ("two-frequencies-a-dimension", "one-frequency-is-not-enough"):
        (test,) = (test for test in study.tests if test.statement.id == id)
        assert ("three-inputs" in test.arms(study)) == bool(test.arms(study)) == judged


def test_the_control_is_judged_where_the_arm_of_its_modulus_is():
    study = AttentionCircuits(moduli=(7, 31, 5))
    (test,) = (test for test in study.tests if test.statement.id == "few-bins-hold-most")
    assert list(test.arms(study)) == ["four-inputs"]


@pytest.mark.parametrize(("a", "b"), [(3, 5), (3, -5), (14, 5), (14, 12)])
def test_one_wave_has_one_frequency_whatever_its_sign(a, b):
    i, j = torch.arange(17.0)[:, None], torch.arange(17.0)
    wave = torch.cos(2 * torch.pi * (a * i + b * j) / 17)
    assert float(probes.wave_share(wave, 1)) == pytest.approx(1)
    mirrored = wave + torch.cos(2 * torch.pi * (a * i - b * j) / 17)
    assert float(probes.wave_share(mirrored, 1)) == pytest.approx(1)
    assert float(probes.wave_share(wave + torch.cos(2 * torch.pi * i / 17) * torch.cos(2 * torch.pi * j / 17), 1)) < 0.9


def test_step_sizes_fall_along_a_cosine_to_a_tenth():
    for arm in STUDY.arms():
        if arm.recipe.steps:
            steps, optimizer = arm.recipe.steps, arm.recipe.optimizer
            assert optimizer.at(steps // 2) == pytest.approx(0.55 * STUDY.lr, rel=0.02)
            assert optimizer.at(steps) == pytest.approx(0.1 * STUDY.lr)


def test_noise_does_not_need_a_second_frequency():
    """One frequency has little of it, and so have two."""
    (test,) = (test for test in STUDY.tests if test.statement.id == "one-frequency-is-not-enough")
    noise = TRIAL.run("shuffled-labels")
    assert (noise.wave.mean("head") < 0.5).all()
    claim = test.judge(STUDY, "three-inputs", {"three-inputs": noise})
    assert claim.verdict == "undecided"
    assert np.isnan(claim.values).all()
    assert "In 4 of 4 replicas two frequencies gained less than half." in claim.note
    trained = TRIAL.healthy["one-frequency-is-not-enough", "three-inputs"]
    assert np.isfinite(trained.values).all()
    assert "gained less" not in trained.note


def test_what_is_said_of_matrices_that_are_not_used_turns_with_the_claim():
    claim = TRIAL.healthy["sparse-without-use", "read-at-equals"]
    told = [
        STUDY.story(TRIAL.runs, [replace(claim, interval=ends)]).headlines["sparse-without-use@read-at-equals"]
        for ends in ((0.2, 0.3), (-0.1, 0.0), (0.0, 0.2))
    ]
    assert told == ["They are waves there, too.", "They are no waves there.", ""]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"moduli": (17, 7)}, "moduli = .* three odd numbers >= 5"),
        ({"moduli": (16, 7, 5)}, "moduli = .* three odd"),
        ({"heads": (0, 1, 1)}, "heads = .* >= 1"),
        ({"decay": (-1.0, 0.0, 0.0)}, "decay = .* >= 0"),
        ({"steps": 0}, "steps = 0 .* >= 1"),
        ({"lr": 0.0}, "lr = 0.0 .* > 0"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        AttentionCircuits(**options)


# --- planted faults -------------------------------------------------------------------------------------------------

build, shown_labels, power = AttentionOnly.build, addition.Batches.shown_labels, probes.matrix_power_spectrum
half_plane, share_at_start, power_at_start = theory.half_plane, theory.share_at_start, theory.power_at_start


def without_transform(matrices):
    return matrices.double().square()[..., 1:, 1 : (matrices.shape[-1] + 1) // 2]


def of_rows_only(matrices):
    return torch.fft.fft(matrices.double(), dim=-2).abs().square()[..., 1:, 1 : (matrices.shape[-1] + 1) // 2]


def numbers_in_another_order(self):
    count = self.projection.shape[1]
    order = torch.randperm(count, generator=torch.Generator().manual_seed(1))
    return self.embedding[..., order]


def of_other_points(self, chosen):
    return self.labels(self.shown.gather(1, (chosen + 1) % self.shown.shape[1]))


def heads_on_random_embeddings(experiment):
    learner, draws = experiment.learner, experiment.streams.at("random-heads")
    keys, queries = (draws.normal(*learner.key.shape[1:]) for _ in range(2))
    numbers = draws.normal(*learner.numbers.shape[1:])[:, None].mT
    return (numbers @ keys) @ (numbers @ queries).mT


def keys_for_queries(self, embedding):
    keys = embedding[:, None].mT @ self.key
    return keys @ keys.mT


def read_at_the_last_number(self, source, draws):
    network = build(self, source, draws)
    network.read = "last"
    return network


FAULTS = {
    "power without a transform": Fault(
        probes, "matrix_power_spectrum", without_transform, "few-bins-hold-most", "three-inputs"
    ),
    "a transform of rows only": Fault(
        probes, "matrix_power_spectrum", of_rows_only, "two-frequencies-a-dimension", "three-inputs"
    ),
    "numbers in another order": Fault(
        AttentionOnlyNetwork,
        "numbers",
        property(numbers_in_another_order),
        "sparser-than-learned-by-heart",
        "three-inputs",
    ),
    "labels of other points": Fault(
        addition.Batches, "shown_labels", of_other_points, "attention-is-sparse-in-frequency", "three-inputs"
    ),
    "trained heads for random ones": Fault(
        probes,
        "_random_heads",
        lambda experiment: experiment.learner.attention_matrices(),
        "sparser-than-its-embeddings",
        "three-inputs",
    ),
    "random heads on random embeddings": Fault(
        probes, "_random_heads", heads_on_random_embeddings, "embeddings-alone-become-sparse", "three-inputs"
    ),
    "read at the last number": Fault(
        AttentionOnly, "build", read_at_the_last_number, "read-at-equals-pairs-do-not-count", "read-at-equals"
    ),
    "bins of p in place of p - 1": Fault(
        theory, "half_plane", lambda p: p**2 // 2, "bins-are-those-of-the-transform", "wide-start"
    ),
    "the whole plane counts": Fault(
        theory, "half_plane", lambda p: 2 * half_plane(p), "initial-share-is-exponential", "wide-start"
    ),
    "a bin more": Fault(probes, "TOP", 5, "initial-share-is-exponential", "wide-start"),
    "keys for queries": Fault(
        AttentionOnlyNetwork, "scores", keys_for_queries, "initial-share-is-exponential", "wide-start"
    ),
    "a bin less by Monte Carlo": Fault(
        theory,
        "share_at_start",
        lambda p, hidden, dim, largest: share_at_start(p, hidden, dim, largest - 1),
        "initial-share-of-narrow-heads",
        "three-inputs",
        steps=1,
    ),
    "heads of one dimension by Monte Carlo": Fault(
        theory,
        "power_at_start",
        lambda p, hidden, dim, matrices: power_at_start(p, hidden, 1, matrices),
        "initial-share-of-narrow-heads",
        "three-inputs",
        steps=1,
    ),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_fault_takes_holds_from_an_expected_claim(fault, monkeypatch):
    TRIAL.require_noticed(fault, monkeypatch)
