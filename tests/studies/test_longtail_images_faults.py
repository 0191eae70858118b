"""Planted faults in `longtail-images`: each is one line, and each takes the word "holds" from a claim that expects it.

The claims of Table 2 are undecided at any size that a test can afford, so no fault can take "holds" from them; what the
comparison rests on can. Healthy and faulty study differ in nothing but the fault: same seed, same draws.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from featscope.data import long_tail
from featscope.losses import NTXent
from featscope.models import AlexNet
from featscope.studies.longtail_images import LongTailImages
from featscope.testing import Fault, Trial
from featscope.training import MagnitudePruning, TorchOptimizer
from featscope.training.pruning import PruningMask

pytestmark = pytest.mark.long  # half a minute and more of training

pytest.importorskip("kornia", reason="extra 'images' is not installed")

CIFAR10 = Path(__file__).parents[3] / "shared" / "data" / "cifar10"
SHAPES = Trial(replace(LongTailImages().smallest(), steps=1), replicas=2)
PHOTOGRAPHS = LongTailImages(
    data=str(CIFAR10),
    largest=300,
    probe=150,
    test=200,
    side=16,
    alexnet=AlexNet(8),
    optimizer=TorchOptimizer("AdamW", lr=4e-3),
    batch=64,
    steps=40,
    probe_every=40,
)
TRAINED = Trial(PHOTOGRAPHS, replicas=4)

loss, prune = NTXent.of_views, MagnitudePruning.build


def ascending(self, parameters):
    return torch.optim.AdamW(parameters, lr=self.lr, maximize=True)


def counted(where, name, line, claim, arm) -> Fault:
    """One that makes its claim fail."""
    return Fault(where, name, line, claim, arm, verdict="fails")


COUNTED = {
    "no long tail": counted(
        long_tail, "class_sizes", lambda classes, largest, ratio: [largest] * classes, "class-sizes", "plain"
    ),
    "a linear profile": counted(
        long_tail,
        "class_sizes",
        lambda classes, largest, ratio: [largest - k * largest // (2 * classes) for k in range(classes)],
        "class-sizes",
        "plain",
    ),
    "more images in the control": counted(
        long_tail, "spread", lambda count, classes: [count // classes + 1] * classes, "as-many-images", "balanced"
    ),
    "a tail in the control": counted(
        long_tail,
        "spread",
        lambda count, classes: [count - classes + 1] + [1] * (classes - 1),
        "the-control-is-even",
        "balanced",
    ),
    "a tail in the control that is pruned": counted(
        long_tail,
        "spread",
        lambda count, classes: [count - classes + 1] + [1] * (classes - 1),
        "the-control-is-even",
        "balanced-pruned",
    ),
    **{
        f"a mask that nothing looks at: {arm}": counted(
            PruningMask, "seen", lambda self, learner: learner, "pruning-changes-training", arm
        )
        for arm in ("pruned", "balanced-pruned")
    },
    "a mask for good": counted(
        PruningMask,
        "choose_if_due",
        lambda self, module, step: self.choose(module, step) if step == self.start else None,
        "masks-are-of-the-weights-as-they-are",
        "pruned",
    ),
    "never pruned": counted(
        MagnitudePruning,
        "build",
        lambda self, experiment: prune(replace(self, start=10**9), experiment),
        "pruned-share",
        "pruned",
    ),
    "a fifth too little pruned": counted(
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
    "gradient ascent": Fault(TorchOptimizer, "build", ascending, "training-helps", "plain"),
}


@pytest.mark.parametrize("name", COUNTED)
def test_a_fault_in_what_is_compared_is_noticed(name, monkeypatch):
    SHAPES.require_noticed(COUNTED[name], monkeypatch)


@pytest.mark.skipif(not CIFAR10.exists(), reason="the copy of CIFAR-10 is not here")
@pytest.mark.parametrize("name", LEARNED)
def test_a_fault_in_training_is_noticed(name, monkeypatch):
    TRAINED.require_noticed(LEARNED[name], monkeypatch)
