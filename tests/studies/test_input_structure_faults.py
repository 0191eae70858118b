"""Faults planted in `input-structure`'s training: each is one line, and each takes the word "holds" from a claim.

Healthy and faulty study differ in nothing but the fault: same seed, same draws.
"""

from dataclasses import replace

import pytest
import torch

from featscope.studies.input_structure import InputStructure, inputs
from featscope.studies.input_structure.arms import COVARIANCE, FOREIGN, WHITE
from featscope.studies.input_structure.inputs import Injection
from featscope.studies.input_structure.mixing import Family, MixedInputs, pick
from featscope.studies.input_structure.networks import balance
from featscope.testing import Fault, Trial

pytestmark = pytest.mark.long  # half a minute and more of training

TRIAL = Trial(replace(InputStructure(), train=600, test=200, steps=400), replicas=4)
build, named = Injection.build, MixedInputs._named


def of_kind(kind):
    return lambda self, draws: build(replace(self, kind=kind), draws)


def other_labels(*places):
    def wrong(self):
        return [one.roll(1, 1) if place in places else one for place, one in enumerate(named(self))]

    return wrong


def sure_only(self, network, inputs, uniform):
    return balance(network(pick(inputs.injected, uniform)).softmax(-1))[1].sum()


FAULTS = {
    "more digits for Gaussians": Fault(Injection, "build", of_kind("same"), "injected-part-is-worse", WHITE),
    "training inputs have each other's labels": Fault(
        MixedInputs, "_named", other_labels(0, 1), "injected-part-is-learned-at-all", COVARIANCE
    ),
    "real inputs have each other's labels where they are judged": Fault(
        MixedInputs, "_named", other_labels(2), "injected-part-is-worse", COVARIANCE
    ),
    "Gaussians are not coloured": Fault(
        inputs, "_coloured", lambda noise, images: noise, "covariance-is-structure", COVARIANCE
    ),
    "Gaussians for photographs": Fault(
        Injection, "build", of_kind("white"), "foreign-images-help-more-than-noise", FOREIGN
    ),
    "no regulariser": Fault(Family, "pull", lambda self, *_: torch.zeros(()), "regulariser-sharpens-answers", WHITE),
    "the regulariser asks for sure answers only": Fault(
        Family, "pull", sure_only, "regulariser-balances-labels", WHITE
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_training_is_noticed(name, monkeypatch):
    TRIAL.require_noticed(FAULTS[name], monkeypatch)
