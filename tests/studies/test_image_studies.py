"""What the studies of images have in common."""

from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
import torch
import xarray as xr

from featscope.axes import Axis, with_options
from featscope.losses import NTXent
from featscope.models import AlexNet, ProjectionHead, ResNet18, WideResNet
from featscope.streams import Streams
from featscope.studies.decoupling_images import DecouplingImages
from featscope.studies.images import against_itself
from featscope.studies.longtail_images import LongTailImages
from featscope.studies.prediction_head_images import PredictionHeadImages
from featscope.studies.sweep import ARM, Sweep
from featscope.testing import measure
from featscope.training import EMA, MagnitudePruning, TorchOptimizer
from featscope.views import CropColor

pytest.importorskip("kornia", reason="extra 'images' is not installed")

STUDIES = [DecouplingImages(), LongTailImages(), replace(PredictionHeadImages(), ema=EMA(0.5))]


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_the_initial_network_is_that_of_an_arm_before_its_first_step(study):
    small = study.smallest()
    experiment = small.arm("untrained").recipe.build(Streams(0, [1]))
    for initial in (small.initial(experiment), small.initial(experiment)):
        for now, before in zip(experiment.learner.parameters(), initial.parameters(), strict=True):
            assert torch.equal(now, before)
    experiment.advance(0)
    assert not torch.equal(experiment.learner.filters, small.initial(experiment).filters)


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_the_smallest_has_the_same_sizes_on_every_device(study):
    small = study.smallest()
    assert None not in [getattr(small, name) for name in small.on_cpu]


OTHERS = {
    "data": "elsewhere",
    "augmentation": CropColor(strength=0.1),
    "projection": ProjectionHead(5),
    "optimizer": TorchOptimizer("SGD", lr=0.1),
    "loss": NTXent(0.1),
    "pruning": MagnitudePruning(0.1, "entry", "straight-through"),
    "ema": EMA(0.1),
    "imbalance": 3.0,
    "alexnet": AlexNet(3),
    "wide_resnet": WideResNet(10),
    "resnet18": ResNet18(3),
}


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_every_option_reaches_an_arm_and_sizes_go_by_their_names(study):
    """A network where it is the one that is trained."""
    before = [arm.recipe for arm in study.arms()]
    for name in (field.name for field in fields(study) if field.name != "network"):
        base = replace(study, network=name.replace("_", "-")) if name in ("wide_resnet", "resnet18") else study
        changed = replace(base, **{name: OTHERS.get(name, 17)})
        assert [arm.recipe for arm in changed.arms()] not in ([arm.recipe for arm in base.arms()], before), name
        if name not in OTHERS:
            for arm in changed.arms()[:-1]:  # of which the last is not trained
                at = next(part for part in (arm.recipe, arm.recipe.data, arm.recipe.objective) if hasattr(part, name))
                assert getattr(at, name) == 17, (arm.name, name)


@dataclass(frozen=True)
class OneLabel(DecouplingImages):
    """Two arms may have one label, as where one is derived from the other by `replace`."""

    labels: tuple[str, str, str] = ("plain", "plain", "both")

    def arms(self):
        labels = dict(zip(("none", "crop", "crop-colour"), self.labels, strict=True))
        return [replace(arm, label=labels.get(arm.name, arm.label)) for arm in super().arms()]


@pytest.mark.parametrize(
    ("labels", "called"),
    [
        (("plain", "crops", "both"), ["plain", "crops", "both"]),
        (("plain", "plain", "both"), ["none", "crop", "both"]),
        (("plain", "plain", "none"), ["none", "crop", "crop-colour"]),  # the third is labelled as the first is named
    ],
)
def test_arms_of_one_label_are_called_by_their_names(labels, called):
    runs = {name: xr.Dataset({"which": index}) for index, name in enumerate(("none", "crop", "crop-colour"))}
    found = OneLabel(data="shapes", labels=labels).labelled(runs)
    assert [(label, int(run.which)) for label, run in found.items()] == [(called[i], i) for i in range(3)]


def test_only_what_no_chance_enters_is_exact_on_the_untrained_network():
    itself, others = xr.DataArray(np.zeros(4), dims="replica"), xr.DataArray(np.arange(4) / 100, dims="replica")
    assert against_itself(itself, "untrained").law == "exact"
    assert against_itself(itself - others, "untrained").law is None
    assert against_itself(itself, "crop").law is None


@pytest.mark.parametrize(
    ("study", "option"),
    [
        (STUDIES[0], "loss.temperature"),
        (STUDIES[0], "optimizer.lr"),
        (STUDIES[1], "optimizer.weight_decay"),
        (STUDIES[1], "augmentation.strength"),
        (STUDIES[2], "augmentation.crop.smallest"),
    ],
    ids=lambda one: one if isinstance(one, str) else one.name,
)
def test_an_option_can_be_swept(study, option):
    """A point is a program of its own: without a replica axis an experiment is one replica, which is never stacked."""
    small, values = replace(study.smallest(), steps=1), (0.3, 0.6)
    sweep = Sweep(small, (Axis(option, values),))
    swept = measure(sweep, replace(sweep.arm(ARM), at_end=()), 1)
    for value in values:
        alone = with_options(small, {option: value})
        run = measure(alone, replace(next(iter(alone.arms())), at_end=()), 1)
        at = swept.sel({option.rpartition(".")[2]: value})
        np.testing.assert_array_equal(at["loss"].transpose("replica", "step"), run["loss"])
    assert not np.array_equal(*swept["loss"].transpose(..., "replica", "step").values)
