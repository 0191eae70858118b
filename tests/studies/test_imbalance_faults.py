"""Planted faults in the study of imbalance: each is one line, and takes "holds" from a claim that expects it.

Healthy and faulty study differ in nothing but the fault: same seed, same draws. Only the arms that a fault is
looked for in are trained anew, and no longer than the claim needs. False alarms: none by chance, seed 0 is fixed.
"""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import small_imbalance
import torch

from featscope.data import SparseTokens, SparseTokensSource, TokenPairs, sparse_tokens
from featscope.losses import InfoNCE, similarity
from featscope.models import TokenMLPNetwork
from featscope.models.symmetric_relu import _SoftThreshold as Activation
from featscope.studies.imbalance import identities, measures
from featscope.training import SGD, BiasSchedule, ContrastivePairs

pairs, build, forward = SparseTokensSource.pairs, SparseTokens.build, TokenMLPNetwork.forward
sgd, schedule, loss, leads = SGD.__call__, BiasSchedule.build, InfoNCE.in_batch, measures.features_lead


def of_another_pair(self, draws, count, dtype=torch.float32):
    drawn = pairs(self, draws, count, dtype)
    return drawn._replace(y=drawn.y.roll(1, 1), codes_y=drawn.codes_y.roll(1, 1))


def with_the_noise_of_x(self, draws, count, dtype=torch.float32):
    drawn = pairs(self, draws, count, dtype)
    return drawn._replace(y=drawn.x)


def every_pair_twice(self, draws, count, dtype=torch.float32):
    return TokenPairs(*(part.repeat_interleave(2, 1) for part in pairs(self, draws, count // 2, dtype)))


def rare_ones_first(self, draws, *, means):
    source = build(self, draws, means=means)
    source.activity.copy_(source.activity.flip(-1))
    return source


def ascending(self, parameters):
    return torch.optim.SGD(parameters, lr=self.lr, weight_decay=self.weight_decay, maximize=True)


def ungated(ctx, gradient):
    return gradient, -gradient.sum(-2, keepdim=True)


def without_the_own_positive(self, anchor, positive):
    share = (anchor @ positive.detach().mT / self.temperature).masked_fill(torch.eye(anchor.shape[1]).bool(), -1e9)
    return (share.logsumexp(-1) - (anchor * positive.detach()).sum(-1) / self.temperature).mean(-1)


def with_gates_of_theta(self, theta):
    moved = identities._attended(self.network, self.batch.x)[0] @ theta[:, None].mT
    shrunk = moved - moved.clamp(-self.network.bias[:, None, None], self.network.bias[:, None, None])
    return self.loss.in_batch(self.times * shrunk.sum(-2), self.keys)


@dataclass(frozen=True)
class Fault:
    """``setattr(where, name, line)`` plants it; training ``arm`` for ``steps`` shows it to ``claim``."""

    where: Any
    name: str
    line: Any
    claim: str
    arm: str = "stage-one"
    steps: int = 25
    verdict: str = "fails"


AT_START, IN_HEAT_MAP = 1, 40  # steps; in the heat map biases are set after some fifteen

FAULTS = {
    "Y independent of X": Fault(SparseTokensSource, "pairs", of_another_pair, "stage1-identity", steps=AT_START),
    "Y with the noise of X": Fault(
        SparseTokensSource, "pairs", with_the_noise_of_x, "stage1-identity-off-features", steps=AT_START
    ),
    "every pair twice": Fault(
        SparseTokensSource, "pairs", every_pair_twice, "stage1-identity-negatives", steps=AT_START
    ),
    "noise of means as of tokens": Fault(sparse_tokens, "sqrt", lambda n: 1.0, "mean-token-noise", steps=AT_START),
    "factor L missing": Fault(
        TokenMLPNetwork, "forward", lambda self, x: forward(self, x) / self.tokens, "stage1-identity", steps=AT_START
    ),
    "census with another γ": Fault(measures, "GAMMA", 0.05, "features-per-neuron", steps=AT_START),
    "lucky neurons at another ratio": Fault(measures, "CENSUS_RATIO", 0.85, "lucky-census", steps=AT_START),
    "minority as frequent as majority": Fault(
        SparseTokens,
        "build",
        lambda self, draws, *, means: build(replace(self, eps_min=1.0), draws, means=means),
        "stage1-growth-minority",
    ),
    "majority rare and minority frequent": Fault(SparseTokens, "build", rare_ones_first, "stage1-growth-majority"),
    "gradient ascent": Fault(SGD, "__call__", ascending, "stage1-growth-majority"),
    "decay off": Fault(SGD, "__call__", lambda self, p: sgd(replace(self, weight_decay=0.0), p), "nonfeature-decay"),
    "step size doubled": Fault(
        SGD, "__call__", lambda self, p: sgd(replace(self, lr=2 * self.lr), p), "stage1-duration"
    ),
    "T1 at another share": Fault(
        measures,
        "features_lead",
        lambda experiment: leads(experiment) & measures.half_of_every_neuron(experiment),
        "stage1-duration",
        verdict="undecided",
    ),
    "no stop-gradient": Fault(
        similarity, "stop_gradient", lambda keys: keys, "gradient-formula", "heat-map", IN_HEAT_MAP
    ),
    "no own positive among the keys": Fault(
        InfoNCE, "in_batch", without_the_own_positive, "gradient-formula", "heat-map", IN_HEAT_MAP
    ),
    "gradient not gated": Fault(
        Activation, "backward", staticmethod(ungated), "gradient-formula", "heat-map", IN_HEAT_MAP
    ),
    "gates of θ in place of w": Fault(
        identities._At,
        "pseudo_loss",
        with_gates_of_theta,
        "pseudo-loss-convex",
        "heat-map",
        IN_HEAT_MAP,
        "undecided",
    ),
    "bias never set": Fault(
        BiasSchedule,
        "build",
        lambda self, experiment: schedule(replace(self, reset=0.0), experiment),
        "heatmap-majority-first",
        "heat-map",
        300,
        "undecided",
    ),
    "contrast of X with itself": Fault(
        ContrastivePairs,
        "__call__",
        lambda self, learner, source, draws: self.loss.in_batch(*[learner(source.pairs(draws, self.pairs).x)] * 2),
        "nonfeature-decay",
    ),
    "test data not balanced": Fault(
        SparseTokensSource,
        "balanced",
        lambda self: self,
        "cosine-rises",
        "figures-3-4",
        small_imbalance.STUDY.curve_steps,
        "undecided",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_takes_holds_from_an_expected_claim(name, monkeypatch):
    fault = FAULTS[name]
    healthy = small_imbalance.healthy()[fault.claim, fault.arm]
    assert healthy.expected
    assert healthy.verdict == "holds"
    monkeypatch.setattr(fault.where, fault.name, fault.line)
    assert small_imbalance.retrained(fault.arm, steps=fault.steps)[fault.claim, fault.arm].verdict == fault.verdict


@pytest.mark.parametrize("steps", sorted({fault.steps for fault in FAULTS.values() if fault.arm == "stage-one"}))
def test_without_a_fault_the_shortened_first_stage_keeps_its_claims(steps):
    claims = small_imbalance.retrained("stage-one", steps=steps)
    for fault in FAULTS.values():
        if (fault.arm, fault.steps) == ("stage-one", steps):
            assert claims[fault.claim, fault.arm].verdict == "holds"


def test_without_a_fault_the_shortened_heat_map_keeps_its_claims():
    claims = small_imbalance.retrained("heat-map", steps=IN_HEAT_MAP)
    for fault in FAULTS.values():
        if (fault.arm, fault.steps) == ("heat-map", IN_HEAT_MAP):
            assert claims[fault.claim, fault.arm].verdict == "holds"
