"""Faults planted in `learned-filters`' training: each is one line, and each takes the word "holds" from a claim.

Healthy and faulty study differ in nothing but the fault: same seed, same draws.
"""

from dataclasses import replace

import pytest
from torch.nn.functional import softplus

from featscope.studies.learned_filters import LearnedFilters, clusters, training
from featscope.studies.learned_filters.arms import DIGITS, DIGITS_LARGE, PHOTOS, RESIDUAL
from featscope.testing import Fault, Trial

pytestmark = pytest.mark.long  # half a minute of training

TRIAL = Trial(replace(LearnedFilters(), train=400, side=8, steps=100), replicas=4)
start = training._Hidden.__init__


def spread(value):
    return lambda self, width, pixels, _, draws: start(self, width, pixels, value, draws)


POOL = training.ImagePool
FAULTS = {
    "nothing is learned": Fault(training, "softplus", lambda z: 0 * z, "training-makes-clusters", DIGITS),
    "gradient ascent": Fault(training, "softplus", lambda z: -softplus(z), "classes-are-learned", PHOTOS),
    "classes are confused": Fault(training, "softplus", lambda z: softplus(-z), "classes-are-learned", DIGITS),
    "first weights as usual": Fault(training._Hidden, "__init__", spread(3.0), "two-centres-are-opposite", DIGITS),
    "small first weights for usual ones": Fault(
        training._Hidden, "__init__", spread(0.01), "small-start-makes-clusters", DIGITS_LARGE
    ),
    "judged by what was trained on": Fault(
        training, "ImagePool", lambda images, split, side: POOL(images, "train", side), "tests-are-new-images", DIGITS
    ),
    "sixteen filters are picked": Fault(clusters, "PICKED", 16, "picked-clusters-are-in-random-filters", RESIDUAL),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_training_is_noticed(name, monkeypatch):
    TRIAL.require_noticed(FAULTS[name], monkeypatch)
