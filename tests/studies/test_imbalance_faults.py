"""Planted faults in the study of imbalance: each is one line, and takes "holds" from a claim that expects it.

Healthy and faulty study differ in nothing but the fault: same seed, same draws. Only the arms that a fault is
looked for in are trained anew, and no longer than the claim needs. False alarms: none by chance, seed 0 is fixed.
"""

from dataclasses import replace
from typing import Any

import pytest
import torch
from small_imbalance import FEW, HARDLY_ANY, STUDY, TRIAL

from featscope.data import SparseTokens, SparseTokensSource, TokenPairs, sparse_tokens
from featscope.losses import InfoNCE, similarity
from featscope.models import TokenMLP, TokenMLPNetwork
from featscope.models.symmetric_relu import _SoftThreshold as Activation
from featscope.models.symmetric_relu import soft_threshold
from featscope.probes import random_neurons
from featscope.probes.frozen_gates import FrozenGates
from featscope.streams import Streams
from featscope.studies.imbalance import probes, samples
from featscope.testing import Fault
from featscope.training import SGD, BiasSchedule, ContrastivePairs, FirstTime, Training
from featscope.training.rules import BiasScheduleRule

pairs, build, forward = SparseTokensSource.pairs, SparseTokens.build, TokenMLPNetwork.forward
sgd, schedule, first, at = SGD.build, BiasSchedule.build, FirstTime.build, Streams.at
signals, learn, follow = SparseTokensSource._signals, TokenMLP.build, BiasScheduleRule.forward
set_up = Training.build


def of_another_pair(self, draws, count, dtype=torch.float32):
    drawn = pairs(self, draws, count, dtype)
    return drawn._replace(y=drawn.y.roll(1, 1), codes_y=drawn.codes_y.roll(1, 1))


def with_the_noise_of_x(self, draws, count, dtype=torch.float32):
    drawn = pairs(self, draws, count, dtype)
    return drawn._replace(y=drawn.x)


def every_pair_twice(self, draws, count, dtype=torch.float32):
    return TokenPairs(*(part.repeat_interleave(2, 1) for part in pairs(self, draws, count // 2, dtype)))


def rare_ones_first(self, draws):
    source = build(self, draws)
    source.activity.copy_(source.activity.flip(-1))
    return source


def ascending(self, parameters):
    return torch.optim.SGD(parameters, lr=self.lr, weight_decay=self.weight_decay, maximize=True)


def only_when_it_is_half_of_every_neuron(self, experiment):
    both = probes.half_of_every_neuron
    return first(replace(self, condition=both) if self.name == "t1" else self, experiment)


def ungated(ctx, gradient):
    return gradient, -gradient.sum(-2, keepdim=True)


def without_the_own_positive(self, anchor, positive):
    share = (anchor @ positive.detach().mT / self.temperature).masked_fill(torch.eye(anchor.shape[1]).bool(), -1e9)
    return (share.logsumexp(-1) - (anchor * positive.detach()).sum(-1) / self.temperature).mean(-1)


def without_negatives(self, learner, source, draws):
    batch = source.pairs(draws, self.pairs)
    return -(learner(batch.x) * learner(batch.y).detach()).sum(-1).mean(-1)


def one_frame_and_start(self, source, draws):
    network = learn(self, source, draws)
    with torch.no_grad():
        along = network.weight[:1] @ source.dictionary[:1]
        network.weight.copy_(along @ source.dictionary.mT)
    return network


def with_other_features(self, draws, count, dtype=torch.float32):
    drawn = pairs(self, draws, count, dtype)
    return drawn._replace(codes_x=drawn.codes_x.roll(1, -1))


def with_signals_of_twice_the_size(self, draws, count, dtype=torch.float32):
    drawn = pairs(self, draws, count, dtype)
    return drawn._replace(codes_x=2 * drawn.codes_x)


def both_signs_alike(self, draws, count, dtype):
    return tuple(shown.abs() for shown in signals(self, draws, count, dtype))


def those_of_the_first(self, draws, count, dtype):
    return tuple(shown[:1].expand_as(shown) for shown in signals(self, draws, count, dtype))


def frozen_thresholds(self, experiment, step):
    before = experiment.learner.bias.clone()
    follow(self, experiment, step)
    experiment.learner.bias.copy_(torch.where(before > 0, before, experiment.learner.bias))


def at_their_largest(self, experiment, step):
    follow(self, experiment, step)
    bias = experiment.learner.bias
    bias.copy_(torch.where(bias > 0, 0.9 * experiment.learner.weight.norm(dim=-1), bias))


def with_gates_of_theta(self, theta):
    moved = self._project(theta)
    return self.loss.in_batch(self._times * (moved - moved.clamp(-self._bias, self._bias)).sum(-2), self.keys)


def starts_in_pairs(self, source, draws):
    """Neurons start with as much of each second feature as of the one before."""
    network = learn(self, source, draws)
    with torch.no_grad():
        along = network.weight @ source.dictionary
        twins = along[..., ::2].repeat_interleave(2, -1)[..., : along.shape[-1]]
        network.weight.add_((twins - along) @ source.dictionary.mT)
    return network


def uniformly(self, x):
    """Attention of any kind as the uniform one."""
    return self.tokens * soft_threshold(x.mean(-2) @ self.weight.mT, self.bias)


def with_thresholds(self, *given):
    bias = STUDY.arm("heat-map").recipe.rules["bias"]
    return set_up(replace(self, rules={**self.rules, "bias": bias}), *given)


def at_the_start(where: Any, name: str, line: Any, claim: str, verdict: str = "fails") -> Fault:
    """One that shows before training."""
    return Fault(where, name, line, claim, "stage-one", steps=1, verdict=verdict)


def in_stage_one(where: Any, name: str, line: Any, claim: str, verdict: str = "fails") -> Fault:
    """One that shows until T1."""
    return Fault(where, name, line, claim, "stage-one", steps=25, verdict=verdict)


def in_lottery(where: Any, name: str, line: Any, claim: str, steps: int = 30) -> Fault:
    """One that shows where thresholds are set and neurons compete."""
    return Fault(where, name, line, claim, "lottery", steps=steps)


def in_heat_map(where: Any, name: str, line: Any, claim: str, verdict: str = "fails", steps: int = 40) -> Fault:
    """One that shows in the heat map, where biases are set after some fifteen steps."""
    return Fault(where, name, line, claim, "heat-map", steps=steps, verdict=verdict)


FAULTS = {
    "Y independent of X": at_the_start(SparseTokensSource, "pairs", of_another_pair, "stage1-identity"),
    "Y with the noise of X": at_the_start(
        SparseTokensSource, "pairs", with_the_noise_of_x, "stage1-identity-off-features"
    ),
    "every pair twice": at_the_start(SparseTokensSource, "pairs", every_pair_twice, "stage1-identity-negatives"),
    "noise of means as of tokens": at_the_start(sparse_tokens, "sqrt", lambda n: 1.0, "mean-token-noise"),
    "uniform for softmax": Fault(
        TokenMLPNetwork, "forward", uniformly, "attention-is-not-uniform", "softmax-attention", steps=1
    ),
    "uniform for linear": Fault(
        TokenMLPNetwork, "forward", uniformly, "attention-is-not-uniform", "linear-attention", steps=1
    ),
    "factor L missing": at_the_start(
        TokenMLPNetwork, "forward", lambda self, x: forward(self, x) / self.tokens, "stage1-identity"
    ),
    "census with another γ": at_the_start(random_neurons, "GAMMA", 0.05, "features-per-neuron"),
    "lucky neurons at another ratio": at_the_start(probes, "CENSUS_RATIO", 0.85, "lucky-census"),
    "features that start alike by twos": at_the_start(
        TokenMLP, "build", starts_in_pairs, "shared-as-the-law-says", "undecided"
    ),
    "a start of a twentieth of the size": at_the_start(
        TokenMLP,
        "build",
        lambda self, *a: learn(replace(self, init_norm=0.05 * self.init_norm), *a),
        "few-absent-at-start",
    ),
    "a start of twice the size": at_the_start(
        TokenMLP,
        "build",
        lambda self, *a: learn(replace(self, init_norm=2 * self.init_norm), *a),
        "few-strong-at-start",
    ),
    "minority as frequent as majority": in_stage_one(
        SparseTokens, "build", lambda self, draws: build(replace(self, eps_min=1.0), draws), "stage1-growth-minority"
    ),
    "majority rare and minority frequent": in_stage_one(
        SparseTokens, "build", rare_ones_first, "stage1-growth-majority"
    ),
    "gradient ascent": in_stage_one(SGD, "build", ascending, "stage1-growth-majority"),
    "decay off": in_stage_one(
        SGD, "build", lambda self, p: sgd(replace(self, weight_decay=0.0), p), "nonfeature-decay"
    ),
    "step size doubled": in_stage_one(
        SGD, "build", lambda self, p: sgd(replace(self, lr=2 * self.lr), p), "stage1-duration"
    ),
    "T1 at another share": in_stage_one(
        FirstTime, "build", only_when_it_is_half_of_every_neuron, "stage1-duration", "undecided"
    ),
    "all input dimensions where a quarter is asked for": Fault(
        SparseTokens,
        "build",
        lambda self, draws: build(replace(self, input_dim=STUDY.data.input_dim), draws),
        "stage1-duration",
        "stage-one-narrow",
        steps=45,
        verdict="fails",
    ),
    "minority as frequent as majority, on the curves": Fault(
        SparseTokens,
        "build",
        lambda self, draws: build(replace(self, eps_min=1.0), draws),
        "heatmap-majority-first",
        "imbalanced",
        steps=STUDY.curve_steps,
        verdict="undecided",
    ),
    "thresholds where there are to be none": Fault(
        Training,
        "build",
        with_thresholds,
        "late-amplitudes-are-alike",
        "heat-map-unbiased",
        steps=STUDY.steps,
        verdict="fails",
    ),
    "thresholds never set with few neurons": Fault(
        BiasSchedule,
        "build",
        lambda self, experiment: schedule(replace(self, reset=0.0), experiment),
        "few-neurons-do",
        "few-neurons",
        steps=STUDY.steps,
        verdict="undecided",  # of twelve features some get a neuron all the same; of twenty hardly any
    ),
    "energy of features without squares": Fault(
        probes, "feature_energy", lambda cosines: cosines.sum(-1), "stage1-of-every-neuron", "stage-one", steps=45
    ),
    "contrast of X with itself": in_stage_one(
        ContrastivePairs,
        "__call__",
        lambda self, learner, source, draws: self.loss.in_batch(*[learner(source.pairs(draws, self.pairs).x)] * 2),
        "nonfeature-decay",
    ),
    "no stop-gradient": in_heat_map(similarity, "stop_gradient", lambda keys: keys, "gradient-formula"),
    "no own positive among the keys": in_heat_map(InfoNCE, "in_batch", without_the_own_positive, "gradient-formula"),
    "gradient not gated": in_heat_map(Activation, "backward", staticmethod(ungated), "gradient-formula"),
    "gates of θ in place of w": in_heat_map(FrozenGates, "pseudo_loss", with_gates_of_theta, "pseudo-loss-convex"),
    "bias never set": in_heat_map(
        BiasSchedule,
        "build",
        lambda self, experiment: schedule(replace(self, reset=0.0), experiment),
        "heatmap-majority-first",
        "undecided",
        steps=STUDY.steps,
    ),
    "pairs with signs of one kind": at_the_start(
        SparseTokensSource, "_signals", both_signs_alike, "signs-symmetric", "undecided"
    ),
    "the same samples for all replicas": at_the_start(
        SparseTokensSource, "_signals", those_of_the_first, "samples-independent", "undecided"
    ),
    "one start for all replicas": at_the_start(TokenMLP, "build", one_frame_and_start, "replicas-independent", "fails"),
    "starts a tenth too large": at_the_start(
        TokenMLP,
        "build",
        lambda self, source, draws: learn(replace(self, init_norm=1.1 * self.init_norm), source, draws),
        "initial-norms",
    ),
    "codes of other features": at_the_start(SparseTokensSource, "pairs", with_other_features, "pairs-share-signals"),
    "one batch for all": at_the_start(samples, "BATCH_SIZES", (64, 64), "batches-concentrate", "undecided"),
    "no negatives": in_heat_map(ContrastivePairs, "__call__", without_negatives, "step-is-the-papers"),
    "thresholds too low at the reset": in_lottery(
        BiasSchedule,
        "build",
        lambda self, experiment: schedule(replace(self, reset=0.5 * self.reset), experiment),
        "thresholds-set",
    ),
    "thresholds a fiftieth too high at the reset": in_lottery(
        BiasSchedule,
        "build",
        lambda self, experiment: schedule(replace(self, reset=1.02 * self.reset), experiment),
        "thresholds-set",
    ),
    "thresholds that do not grow": in_lottery(
        BiasScheduleRule, "forward", frozen_thresholds, "thresholds-rise", steps=120
    ),
    "thresholds without a cap": in_lottery(BiasScheduleRule, "forward", at_their_largest, "thresholds-capped"),
    "thresholds never set": in_lottery(
        BiasSchedule,
        "build",
        lambda self, experiment: schedule(replace(self, reset=0.0), experiment),
        "lucky-win",
        steps=120,
    ),
    "Stage 2 as printed for T1": in_lottery(
        BiasSchedule,
        "build",
        lambda self, experiment: schedule(replace(self, feature_energy=0.95), experiment),
        "stage2-duration",
        steps=120,
    ),
    "thresholds that kill": in_lottery(BiasScheduleRule, "forward", at_their_largest, "fires-for-its-own", steps=120),
    "signals of twice the size": in_lottery(
        SparseTokensSource, "pairs", with_signals_of_twice_the_size, "signal-tail", steps=120
    ),
    "tokens that all show a feature": Fault(
        SparseTokensSource,
        "_shown",
        lambda self, draws, active: active.unsqueeze(-2),
        "growth-with-masking",
        "token-masking",
        steps=40,
    ),
    "gradient ascent to the end": Fault(
        SGD, "build", ascending, "average-beats-optimal-learner", "heat-map", steps=160
    ),
    "uniform attention for linear": Fault(
        TokenMLP,
        "build",
        lambda self, source, draws: learn(replace(self, attention="uniform"), source, draws),
        "growth-under-linear-exactly",
        "linear-attention",
        steps=15,
    ),
    "labels of other features": Fault(
        SparseTokensSource, "pairs", with_other_features, "minority-mse-falls", "figures-3-4", steps=STUDY.curve_steps
    ),
    "heads are tested on what they were fitted to": Fault(
        Streams,
        "at",
        lambda self, purpose, *step: at(self, "train head" if purpose == "test" else purpose, *step),
        "heads-are-tested-on-fresh-pairs",
        "figures-3-4",
        steps=2,
    ),
    "test data not balanced": Fault(
        SparseTokensSource,
        "balanced",
        lambda self: self,
        "cosine-rises",
        "figures-3-4",
        steps=STUDY.curve_steps,
        verdict="undecided",
    ),
}


SAMPLES = {
    **dict.fromkeys(("shared-as-the-law-says", "few-absent-at-start", "few-strong-at-start"), "none"),
    "features-per-neuron": "C",  # census and crowd
    "lucky-census": "C",
    "signs-symmetric": "ASSUMED",
    "samples-independent": "ASSUMED",
    "pairs-share-signals": "ASSUMED",
    "batches-concentrate": "BATCHES",
}
"""What some claims are made of."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_takes_holds_from_an_expected_claim(name, monkeypatch):
    fault = FAULTS[name]
    assert TRIAL.healthy[fault.claim, fault.arm].expected  # measured before it is changed how many samples are drawn
    needed = SAMPLES.get(fault.claim, "PULL")
    for number in FEW if fault.steps == 1 else ():  # of what the claim is not made of, hardly any
        if not number.startswith(needed):
            monkeypatch.setitem(FEW, number, HARDLY_ANY[number])
    TRIAL.require_noticed(fault, monkeypatch)


@pytest.mark.long
def test_without_a_fault_the_shortened_arms_keep_their_claims():
    short = [fault for fault in FAULTS.values() if 1 < fault.steps < TRIAL.arms[fault.arm].recipe.steps]
    TRIAL.require_not_for_being_short(short)
