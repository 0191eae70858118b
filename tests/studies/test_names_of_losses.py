"""The label of the loss on another batch follows the data: what is drawn over again is not called fresh."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from featscope.streams import Streams
from featscope.studies.attention_circuits import AttentionCircuits
from featscope.studies.attention_circuits.arms import THREE
from featscope.studies.decoupling import Decoupling
from featscope.studies.fixed_features import FixedFeatures
from featscope.studies.fixed_features.arms import NETWORK
from featscope.studies.fixed_features.mixtures import FIRST
from featscope.studies.fourier_circuits import FourierCircuits
from featscope.studies.fourier_circuits.arms import TRAINED
from featscope.studies.grokking import Grokking
from featscope.studies.nuclear_norm import NuclearNormStudy
from featscope.studies.nuclear_norm.arms import FREE_ERM
from swept import Noisy, Pull, Source

FRESH, KNOWN = "loss on fresh data", "loss on what is trained on"


@pytest.mark.parametrize(
    ("study", "arm", "label"),
    [
        (Grokking(), "k=2", KNOWN),
        (AttentionCircuits(), THREE, KNOWN),
        (FourierCircuits(), TRAINED, KNOWN),
        (NuclearNormStudy(), FREE_ERM, KNOWN),
        (FixedFeatures(), NETWORK, KNOWN),
        (FixedFeatures(), FIRST, FRESH),
        (Decoupling(), "augmented", FRESH),
    ],
    ids=lambda one: one if isinstance(one, str) else one.name,
)
def test_a_loss_is_called_fresh_where_data_never_end(study, arm, label):
    experiment = study.smallest().arm(arm).recipe.build(Streams(0, [0]))
    with torch.no_grad():
        assert experiment.look(0)["loss"].about == label


class Ending(Source):
    """Samples that are of a set that ends."""

    finite = True


@dataclass(frozen=True)
class Images(Noisy):
    """Build what says so."""

    def build(self, draws):
        return Ending(self, draws.replicas)


@dataclass(frozen=True)
class OptionsThatEnd(Noisy):
    """Say so where nobody looks."""

    finite: ClassVar[bool] = True


@pytest.mark.parametrize(("data", "label"), [(Images(), KNOWN), (OptionsThatEnd(), FRESH), (Noisy(), FRESH)])
def test_what_data_build_says_whether_it_ends(data, label):
    """As docs/concepts.md has it."""
    experiment = Pull(data=data).recipe.build(Streams(0, [0]))
    with torch.no_grad():
        assert experiment.look(0)["loss"].about == label
