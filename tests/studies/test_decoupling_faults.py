"""Planted faults: each is one line, and each takes the word "holds" from a claim that expects it.

Healthy and faulty study differ in nothing but the fault: same seed, same draws. Only the arms that a fault is
looked for in are trained anew, and no longer than the claim needs. False alarms: none by chance, seed 0 is fixed.
"""

from dataclasses import replace
from typing import Any

import pytest
import torch
from small_decoupling import TRIAL
from torch import Tensor

from featscope.data import SparseCoding
from featscope.losses import InfoNCE, similarity
from featscope.models import SymmetricReLU
from featscope.models.symmetric_relu import _SoftThreshold as Activation
from featscope.streams import Streams
from featscope.testing import Fault
from featscope.training import SGD, BiasSchedule
from featscope.views import RandomMask

sgd, mask, draws_at, build_schedule = SGD.build, RandomMask.__call__, Streams.at, BiasSchedule.build
noise_variance, start, loss = SparseCoding.noise_variance.fget, SymmetricReLU.build, InfoNCE.__call__


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


def over_temperatures(line: Any) -> Fault:
    """One in the loss that shows in how amplitudes depend on τ."""
    return Fault(InfoNCE, "__call__", line, "amplitude-saturation", "tau-0.5", verdict="fails")


FAULTS = {
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
    "temperature ignored": over_temperatures(lambda self, *a: loss(InfoNCE(1.0), *a)),
    "loss without the leading temperature": over_temperatures(lambda self, *a: loss(self, *a) / self.temperature),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_takes_holds_from_an_expected_claim(name, monkeypatch):
    TRIAL.require_noticed(FAULTS[name], monkeypatch)


def test_without_a_fault_the_shortened_arms_keep_their_claims():
    """What the faults take from claims is not taken by the shorter training."""
    TRIAL.require_not_for_being_short(list(FAULTS.values()))
