"""Planted faults: each is one line, and each takes the word "holds" from a claim that expects it.

Healthy and faulty study differ in nothing but the fault: same seed, same draws. Only the arms that a fault is
looked for in are trained anew, and no longer than the claim needs. False alarms: none by chance, seed 0 is fixed.
"""

from dataclasses import replace
from typing import Any

import pytest
import torch
from small_decoupling import STUDY, TRIAL
from torch import Tensor

from featscope.data import SparseCoding, SparseCodingSource
from featscope.losses import InfoNCE, similarity
from featscope.models import SymmetricReLU
from featscope.models.symmetric_relu import _SoftThreshold as Activation
from featscope.probes import masked_noise
from featscope.streams import Streams
from featscope.studies.decoupling import corollaries, horizon, stage_one, stage_three, stage_two
from featscope.studies.decoupling.objectives import MaskedNegatives, SignTasks
from featscope.testing import Fault
from featscope.theory import decoupling as theory
from featscope.theory.ideal_network import IdealNetwork
from featscope.theory.masked_neuron import gate_edge
from featscope.training import SGD, BiasSchedule, Contrastive
from featscope.training.optimizers import GradientDescent
from featscope.views import RandomMask, SameSample

pytestmark = pytest.mark.long  # half a minute and more of training

sgd, mask, draws_at, build_schedule = SGD.build, RandomMask.__call__, Streams.at, BiasSchedule.build
sample, build_tasks, build_data = SparseCodingSource.sample, SignTasks.build, SparseCoding.build
activity, noise_variance = SparseCoding.activity.fget, SparseCoding.noise_variance.fget
start, loss, descend = SymmetricReLU.build, InfoNCE.__call__, GradientDescent.step
NOISE_MOVES = IdealNetwork.noise_moves.fget


def independent_masks(self, x, draws):
    return mask(self, x, draws)[0], mask(self, x, draws)[1]


def rolled_positives(self, x, draws):
    anchor, positive = mask(self, x, draws)
    return anchor, positive.roll(1, -2)


def without_factor_2(self, x, draws):
    return tuple(view / 2 for view in mask(self, x, draws))


def one_sided(ctx, u: Tensor, b: Tensor) -> Tensor:
    ctx.save_for_backward(h := torch.relu(u - b))
    return h


def ungated(ctx, gradient: Tensor) -> tuple[Tensor, Tensor]:
    return gradient, -gradient.sum(-2, keepdim=True)


def quarter_masks(self, x, draws):
    anchor = 2 * x * (draws.uniform(*x.shape[1:], dtype=x.dtype) < 0.25)
    return anchor, 2 * x - anchor


def start_in_the_features(self, source, draws):
    network = start(self, source, draws)
    network.weight.data += 4 * (network.weight @ source.dictionary) @ source.dictionary.mT
    return network


def with_a_dense_direction(self, draws, count, dtype=torch.float32):
    drawn = sample(self, draws, count, dtype)
    direction = torch.linspace(-1, 1, drawn.x.shape[-1]).sign() * drawn.x.shape[-1] ** -0.5
    return drawn._replace(x=drawn.x + draws.normal(count, 1) * direction)


def one_task_many_times(self, source, learner, streams):
    built = build_tasks(self, source, learner, streams)
    built.labels.vector.copy_(built.labels.vector[:, :1].expand_as(built.labels.vector))
    return built


def another_positive(self, source, draws):
    anchor, positive = mask(self.view, source.sample(draws, self.anchors).x, draws)
    return anchor, positive.roll(1, -2), source.sample(draws, self.negatives).x


def decay_alone(self):
    """All that is left of a step where there is no gradient."""
    self.zero_grad(set_to_none=False)
    descend(self)


def schedule(**changed: Any) -> Any:
    """A schedule that is built as if some options were others."""
    return lambda self, experiment: build_schedule(replace(self, **changed), experiment)


def ascending(self, parameters):
    return torch.optim.SGD(parameters, lr=self.lr, weight_decay=self.weight_decay, maximize=True)


def on_start(where: Any, name: str, line: Any, claim: str, arm: str = "augmented") -> Fault:
    """One that claims about the random start notice, or about any weights: a step of training is enough."""
    return Fault(where, name, line, claim, arm, steps=1, verdict="fails")


def in_stage_one(
    where: Any, name: str, line: Any, claim: str = "stage1-trajectory", steps: int | None = 60, verdict: str = "fails"
) -> Fault:
    """One that shows in Stage I."""
    return Fault(where, name, line, claim, "stage-one", steps=steps, verdict=verdict)


def on_thresholds(line: Any) -> Fault:
    """One in how thresholds move, which the ledger follows; T1 is at about step 75."""
    return Fault(BiasSchedule, "build", line, "thresholds-follow-the-schedule", "augmented", steps=100, verdict="fails")


def over_temperatures(line: Any, arms: tuple[str, ...] = (), verdict: str | None = "fails") -> Fault:
    """One in the loss that shows in how amplitudes depend on τ."""
    return Fault(InfoNCE, "__call__", line, "amplitude-saturation", "tau-0.5", arms=arms, verdict=verdict)


FAULTS = {
    "a loss that is always of temperature 1": Fault(
        InfoNCE,
        "_over_temperature",
        lambda self, anchor: anchor,
        "loss-follows-the-temperature",
        "tau-0.5",
        steps=450,
        verdict="fails",
    ),
    "negatives as they are": Fault(
        MaskedNegatives, "batch", Contrastive.batch, "negatives-are-masked", "masked-negatives", steps=1
    ),
    "no stop-gradient": on_start(similarity, "stop_gradient", lambda keys: keys, "gradient-split"),
    "masks not complementary": on_start(RandomMask, "__call__", independent_masks, "mask-cancels-noise"),
    "activation not odd": on_start(Activation, "forward", staticmethod(one_sided), "dense-decoupling"),
    "negatives pull instead of push": on_start(
        InfoNCE, "__call__", lambda self, a, p, n: loss(self, a, p, -n), "gradient-split"
    ),
    "noise too loud": on_start(
        SparseCoding,
        "noise_variance",
        property(lambda self: 1.5 * noise_variance(self)),
        "plain-population-gradient",
        "plain",
    ),
    "start too large": on_start(
        SymmetricReLU,
        "build",
        lambda self, *a: start(replace(self, init_norm=1.5 * self.init_norm), *a),
        "initial-norms",
    ),
    "starts in the span of the features": on_start(
        SymmetricReLU, "build", start_in_the_features, "few-strong-at-start"
    ),
    "masks without the factor, at the start": on_start(RandomMask, "__call__", without_factor_2, "mask-moves"),
    "masks spill more": on_start(RandomMask, "__call__", quarter_masks, "mask-crosstalk"),
    "half of the negatives": on_start(
        InfoNCE, "__call__", lambda self, a, p, n: loss(self, a, p, n[:, ::2]), "orthogonal-rows-loss"
    ),
    "a dense direction that survives the mask": in_stage_one(
        SparseCodingSource, "sample", with_a_dense_direction, "no-dense-feature-in-stage1", steps=None
    ),
    "decay of the dense part off": in_stage_one(
        SGD, "build", lambda self, p: sgd(replace(self, weight_decay=0.0), p), "dense-part-in-stage1", steps=100
    ),
    "order of Stage I lost": in_stage_one(
        Streams,
        "at",
        lambda self, purpose, step=0: draws_at(self, purpose),
        "order-kept-in-stage1",
        steps=None,
        verdict="undecided",  # Stage I does not end in all replicas
    ),
    "reset at twice the threshold": on_thresholds(schedule(reset=1.2)),
    "growth at twice the rate": on_thresholds(schedule(growth=0.4)),
    "a lower cap": on_thresholds(schedule(cap_ratio=0.3)),
    "signals too rare": Fault(
        SparseCoding,
        "activity",
        property(lambda self: 0.5 * activity(self)),
        "firing-rate-of-singletons",
        "augmented",
        steps=200,
        verdict="fails",
    ),
    "a quiet start": Fault(
        SymmetricReLU,
        "build",
        lambda self, *a: start(replace(self, init_norm=0.05), *a),
        "plain-overwhelmed-by-noise",
        "loud-start",
        verdict="fails",
    ),
    "no gradient from a loud start": Fault(
        GradientDescent, "step", decay_alone, "plain-loss-vanishes", "loud-start", verdict="fails"
    ),
    "decay too strong without a mask": Fault(
        SGD,
        "build",
        lambda self, p: sgd(replace(self, weight_decay=0.2), p),
        "plain-weights-grow",
        "plain",
        verdict="fails",
    ),
    "positives from another sample where negatives are masked": Fault(
        MaskedNegatives,
        "batch",
        another_positive,
        "negatives-need-no-mask",
        "masked-negatives",
        verdict="fails",
    ),
    "bias never set where negatives are masked": Fault(
        BiasSchedule, "build", schedule(reset=0.0), "negatives-need-no-mask", "masked-negatives", verdict="fails"
    ),
    "masks not complementary, in Stage II": Fault(
        RandomMask, "__call__", independent_masks, "noise-pulls-along-what-is-held", "augmented", steps=200
    ),
    "noise is twenty times as likely to tip a neuron over": Fault(
        masked_noise,
        "gate_edge",
        lambda *at: 20 * gate_edge(*at),
        "noise-pulls-little-along-dense",
        "augmented",
        steps=200,
        verdict="fails",
    ),
    "masks without the factor, in the end": Fault(
        RandomMask, "__call__", without_factor_2, "others-as-gaussian", "augmented", steps=200
    ),
    "bias never set, to the horizon": Fault(
        BiasSchedule, "build", schedule(reset=0.0), "features-at-the-horizon", "horizon", verdict="fails"
    ),
    "half of the negatives, to the horizon": Fault(
        InfoNCE,
        "__call__",
        lambda self, a, p, n: loss(self, a, p, n[:, ::2]),
        "loss-to-the-horizon",
        "horizon",
    ),
    "one task many times": Fault(
        SignTasks, "build", one_task_many_times, "supervised-finds-the-same", "supervised", verdict="fails"
    ),
    "positives from another sample": in_stage_one(RandomMask, "__call__", rolled_positives),
    "masks without the factor 2": in_stage_one(RandomMask, "__call__", without_factor_2),
    "gradient ascent": in_stage_one(SGD, "build", ascending),
    "weight decay off": in_stage_one(
        SGD, "build", lambda self, p: sgd(replace(self, weight_decay=0.0), p), verdict="undecided"
    ),
    "step size doubled": in_stage_one(
        SGD, "build", lambda self, p: sgd(replace(self, lr=2 * self.lr), p), "stage1-duration"
    ),
    "the same batch at every step": in_stage_one(
        Streams, "at", lambda self, purpose, step=0: draws_at(self, purpose), "energy-ceiling", steps=None
    ),
    "no mask under loud noise": Fault(
        RandomMask,
        "__call__",
        lambda self, *given: SameSample()(*given),
        "masking-finds-what-noise-hides",
        "louder",
        verdict="undecided",  # the two arms are one
    ),
    "no mask under loud noise, to read features": Fault(
        RandomMask, "__call__", lambda self, *given: SameSample()(*given), "downstream-classification", "louder"
    ),
    "no mask under loud noise, for the loss": Fault(
        RandomMask, "__call__", lambda self, *given: SameSample()(*given), "loss-inversion", "louder"
    ),
    "bias never set": Fault(
        BiasSchedule,
        "build",
        lambda self, experiment: build_schedule(replace(self, reset=0.0), experiment),
        "singletons-emerge",
        "augmented",
        verdict="fails",
    ),
    "gradient not gated": Fault(
        Activation, "backward", staticmethod(ungated), "gradient-split", "augmented", steps=60, verdict="fails"
    ),
    "the sizes of its sister at half the size": Fault(
        SparseCoding,
        "build",
        lambda self, draws: build_data(
            replace(self, features=STUDY.data.features, input_dim=STUDY.data.input_dim), draws
        ),
        "stage1-duration",
        "smaller",
        verdict="fails",
    ),
    "bias never set without a mask": Fault(
        BiasSchedule,
        "build",
        schedule(reset=0.0),
        "thresholds-find-features-unmasked",
        "thresholds-only",
        verdict="fails",
    ),
    "a mask where there is to be none": Fault(
        SameSample,
        "__call__",
        lambda self, *given: RandomMask()(*given),
        "loss-inversion",
        "tau-1",
        arms=("thresholds-only",),
    ),
    "temperature ignored": over_temperatures(lambda self, *a: loss(InfoNCE(1.0), *a)),
    "loss without the leading temperature": over_temperatures(
        lambda self, *a: loss(self, *a) / self.temperature, ("tau-0.5", "tau-2")
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_takes_holds_from_an_expected_claim(name, monkeypatch):
    TRIAL.require_noticed(FAULTS[name], monkeypatch)


def test_without_a_fault_the_shortened_arms_keep_their_claims():
    """What the faults take from claims is not taken by the shorter training."""
    TRIAL.require_not_for_being_short(list(FAULTS.values()))


def of_the_next_feature(run):
    return stage_two.stored.lucky_alone(run, theory.lucky_constant(), theory.sure_constant()).roll(feature=1)


IN_WHAT_IS_MEASURED = {
    "lucky sets of another feature": (stage_three, "lucky_alone", of_the_next_feature, "the-lottery-pays", "augmented"),
    "lucky neurons of another feature": (
        stage_two,
        "lucky_alone",
        of_the_next_feature,
        "lucky-are-as-large-as-any",
        "augmented",
    ),
    "half of the energy is said to be noise": (
        corollaries,
        "energies",
        lambda run: (run.alignment**2).sum("feature") / 2,
        "output-noise-is-of-the-weights",
        "plain",
    ),
    "Stage II judged from the start": (
        stage_two,
        "at_t2",
        lambda run, series: series.isel(step=0),
        "lucky-lead-at-t2",
        "augmented",
    ),
    "Stage I judged in the end": (
        stage_one,
        "first_look",
        lambda run, series, event: series.isel(step=-1),
        "dense-part-in-stage1",
        "stage-one",
    ),
    "an ideal network whose features are always there": (
        IdealNetwork,
        "noise_moves",
        property(lambda ideal: NOISE_MOVES(ideal) * ideal.p**0.5),
        "ideal-noise-is-as-drawn",
        "augmented",
    ),
    "energies along and off exchanged": (
        stage_one,
        "energy",
        lambda run: 1 - (run.alignment**2).sum("feature").mean("neuron"),
        "sparse-energy",
        "augmented",
    ),
    "singletons of the next feature": (
        horizon,
        "own",
        lambda run: stage_three.own(run).roll(feature=1, roll_coords=False),
        "singletons-stay",
        "horizon",
    ),
    "a neuron that always fires": (
        stage_three,
        "fires",
        lambda centre, spread, threshold: spread * 0 + 1.0,
        "firing-rate-of-singletons",
        "augmented",
    ),
}
"""Faults in how claims look at what was measured: nothing is trained anew."""


@pytest.mark.parametrize("name", IN_WHAT_IS_MEASURED)
def test_a_fault_in_what_is_measured_takes_holds_from_an_expected_claim(name, monkeypatch):
    where, attribute, line, *claim = IN_WHAT_IS_MEASURED[name]
    before = TRIAL.healthy[tuple(claim)]
    assert before.verdict == "holds" or (before.verdict == "undecided" and before.stands)
    monkeypatch.setattr(where, attribute, line)
    after = TRIAL.judge_again(*claim)
    assert after.verdict == "fails" or (before.verdict == "holds" and after.verdict != "holds")
