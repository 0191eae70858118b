"""Planted faults in `pruning`: each is one line, and each takes the word "holds" from a claim that expects it.

Healthy and faulty study differ in nothing but the fault: same seed, same draws. Only the arm that a fault is looked for
in is trained anew, and no longer than the claim needs. False alarms: none by chance, seed 0 is fixed.
"""

from dataclasses import replace
from typing import Any

import pytest
import torch
from small_pruning import STUDY, TRIAL
from torch.func import functional_call

from featscope.data import SparseTokens, SparseTokensSource
from featscope.losses import Masked, similarity
from featscope.studies.pruning import assumed, probes
from featscope.testing import Fault
from featscope.training import GradientTraining, MagnitudePruning, pruning
from featscope.training.pruning import Pruner, PruningMask
from featscope.training.rules import ProportionalBiasRule

pairs, build = SparseTokensSource.pairs, SparseTokens.build
stated = assumed.stated_factors
prune = MagnitudePruning.build
choice, hide, advance = pruning.all_but_smallest, PruningMask._hide, GradientTraining.advance


def at_once(where: Any, name: str, line: Any, claim: str) -> Fault:
    """One that a single step shows."""
    return Fault(where, name, line, claim, "one-step" + "-noiseless" * (claim == "growth-is-the-gap"), steps=1)


def in_any_step(where: Any, name: str, line: Any, claim: str = "update-is-algorithm-1") -> Fault:
    """One that any step of training shows."""
    return Fault(where, name, line, claim, "stationary", steps=5)


def in_who_is_pruned(where: Any, name: str, line: Any, arm: str) -> Fault:
    """One that shows as soon as pruning has begun, or norms have an order."""
    return Fault(where, name, line, "pruned-are-minority", arm, steps=100 if arm == "stationary" else 500)


def until_settled(where: Any, name: str, line: Any, claim: str) -> Fault:
    """One that takes its time."""
    return Fault(where, name, line, claim, "stationary", steps=STUDY.settling_steps)


def in_what_is_hidden(where: Any, name: str, line: Any) -> Fault:
    """One that shows in what becomes of hidden neurons under the gradient of the pruned network."""
    return Fault(where, name, line, "hidden-for-good", "straight-through", steps=100)


def in_tiers(where: Any, name: str, line: Any, claim: str) -> Fault:
    """One that shows where three tiers have settled, or pruning is to level them."""
    return Fault(where, name, line, claim, "tiers", steps=STUDY.settling_steps)


def hidden_activations(self, x):
    """Both with the mask: the activations too that the gradient (5) multiplies the logits with."""
    module = self.module
    pruned = functional_call(module, self.mask.pruned_parameters(module), x)
    return Masked(pruned.detach(), pruned)


def hidden_end_as(line):
    """Steps after which hidden neurons are what ``line(before, after, λη)`` says."""

    def step(self, number):
        before, hidden = self.learner.weight.detach().clone(), ~self.rules["pruning"].kept[..., None]
        advance(self, number)
        with torch.no_grad():
            after = self.learner.weight
            after.copy_(torch.where(hidden, line(before, after, 0.1 * 0.05), after))

    return step


def dimmed(self, parameter, kept):
    return 0.5 * (parameter + hide(self, parameter, kept))


def straight_through_that_hides_all(options, **changes):
    return replace(options, **changes, **({"ratio": 0.99} if changes.get("gradient") == "straight-through" else {}))


def without_the_dimension(*of):
    least, most = stated(*of)
    return least, 1 + (most - 1) * of[-1]


def like_the_first_replica(magnitudes, ratio):
    return choice(magnitudes[:1].expand_as(magnitudes), ratio)


def with_keys_of_the_next(self, draws, count, dtype=torch.float32):
    drawn = pairs(self, draws, count, dtype)
    return drawn._replace(y=drawn.y.roll(1, 1))


def with_keys_of_one_sign(self, draws, count, dtype=torch.float32):
    drawn = pairs(self, draws, count, dtype)
    return drawn._replace(y=drawn.y.abs())


FAULTS = {
    "logits unmasked": at_once(similarity, "_of_value", lambda whole, pruned: whole, "planted-minority-growth"),
    "nothing hidden": at_once(Pruner, "forward", lambda self, x: self.module(x), "hardness-rises-on-minority"),
    "masked activations in the gradient": at_once(Pruner, "forward", hidden_activations, "planted-minority-growth"),
    "keys that learn too": at_once(similarity, "stop_gradient", lambda keys: keys, "growth-is-the-gap"),
    "twice as many pruned": at_once(
        pruning, "all_but_smallest", lambda norms, ratio: choice(norms, 2 * ratio), "planted-majority-unchanged"
    ),
    "half as many pruned": at_once(
        pruning, "all_but_smallest", lambda norms, ratio: choice(norms, ratio / 2), "monotone-in-ratio"
    ),
    "all but the smallest pruned": at_once(
        pruning, "all_but_smallest", lambda norms, ratio: ~choice(norms, ratio), "hardness-rises-only-on-minority"
    ),
    "one pruned too many": in_any_step(
        pruning,
        "all_but_smallest",
        lambda norms, ratio: choice(norms, ratio + 1 / norms.shape[-1]),
        "as-many-are-pruned",
    ),
    "keys of the anchors themselves": at_once(SparseTokensSource, "pairs", with_keys_of_the_next, "pruned-overlap"),
    "the sign of a key lost": at_once(SparseTokensSource, "pairs", with_keys_of_one_sign, "pruned-overlap"),
    "dimmed instead of hidden": at_once(PruningMask, "_hide", dimmed, "logit-first-order"),
    "straight-through hides nothing": at_once(
        PruningMask, "_hide", lambda self, parameter, kept: parameter, "straight-through-kills"
    ),
    "straight-through hides all": at_once(
        probes, "replace", straight_through_that_hides_all, "straight-through-spares-the-others"
    ),
    "the theory's gradient in place of straight-through": in_what_is_hidden(
        MagnitudePruning, "build", lambda self, experiment: prune(replace(self, gradient="theory"), experiment)
    ),
    "straight-through hides nothing in training": in_what_is_hidden(
        PruningMask, "_hide", lambda self, parameter, kept: parameter
    ),
    "no decay under straight-through": in_what_is_hidden(
        GradientTraining, "advance", hidden_end_as(lambda before, after, decay: after + decay * before)
    ),
    "straight-through is not trained": in_what_is_hidden(GradientTraining, "advance", lambda self, step: None),
    "others' growth not over d": at_once(assumed, "stated_factors", without_the_dimension, "stated-growths-are-apart"),
    "the mask in the update as well": in_any_step(
        GradientTraining, "advance", hidden_end_as(lambda before, after, decay: before)
    ),
    "no decay of hidden neurons": in_any_step(
        GradientTraining, "advance", hidden_end_as(lambda before, after, decay: after + decay * before)
    ),
    "logits unmasked in training": in_any_step(similarity, "_of_value", lambda whole, pruned: whole),
    "the largest pruned": in_who_is_pruned(
        pruning, "all_but_smallest", lambda norms, ratio: choice(-norms, ratio), "stationary"
    ),
    "a mask that stays": in_who_is_pruned(PruningMask, "forward", lambda self, experiment, step: None, "stationary"),
    "one mask for all replicas": in_who_is_pruned(
        pruning, "all_but_smallest", like_the_first_replica, "random-start-direction"
    ),
    "by norm instead of direction": in_who_is_pruned(
        pruning, "energy_along", lambda weight: weight.norm(dim=-1), "random-start-direction"
    ),
    "the largest pruned, to the end": until_settled(
        pruning, "all_but_smallest", lambda norms, ratio: choice(-norms, ratio), "stationary-rebalance"
    ),
    "the largest pruned of three tiers": in_tiers(
        pruning, "all_but_smallest", lambda norms, ratio: choice(-norms, ratio), "rarest-tier-is-first"
    ),
    "logits of three tiers unmasked": in_tiers(similarity, "_of_value", lambda whole, pruned: whole, "tiers-join"),
    "all three tiers alike frequent": in_tiers(
        SparseTokens,
        "build",
        lambda self, draws: build(replace(self, frequencies=(1.0,) * self.features), draws),
        "tiers-stay-apart",
    ),
    "thresholds that do not follow the norms": until_settled(
        ProportionalBiasRule, "forward", lambda self, experiment, step: None, "stationary-amplitude"
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_takes_holds_from_an_expected_claim(name, monkeypatch):
    TRIAL.require_noticed(FAULTS[name], monkeypatch)


@pytest.mark.long
def test_without_a_fault_the_shortened_arms_keep_their_claims():
    """What the faults take from claims is not taken by the shorter training."""
    short = [fault for fault in FAULTS.values() if 1 < fault.steps < STUDY.settling_steps]
    TRIAL.require_not_for_being_short(short)
