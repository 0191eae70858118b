"""Planted faults in `prediction-head-images`: each is one line, and each takes the word "holds" from a claim.

Healthy and faulty study differ in nothing but the fault: same seed, same draws.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from featscope.losses import NonContrastive, non_contrastive
from featscope.models import IdentityHead, PredictionHead, ProjectionHead, ResNet18
from featscope.studies.prediction_head_images import PredictionHeadImages, probes
from featscope.testing import Fault, Trial
from featscope.training import EMA, MovingAverage, TorchOptimizer

pytestmark = pytest.mark.long  # half a minute and more of training

pytest.importorskip("kornia", reason="extra 'images' is not installed")

CIFAR10 = Path(__file__).parents[3] / "shared" / "data" / "cifar10"
SHAPES = Trial(
    replace(
        PredictionHeadImages().smallest(),
        side=8,
        projection=ProjectionHead(hidden=16, outputs=8),
        ema=EMA(momentum=0.5),
        batch=16,
        steps=5,
    ),
    replicas=4,
)
PHOTOGRAPHS = PredictionHeadImages(
    data=str(CIFAR10), train=1000, test=1000, side=8, network=ResNet18(4), batch=64, steps=50, probe_every=50
)
LEARNING = Trial(PHOTOGRAPHS, replicas=8)
COLLAPSING = Trial(replace(PHOTOGRAPHS, steps=40), replicas=3)

build, represent, normalized = PredictionHead.build, probes.representations, NonContrastive.normalized


def ascending(self, parameters):
    return torch.optim.Adam(parameters, lr=self.lr, maximize=True)


def before_projection(experiment, images):
    return dict.fromkeys(("encoder", "projection"), represent(experiment, images)["encoder"])


def swapped(experiment, images):
    return dict(zip(("projection", "encoder"), represent(experiment, images).values(), strict=True))


def with_hidden_layer(self, outputs, draws):
    return build(replace(self, kind="mlp"), outputs, draws)


def by_batch(self, f):
    return normalized(replace(self, normalization="batch"), f)


PARTS = {
    "the diagonal is trained": Fault(
        IdentityHead,
        "off_diagonal",
        property(lambda self: self.scaled * self.rate.sqrt()),
        "diagonal-frozen",
        "identity",
    ),
    "targets are differentiated through": Fault(
        non_contrastive, "stop_gradient", lambda target: target, "targets-are-constant", "identity"
    ),
    **{
        f"the target network is never updated: {arm}": Fault(
            MovingAverage, "update", lambda self, module: None, "target-follows", arm
        )
        for arm in ("identity-ema", "none-ema")
    },
    **{
        f"batch normalisation in place of l2: {arm}": Fault(
            NonContrastive, "normalized", by_batch, "lengths-are-not-seen", arm, verdict="fails"
        )
        for arm in ("identity-l2", "none-l2")
    },
}
COLLAPSED = {
    "a head in the arm without": Fault(PredictionHead, "build", with_hidden_layer, "no-head-correlation", "none"),
    "correlations before the projection": Fault(
        probes, "representations", before_projection, "no-head-correlation", "none"
    ),
    "encoder and projection swapped": Fault(probes, "representations", swapped, "milder-in-encoder", "none"),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_fault_in_a_part_is_noticed(name, monkeypatch):
    SHAPES.require_noticed(PARTS[name], monkeypatch)


@pytest.mark.skipif(not CIFAR10.exists(), reason="the copy of CIFAR-10 is not here")
def test_gradient_ascent_is_noticed(monkeypatch):
    fault = Fault(TorchOptimizer, "build", ascending, "training-helps", "identity")
    LEARNING.require_noticed(fault, monkeypatch)


@pytest.mark.skipif(not CIFAR10.exists(), reason="the copy of CIFAR-10 is not here")
@pytest.mark.parametrize("name", COLLAPSED)
def test_a_fault_in_what_collapses_is_noticed(name, monkeypatch):
    COLLAPSING.require_noticed(COLLAPSED[name], monkeypatch)
