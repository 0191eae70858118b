"""Losses of one step on images."""

import pytest
import torch
from torch import nn

from featscope.data import Images
from featscope.losses import NTXent
from featscope.streams import Streams
from featscope.training.image_objectives import ClassifyViews, InBatchContrastive
from featscope.views import Crop


@pytest.fixture
def source():
    return Images("shapes", 32, 4).build(Streams(0, [0]).at("data"))


def draws(step: int = 0):
    return Streams(0, [0]).at("batch", step)


class Mean(nn.Module):
    """The image's mean colour."""

    def forward(self, x):
        return x.mean((-2, -1))


def test_contrastive_compares_the_two_views(source):
    objective = InBatchContrastive(Crop(), nn.Identity(), NTXent(), batch=8)
    loss = objective(Mean(), source, draws())
    again = draws()
    anchor, positive = Crop()(source.sample(again, 8).x, again)
    torch.testing.assert_close(loss, NTXent()(Mean()(anchor[0]), Mean()(positive[0]))[None])


def test_supervised_classifies_both_views(source):
    head = nn.Linear(3, 8)
    loss = ClassifyViews(Crop(), head, batch=8)(Mean(), source, draws())
    again = draws()
    sample = source.sample(again, 8)
    losses = [nn.functional.cross_entropy(head(Mean()(v[0])), sample.labels[0]) for v in Crop()(sample.x, again)]
    torch.testing.assert_close(loss, torch.stack(losses).mean()[None])


def test_heads_are_trained_with_the_learner(source):
    objective = InBatchContrastive(Crop(), nn.Linear(3, 2), NTXent(), batch=4)
    objective(Mean(), source, draws()).sum().backward()
    assert objective.head.weight.grad.abs().max() > 0
