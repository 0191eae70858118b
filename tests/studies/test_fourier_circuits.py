"""The study of Fourier circuits, small: what holds, what must not, what it refuses, and planted faults.

Seed 0 is fixed. Arms whose training takes long take two steps here; what is claimed of them is not looked at.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr
from small_fourier_circuits import LONG, STUDY, TRIAL

from featscope.models import PolynomialNetwork
from featscope.options import ConfigError
from featscope.probes import fourier
from featscope.runs.shard import Shard
from featscope.streams import Streams
from featscope.studies import Axis
from featscope.studies.fourier_circuits import FourierCircuits, exact, identities, probes, training
from featscope.studies.fourier_circuits.training import DecayingAdamW, PenalisedCrossEntropy
from featscope.studies.sweep import Sweep
from featscope.testing import Fault, measure
from featscope.theory import fourier_circuits as theory
from featscope.training.optimizers import by_replica

STRAY = ("neurons-single-frequency", "neurons-share-their-frequency", "trained-phase-rule", "trained-blocks-are-equal")
WRITTEN = {
    "logits-are-zero-elsewhere",
    "neurons-of-a-frequency-are-56",
    "formula-bounds-even-moduli",
    "sketch-has-all-terms",
    "neurons-are-as-printed",
    "first-monomial-as-printed",
}


STEP = DecayingAdamW.at


@pytest.mark.long
def test_what_is_expected_holds_and_what_is_not_fails():
    decided = {key: claim for key, claim in TRIAL.healthy.items() if key[1] not in LONG}
    assert {id for id, arm in decided if arm == "trained"} >= {"trained-cross-entropy", "trained-margin"}
    assert not {key for key, claim in decided.items() if claim.expected and not claim.stands}
    assert not {key for key, claim in decided.items() if not claim.expected and claim.verdict != "fails"}
    sure = {key for key, claim in decided.items() if claim.expected and claim.verdict != "holds"}
    # One neuron of a replica strays, which a longer training mends. Two replicas of few points support no 95 %.
    assert sure <= {(id, "trained") for id in STRAY} | {("points-are-right-all-the-same", "weight-decay")}


@pytest.mark.long
def test_what_is_wrong_in_the_text_has_the_right_statement_beside_it():
    nothing_trained = {"written-down", "paper-sizes", "odd-composite", "fewer-neurons", "even-modulus", "one-neuron"}
    nothing_trained |= {"identities", "one-term"}
    failing = {id for (id, arm), claim in TRIAL.healthy.items() if arm in nothing_trained and not claim.expected}
    assert failing == WRITTEN
    mended = "neurons-with-both-sines-turned", "first-monomial"
    for right in ("logits-are-minus-half", "neurons-of-a-frequency", "expansion-has-all-terms", *mended):
        assert [claim.verdict for (id, _), claim in TRIAL.healthy.items() if id == right] == ["holds"]
    assert TRIAL.healthy["even-modulus-with-all", "even-modulus"].verdict == "holds"


@pytest.mark.long
def test_the_control_has_no_expected_claim():
    assert [arm.name for arm in STUDY.arms() if arm.role == "control"] == ["half-data"]
    assert not [id for (id, arm), claim in TRIAL.healthy.items() if arm == "half-data" and claim.expected]


@pytest.mark.long
def test_figures_and_story_have_the_numbers():
    drawn = {figure.id: figure for figure in STUDY.figures(TRIAL.runs)}
    assert list(drawn) == ["over-time", "neurons", "spectra", "wheel"]
    for panel in drawn["neurons"].panels:
        weights, wave = panel.curves[:2]
        assert abs(wave.y[0] - weights.y[0]) < 0.1 * np.abs(weights.y).max()
    trained, *_ = drawn["spectra"].series["trained"]
    assert trained[-1] > 0.9
    assert trained.sum() == pytest.approx(1)
    assert len(drawn["wheel"].panels) == 2
    story = STUDY.story(TRIAL.runs, list(TRIAL.healthy.values()))
    assert "has the margin of the theorem on every point, and training ends at it" in story.found
    assert story.headlines.keys() <= {f"{id}@{arm}" for id, arm in TRIAL.healthy}


@pytest.mark.long
def test_the_story_turns_with_what_was_found():
    trained = TRIAL.run("trained")
    lost = {**TRIAL.runs, "trained": trained.assign(margin_everywhere=0.01 * trained.margin_everywhere)}
    assert "training does not end at it: 1.0 %" in STUDY.story(lost, STUDY.claims(lost)).found
    assert "may end at it" in STUDY.story(TRIAL.runs, []).found


def test_a_margin_above_the_largest_is_noticed_in_one_replica_and_spread_below_it_is_none():
    (test,) = (test for test in STUDY.tests if test.statement.id == "margin-never-exceeds")

    def verdict(*margins):
        looks = xr.DataArray([[0.1, margin] for margin in margins], dims=("replica", "step"))
        return test.judge(STUDY, "two-tight", {"two-tight": xr.Dataset({"margin": looks})}).verdict

    assert verdict(*[0.5] * 7, 1.02) == "fails"
    assert verdict(*[0.9999] * 6, 0.88, 0.96) == "holds"


def test_how_much_decay_shrinks_is_said_of_the_default_options():
    whys = [test.arms(STUDY).get("weight-decay", (False, ""))[1] for test in STUDY.tests]
    shrinking = [why for why in whys if "2 %" in why]
    assert shrinking
    assert all("at default steps and decay" in why for why in shrinking)


def test_a_resumed_optimizer_goes_on_with_its_step_size():
    options = DecayingAdamW(lr=0.1, over=20)
    assert options.at(0) == pytest.approx(0.01)
    assert options.at(9) < options.at(8) * 1.13
    assert options.at(25) == pytest.approx(0.02)
    weight = torch.nn.Parameter(torch.ones(3))
    first = options.build([weight])
    weight.grad = torch.ones(3)
    for _ in range(7):
        first.step()
    second = options.build([weight])
    second.load_state_dict(first.state_dict())
    second.step()
    assert second.param_groups[0]["lr"] == options.at(7)


def test_the_last_step_is_judged_by_what_the_optimizer_did(monkeypatch):
    small = replace(STUDY, steps=10)
    (test,) = (test for test in small.tests if test.statement.id == "last-steps-are-a-fifth")

    def verdict():
        return test.judge(small, "trained", {"trained": measure(small, small.arm("trained"), 2)}).verdict

    assert verdict() == "holds"
    monkeypatch.setattr(training, "_scheduled", lambda: by_replica("AdamW"))
    assert verdict() == "fails"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"modulus": 8}, r"modulus = 8 .* odd and >= 5\. At an even p"),
        ({"penalty": 0.0}, r"penalty = 0.0 .* > 0 and < 0.5"),
        ({"steps": 1}, r"steps = 1 .* >= 10"),
        ({"lr": 0.0}, r"lr = 0.0 .* > 0"),
        ({"decay": -1.0}, r"decay = -1.0 .* >= 0"),
        ({"restarts": 2}, r"restarts = 2 .* >= 8"),
        ({"points": 2}, r"points = 2 .* >= 16"),
    ],
)
def test_wrong_options_are_named_before_anything_runs(options, message):
    with pytest.raises(ConfigError, match=message):
        FourierCircuits(**options)


# --- planted faults -------------------------------------------------------------------------------------------------

logits, best, norm = PolynomialNetwork._logits, theory.best_margin, PolynomialNetwork.norm
monomial = identities._first_monomial
over_points = exact.over_all_points
phases, penalised = exact.max_margin_phases, PenalisedCrossEntropy.__call__


def a_power_less(self, sums):
    return sums ** (self.embedding.shape[1] - 1) @ self.readout


def one_sign_wrong(inputs):
    found = phases(inputs)
    found[0, -1] += torch.pi
    return found


def a_label_later(inputs, modulus):
    return (exact_labels(inputs, modulus) + 1) % modulus


exact_labels = exact.all_labels

FAULTS = {
    "steps that shrink over as many as by default": Fault(
        DecayingAdamW,
        "at",
        lambda self, step: STEP(replace(self, over=1500), step),
        "last-steps-are-a-fifth",
        "trained",
    ),
    "amplitudes for powers": Fault(
        fourier,
        "power_spectrum",
        lambda v: torch.fft.rfft(v.double()).abs()[..., 1:],
        "power-is-the-square",
        "identities",
    ),
    "a power less": Fault(PolynomialNetwork, "_logits", a_power_less, "gamma-star-at-paper-sizes", "paper-sizes"),
    "the phase of one neuron": Fault(exact, "max_margin_phases", one_sign_wrong, "even-modulus", "even-modulus"),
    "the label after": Fault(exact, "all_labels", a_label_later, "width-not-necessary", "fewer-neurons"),
    "a lattice with another generator": Fault(
        theory, "LATTICES", {**theory.LATTICES, 2: (6, (1, 2))}, "width-not-necessary", "fewer-neurons"
    ),
    "no mass for the last frequency": Fault(
        theory, "nyquist_mass", lambda k: 0.0, "even-modulus-with-all", "even-modulus"
    ),
    "a formula that is a millionth off": Fault(
        theory, "best_margin", lambda k, p: best(k, p) * (1 + 1e-6), "single-neuron-margin", "one-neuron"
    ),
    "a climb in the wrong direction": Fault(
        exact, "climb", lambda vectors: -vectors, "single-neuron-margin", "one-neuron"
    ),
    "the read-out counts twice": Fault(
        exact, "over_all_points", lambda v: over_points(v) * v[:, -1].norm(dim=-1), "equal-blocks", "one-neuron"
    ),
    "a sign in the identity": Fault(
        theory,
        "signed_powers",
        lambda values, half=False: -theory.product_of_values(values),
        "identities",
        "identities",
    ),
    "the phases of another neuron": Fault(
        identities.OneTerm,
        "phases",
        identities.OneTerm.phases[1:] + identities.OneTerm.phases[:1],
        "neurons-with-both-sines-turned",
        "one-term",
    ),
    "a monomial of all inputs": Fault(
        identities,
        "_first_monomial",
        lambda k, vectors: monomial(k, vectors) | {"first": monomial(k, vectors)["first_printed"]},
        "first-monomial",
        "identities",
    ),
    "twice the penalty": Fault(
        PenalisedCrossEntropy,
        "__call__",
        lambda self, learner, source, draws: penalised(self, learner, source, draws) + self.penalty * norm(learner),
        "trained-cross-entropy",
        "trained",
    ),
    "frequencies that are not those of weights": Fault(
        probes, "peak_share", lambda vectors: vectors.double().square().amax(-1), "neurons-single-frequency", "trained"
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_takes_holds_from_an_expected_claim(name, monkeypatch):
    TRIAL.require_noticed(FAULTS[name], monkeypatch)


@pytest.mark.parametrize("questions", [identities.Identities(), identities.OneTerm(), exact.Constructed(((2, 5),))])
def test_what_is_written_down_is_looked_at_on_the_cpu_whatever_the_device(questions):
    evaluation = questions.build(Streams(0, [0], "meta"))  # from which no number comes back
    assert np.isfinite(list(evaluation.ask(**evaluation.points[0]).values())).all()


def test_penalties_run_as_one_program():
    assert len(Shard(STUDY, STUDY.arm("penalties"), range(2), 0, "cpu").build()) == 1


@pytest.mark.parametrize(("option", "values"), [("penalty", (0.01, 0.05)), ("lr", (0.005, 0.01))])
def test_points_of_a_sweep_are_trained_as_they_are_alone(option, values):
    small = replace(STUDY, steps=10)
    swept = measure(Sweep(small, (Axis(option, values),)), next(iter(Sweep(small, (Axis(option, values),)).arms())), 2)
    for value in values:
        alone = measure(small, replace(small, **{option: value}).arm("trained"), 2)
        np.testing.assert_allclose(swept.cross_entropy.sel({option: value}), alone.cross_entropy, rtol=1e-5)
