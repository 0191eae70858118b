"""Planted faults in `prediction-head-images`: each is one line, and each takes the word "holds" from a claim.

Healthy and faulty study differ in nothing but the fault: same seed, same draws.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import xarray as xr

from featscope.losses import non_contrastive
from featscope.models import IdentityHead, PredictionHead, ProjectionHead, ResNet18
from featscope.streams import Streams
from featscope.studies.prediction_head_images import PredictionHeadImages, measures
from featscope.training import EMA, MovingAverage, Record, TorchOptimizer, train

pytest.importorskip("kornia", reason="extra 'images' is not installed")

CIFAR10 = Path(__file__).parents[3] / "shared" / "data" / "cifar10"
SHAPES = PredictionHeadImages(
    data="shapes",
    train=64,
    test=32,
    side=8,
    network=ResNet18(width=2),
    projection=ProjectionHead(hidden=16, outputs=8),
    ema=EMA(momentum=0.5),
    batch=16,
    steps=5,
)
PHOTOGRAPHS = PredictionHeadImages(
    data=str(CIFAR10), train=1500, test=1500, network=ResNet18(width=4), batch=64, steps=50
)

REPLICAS = 4
build, represent = PredictionHead.build, measures._representations


@dataclass(frozen=True)
class Fault:
    """``setattr(where, name, line)`` plants it, and ``claim`` on ``arm`` notices."""

    where: Any
    name: str
    line: Any
    claim: str
    arm: str


def ascending(self, parameters):
    return torch.optim.Adam(parameters, lr=self.lr, maximize=True)


def before_projection(experiment, images):
    return dict.fromkeys(("encoder", "projection"), represent(experiment, images)["encoder"])


def swapped(experiment, images):
    return dict(zip(("projection", "encoder"), represent(experiment, images).values(), strict=True))


def with_hidden_layer(self, outputs, draws):
    return build(replace(self, kind="mlp"), outputs, draws)


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
    "the target network is never updated": Fault(
        MovingAverage, "update", lambda self, module: None, "target-follows", "identity-ema"
    ),
}
LEARNED = {
    "gradient ascent": Fault(TorchOptimizer, "__call__", ascending, "training-helps", "identity"),
    "a head in the arm without": Fault(PredictionHead, "build", with_hidden_layer, "no-head-correlation", "none"),
    "correlations before the projection": Fault(
        measures, "_representations", before_projection, "no-head-correlation", "none"
    ),
    "encoder and projection swapped": Fault(measures, "_representations", swapped, "milder-in-encoder", "none"),
}


def measured(study: PredictionHeadImages, arms: tuple[str, ...]) -> dict[str, xr.Dataset]:
    """The study's runs of ``arms``."""
    runs = {}
    for arm in study.arms():
        if arm.name in arms:
            each = []
            for replica in range(REPLICAS):
                experiment, record = arm.config.build(Streams(0, [replica])), Record()
                train(experiment, arm.config.steps, arm.config.watch, [0], record)
                with torch.no_grad():
                    record.put({name: one for assay in arm.at_end for name, one in assay(experiment).items()})
                each.append(record.to_dataset([replica]))
            runs[arm.name] = xr.concat(each, dim="replica")
    return runs


def verdict(study: PredictionHeadImages, runs: dict[str, xr.Dataset], fault: Fault) -> str:
    (claim,) = (c for c in study.claims(runs) if (c.id, c.arm) == (fault.claim, fault.arm))
    assert claim.expected
    return claim.verdict


@pytest.fixture(scope="module")
def shapes():
    return measured(SHAPES, tuple(arm.name for arm in SHAPES.arms()))


@pytest.fixture(scope="module")
def photographs(shapes):
    """Arms that no fault is about are those of the shapes."""
    return shapes | measured(PHOTOGRAPHS, ("identity", "none", "untrained"))


@pytest.mark.parametrize("name", PARTS)
def test_a_fault_in_a_part_is_noticed(name, shapes, monkeypatch):
    fault = PARTS[name]
    assert verdict(SHAPES, shapes, fault) == "holds"
    monkeypatch.setattr(fault.where, fault.name, fault.line)
    assert verdict(SHAPES, shapes | measured(SHAPES, (fault.arm,)), fault) != "holds"


@pytest.mark.skipif(not CIFAR10.exists(), reason="the copy of CIFAR-10 is not here")
@pytest.mark.parametrize("name", LEARNED)
def test_a_fault_in_what_is_learned_is_noticed(name, photographs, monkeypatch):
    fault = LEARNED[name]
    assert verdict(PHOTOGRAPHS, photographs, fault) == "holds"
    monkeypatch.setattr(fault.where, fault.name, fault.line)
    assert verdict(PHOTOGRAPHS, photographs | measured(PHOTOGRAPHS, (fault.arm,)), fault) != "holds"
