"""Losses of one step on images."""

import pytest
import torch
from torch import nn

from featscope.data import Images
from featscope.losses import NonContrastive, NTXent
from featscope.streams import Streams
from featscope.training import MovingAverage
from featscope.training.image_objectives import ClassifyViews, InBatchContrastive, PredictViews
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


def predicting(head: nn.Module, target: MovingAverage | None = None, **loss) -> PredictViews:
    torch.manual_seed(0)
    return PredictViews(Crop(), nn.Linear(3, 4), head, NonContrastive(**loss), batch=8, target=target)


def test_each_view_predicts_the_other_and_targets_pass_no_head(source):
    objective = predicting(nn.Linear(4, 4))
    loss = objective(Mean(), source, draws())
    again = draws()
    first, second = (objective.projection(Mean()(view[0])) for view in Crop()(source.sample(again, 8).x, again))
    compare = NonContrastive()
    both = compare(objective.head(first), second) + compare(objective.head(second), first)
    torch.testing.assert_close(loss, both[None] / 2)


def test_targets_are_constants_unless_asked(source):
    """Without a head, stopping the gradient of one side halves the gradient of a symmetric product."""
    stopped, through = (predicting(nn.Identity(), normalization="none", stop_gradient=s) for s in (True, False))
    for objective in (stopped, through):
        objective(Mean(), source, draws()).sum().backward()
    torch.testing.assert_close(2 * stopped.projection.weight.grad, through.projection.weight.grad)


def test_targets_come_from_the_moving_average(source):
    network = nn.Sequential(Mean(), nn.Linear(3, 4))
    objective = predicting(nn.Identity(), MovingAverage(network))
    loss = objective(Mean(), source, draws())
    again = draws()
    views = [view[0] for view in Crop()(source.sample(again, 8).x, again)]
    (first, second), (of_first, of_second) = ([f(v) for v in views] for f in (objective.online(Mean()), network))
    both = NonContrastive()(first, of_second) + NonContrastive()(second, of_first)
    torch.testing.assert_close(loss, both[None] / 2)
    loss.sum().backward()
    assert all(p.grad is None for p in objective.target.parameters())
