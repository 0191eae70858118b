"""Planted faults in `prediction-head`: each takes the word "holds" from a claim that expects it.

Healthy and faulty study differ in nothing but the fault: same seed, same draws. False alarms: none by chance, seed 0 is
fixed.
"""

from dataclasses import replace

import pytest
import torch
from small_prediction_head import STUDY, arms, train, trained, verdict

from featscope.losses import non_contrastive
from featscope.models import IdentityHead
from featscope.studies.prediction_head import hand_set, judge, measures, phases
from featscope.training import objectives
from featscope.training.population import Population

velocity, products, init = Population.velocity, Population.noise_products, IdentityHead.__init__


def without_the_three(self, packed, neurons):
    """(A.2) as printed: no factor 3 in what overlaps do."""
    moved = velocity(self, packed, neurons)
    return torch.cat([moved[: 2 * neurons] / 3, moved[2 * neurons :]])


def all_noise_patches(self, packed, neurons):
    """C2 as printed: all noise patches, not those of a view."""
    return velocity(replace(self, noise_patches=2 * self.noise_patches), packed, neurons)


def only_fourth_moments(self, r):
    """Noise products without the cube of the inner product."""
    return products(self, r) - self.noise * 6 * r**3


def rate_itself(self, off_diagonal, rate):
    """The head's step is multiplied with the square of its rate."""
    init(self, off_diagonal, rate**2)


def goes_on(keys):
    """Targets are no constants."""
    return keys


def overlapping(draws, count, patches):
    """Views that are the whole sample and nothing else: all noise is shared."""
    return torch.ones(draws.replicas, count, patches, dtype=torch.bool) & (torch.arange(patches) % 4 > 0)


def no_stop(self, packed, neurons):
    """Targets are differentiated."""
    return velocity(replace(self, stop_gradient=False), packed, neurons)


def frozen_head(self, packed, neurons):
    """The head never moves."""
    return velocity(replace(self, rate=0 * self.rate), packed, neurons)


def slow_first(y, fast):
    """Fast and slow are exchanged."""
    return roles(y, 1 - fast)


roles = phases.roles
FAULTS = [
    (Population, "velocity", without_the_three, "ode-gradient-exact", "head"),
    (Population, "velocity", all_noise_patches, "ode-gradient-exact", "head"),
    (Population, "noise_products", only_fourth_moments, "ode-gradient-exact", "head"),
    (Population, "velocity", all_noise_patches, "sgd-follows-ode", "batches-flow"),
    (IdentityHead, "__init__", rate_itself, "sgd-follows-ode", "batches"),
    (non_contrastive, "stop_gradient", goes_on, "sgd-follows-ode", "batches"),
    (objectives, "patch_split", overlapping, "sgd-follows-ode", "batches"),
    (Population, "velocity", no_stop, "acceleration", "head"),
    (Population, "velocity", frozen_head, "acceleration", "head"),
    (measures, "roles", slow_first, "head-has-the-sign", "head"),
    (hand_set, "DECAY", 0.0, "symmetric-head-baseline", "hand-set-gap"),
]
ARM_OF = {"batches-flow": "batches"}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{getattr(fault[2], '__name__', fault[1])}-{fault[3]}")
def test_a_fault_is_noticed(fault, monkeypatch: pytest.MonkeyPatch):
    where, name, line, claim, arm = fault
    shown_on = ARM_OF.get(arm, arm)
    assert verdict(list(judge.claims(STUDY, trained())), claim, shown_on) == "holds"
    monkeypatch.setattr(where, name, line)
    faulty = trained({arm: train(arms()[arm])})
    assert verdict(list(judge.claims(STUDY, faulty)), claim, shown_on) != "holds"
