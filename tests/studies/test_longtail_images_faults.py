"""Planted faults in `longtail-images`: each is one line, and each takes the word "holds" from a claim that expects it.

The claims of Table 2 are undecided at any size that a test can afford, so no fault can take "holds" from them; what the
comparison rests on can. Healthy and faulty study differ in nothing but the fault: same seed, same draws.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import xarray as xr

from featscope.data import long_tail
from featscope.losses import NTXent
from featscope.models import AlexNet
from featscope.streams import Streams
from featscope.studies.longtail_images import LongTailImages
from featscope.training import MagnitudePruning, Record, TorchOptimizer, train

pytest.importorskip("kornia", reason="extra 'images' is not installed")

CIFAR10 = Path(__file__).parents[3] / "shared" / "data" / "cifar10"
SHAPES = LongTailImages(
    data="shapes", imbalance=10, largest=20, probe=4, test=4, alexnet=AlexNet(4), batch=8, steps=1, probe_every=1
)
PHOTOGRAPHS = LongTailImages(
    data=str(CIFAR10),
    largest=300,
    probe=150,
    test=200,
    alexnet=AlexNet(8),
    optimizer=TorchOptimizer("AdamW", lr=4e-3),
    batch=64,
    steps=100,
    probe_every=100,
)

loss, profile, prune = NTXent.of_views, long_tail.class_sizes, MagnitudePruning.build


@dataclass(frozen=True)
class Fault:
    """``setattr(where, name, line)`` plants it, and ``claim`` on ``arm`` notices."""

    where: Any
    name: str
    line: Any
    claim: str
    arm: str


def ascending(self, parameters):
    return torch.optim.AdamW(parameters, lr=self.lr, maximize=True)


COUNTED = {
    "no long tail": Fault(
        long_tail, "class_sizes", lambda classes, largest, ratio: [largest] * classes, "class-sizes", "plain"
    ),
    "a linear profile": Fault(
        long_tail,
        "class_sizes",
        lambda classes, largest, ratio: [largest - k * largest // (2 * classes) for k in range(classes)],
        "class-sizes",
        "plain",
    ),
    "more images in the control": Fault(
        long_tail, "spread", lambda count, classes: [count // classes + 1] * classes, "as-many-images", "balanced"
    ),
    "never pruned": Fault(
        MagnitudePruning,
        "build",
        lambda self, experiment: prune(replace(self, start=10**9), experiment),
        "pruned-share",
        "pruned",
    ),
    "a fifth too little pruned": Fault(
        MagnitudePruning,
        "build",
        lambda self, experiment: prune(replace(self, ratio=0.8 * self.ratio), experiment),
        "pruned-share",
        "pruned",
    ),
}
LEARNED = {
    "positives from another image": Fault(
        NTXent, "of_views", lambda self, a, p: loss(self, a, p.roll(1, 0)), "training-helps", "plain"
    ),
    "gradient ascent": Fault(TorchOptimizer, "__call__", ascending, "training-helps", "plain"),
}


def measured(study: LongTailImages, replicas: int, arms: tuple[str, ...] = ()) -> dict[str, xr.Dataset]:
    """The study's runs; of the arms left out, those of "plain"."""
    runs = {}
    for arm in study.arms():
        if not arms or arm.name in arms:
            each = []
            for replica in range(replicas):
                experiment, record = arm.config.build(Streams(0, [replica])), Record()
                with torch.no_grad():
                    record.put({name: one for assay in arm.at_start for name, one in assay(experiment).items()})
                train(experiment, arm.config.steps, arm.config.watch, [0], record)
                with torch.no_grad():
                    record.put({name: one for assay in arm.at_end for name, one in assay(experiment).items()})
                each.append(record.to_dataset([replica]))
            runs[arm.name] = xr.concat(each, dim="replica")
    return {arm.name: runs.get(arm.name, runs["plain"]) for arm in study.arms()}


def verdict(study: LongTailImages, runs: dict[str, xr.Dataset], fault: Fault) -> str:
    (claim,) = (c for c in study.claims(runs) if (c.id, c.arm) == (fault.claim, fault.arm))
    assert claim.expected
    return claim.verdict


@pytest.fixture(scope="module")
def shapes():
    return measured(SHAPES, 2)


@pytest.fixture(scope="module")
def photographs():
    return measured(PHOTOGRAPHS, 5, ("plain", "untrained"))


@pytest.mark.parametrize("name", COUNTED)
def test_a_fault_in_what_is_compared_is_noticed(name, shapes, monkeypatch):
    fault = COUNTED[name]
    assert verdict(SHAPES, shapes, fault) == "holds"
    monkeypatch.setattr(fault.where, fault.name, fault.line)
    assert verdict(SHAPES, measured(SHAPES, 2), fault) == "fails"


@pytest.mark.skipif(not CIFAR10.exists(), reason="the copy of CIFAR-10 is not here")
@pytest.mark.parametrize("name", LEARNED)
def test_a_fault_in_training_is_noticed(name, photographs, monkeypatch):
    fault = LEARNED[name]
    assert verdict(PHOTOGRAPHS, photographs, fault) == "holds"
    monkeypatch.setattr(fault.where, fault.name, fault.line)
    faulty = measured(PHOTOGRAPHS, 5, ("plain",)) | {"untrained": photographs["untrained"]}
    assert verdict(PHOTOGRAPHS, faulty, fault) != "holds"
