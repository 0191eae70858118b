"""The label of the loss on another batch follows the data: what is drawn over again is not called fresh."""

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
