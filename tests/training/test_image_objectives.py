"""Losses of one step on images."""

import re
from copy import deepcopy

import pytest
import torch
from torch import nn

from featscope.data import Images, ImageSource
from featscope.data.images import as_float
from featscope.losses import NonContrastive, NTXent
from featscope.models import AlexNet, PredictionHead, ProjectionHead
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.training import EMA, SGD, MovingAverage
from featscope.training.image_objectives import (
    ClassifyImages,
    ClassifyViews,
    ContrastImages,
    ImageTraining,
    InBatchContrastive,
    PredictImages,
    PredictViews,
)
from featscope.training.rules import Cooling
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


def test_doubts_of_networks_are_on_the_same_views(source):
    objective = InBatchContrastive(Crop(), nn.Identity(), NTXent(), batch=3)
    doubts, labels = objective.doubts((Mean(), Mean()), source.test_set, draws())
    again = draws()
    chosen = again.choice(4, 3)[0]
    anchor, positive = Crop()(source.test_set.pixels[chosen][None].float() / 255, again)
    torch.testing.assert_close(doubts[0], NTXent().doubt(Mean()(anchor[0]), Mean()(positive[0])))
    assert torch.equal(doubts[0], doubts[1])
    assert torch.equal(labels, source.test_set.labels[chosen].repeat(2))


def test_supervised_classifies_both_views(source):
    head = nn.Linear(3, 8)
    loss = ClassifyViews(Crop(), head, batch=8)(Mean(), source, draws())
    again = draws()
    sample = source.sample(again, 8)
    losses = [nn.functional.cross_entropy(head(Mean()(v[0])), sample.labels[0]) for v in Crop()(sample.x, again)]
    torch.testing.assert_close(loss, torch.stack(losses).mean()[None])


def test_heads_are_trained_with_the_learner(source):
    """By both views: no side of the comparison is a constant."""
    torch.manual_seed(0)
    objective = InBatchContrastive(Crop(), nn.Linear(3, 2), NTXent(), batch=4)
    objective(Mean(), source, draws()).sum().backward()
    again = draws()
    views = Crop()(source.sample(again, 4).x, again)
    loss = NTXent()(*(objective.head(Mean()(view[0])) for view in views))
    torch.testing.assert_close(objective.head.weight.grad, torch.autograd.grad(loss, objective.head.weight)[0])
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


# --- options ----------------------------------------------------------------------------------------------------------


STREAMS = Streams(0, [3])
PROJECTION = ProjectionHead(hidden=6, outputs=4)


@pytest.fixture
def learner(source):
    return AlexNet(width=2).build(source, STREAMS.at("learner"))


def same(one: nn.Module, other: nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_contrast_has_a_projection_of_its_own(source, learner):
    made = ContrastImages(Crop(), PROJECTION, NTXent(0.2), batch=6).build(source, learner, STREAMS)
    assert same(made.head, PROJECTION.build(learner.features, STREAMS.at("head")))
    assert (made.view, made.loss, made.batch) == (Crop(), NTXent(0.2), 6)


def test_classification_has_a_linear_head_with_an_output_a_class(source, learner):
    made = ClassifyImages(Crop(), batch=6).build(source, learner, STREAMS)
    assert made.head.weight.shape == (len(source.class_names), learner.features)
    again = ClassifyImages(Crop(), batch=6).build(source, learner, STREAMS)
    other = ClassifyImages(Crop(), batch=6).build(source, learner, Streams(0, [4]))
    assert same(made.head, again.head)
    assert not same(made.head, other.head)


@pytest.mark.parametrize("target", [None, EMA(0.5)])
def test_prediction_has_a_projection_a_head_and_a_target_that_begins_as_the_network(source, learner, target):
    head = PredictionHead("linear")
    made = PredictImages(Crop(), PROJECTION, head, NonContrastive(), 6, target).build(source, learner, STREAMS)
    assert same(made.projection, PROJECTION.build(learner.features, STREAMS.at("projection")))
    assert same(made.head, head.build(4, STREAMS.at("head")))
    if target is None:
        assert made.target is None
    else:
        assert made.target.momentum == 0.5
        assert same(made.target.average, made.online(learner))


def recipe(objective, **rules) -> ImageTraining:
    return ImageTraining(Images("shapes", 32, 4), AlexNet(width=2), objective, SGD(0.1, 0.0), rules)


@pytest.mark.parametrize("objective", [ContrastImages(Crop(), PROJECTION, batch=6), ClassifyImages(Crop(), batch=6)])
def test_images_are_trained_one_replica_at_a_time_heads_included(objective):
    experiment = recipe(objective).build(STREAMS)
    before = [parameter.detach().clone() for parameter in experiment.parameters()]
    experiment.advance(0)
    assert not experiment.__class__.gives_up
    assert recipe(objective).replica_axis is False
    moved = [not torch.equal(a, b) for a, b in zip(before, experiment.parameters(), strict=True)]
    assert sum(moved) >= len(moved) - 2  # but for a bias that a normalisation takes away again
    named = zip(experiment.named_parameters(), moved, strict=True)
    heads = [has for (name, _), has in named if name.startswith("objective") and name.endswith("weight")]
    assert heads
    assert all(heads)
    assert {name.split(".")[0] for name in experiment.kept()} == {"learner"}


def test_a_loss_on_images_that_are_trained_on_is_not_called_fresh(monkeypatch):
    experiment, drawn, sample = recipe(ClassifyImages(Crop(), batch=6)).build(STREAMS), [], ImageSource.sample
    monkeypatch.setattr(ImageSource, "sample", lambda *args: drawn.append(sample(*args)) or drawn[-1])
    with torch.no_grad():
        about = experiment.look(0)["loss"].about
    known = {image.numpy().tobytes() for image in as_float(experiment.source.train_set.pixels)}
    assert all(image.numpy().tobytes() in known for image in drawn[0].x[0])
    assert about == "loss on what is trained on"


def test_the_learner_can_be_had_as_it_was_before_the_first_step():
    made = recipe(ClassifyImages(Crop(), batch=6))
    experiment = made.build(STREAMS)
    before = deepcopy(experiment.learner)
    experiment.advance(0)
    assert same(made.initial(experiment), before)
    assert not same(experiment.learner, before)


def to_predict(target: EMA | None) -> PredictImages:
    return PredictImages(Crop(), PROJECTION, PredictionHead("linear"), NonContrastive(), 6, target)


def test_a_target_follows_as_its_rule_says_and_is_not_trained():
    experiment = recipe(to_predict(EMA(0.75)), target=EMA(0.75)).build(STREAMS)
    target, start = experiment.objective.target, deepcopy(experiment.objective.target)
    experiment.rules.clear()
    experiment.advance(0)
    assert same(target, start)
    EMA(0.75).build(experiment)(experiment, 1)
    online = experiment.objective.online(experiment.learner)
    for kept, began, now in zip(target.parameters(), start.parameters(), online.parameters(), strict=True):
        torch.testing.assert_close(kept, 0.75 * began + 0.25 * now.detach())


class Own:
    """A rule of another package, which may do what `EMA` does."""

    def build(self, experiment):
        return nn.Identity()


class Looking(Own):
    looks_only = True


def test_a_target_that_no_rule_lets_follow_is_refused():
    cooling = Cooling(1000, 0.1)
    for rules in ({}, {"ema": None}, {"cooling": cooling}, {"looking": Looking()}):
        said = (
            f"rules = {[name for name in rules if rules[name]]} are out of range: allowed are rules of which one is "
            "EMA(0.75), as the target of the objective PredictViews is a MovingAverage (momentum 0.75), which stays as "
            "it began without. Give rules={'ema': EMA(0.75)}, or the objective no target."
        )
        with pytest.raises(ConfigError, match=re.escape(said)):
            recipe(to_predict(EMA(0.75)), **rules).build(STREAMS)
        recipe(to_predict(None), **{name: rule for name, rule in rules.items() if rule != cooling}).build(STREAMS)
    recipe(to_predict(EMA(0.75)), own=Own()).build(STREAMS)


def test_a_rule_with_another_momentum_than_its_target_is_refused():
    def training(target: EMA | None, rule: EMA) -> ImageTraining:
        return recipe(to_predict(target), target=rule)

    said = r"EMA\.momentum = 0\.5 is out of range: allowed is that of the objective's target, 0\.75\. Change both\."
    with pytest.raises(ConfigError, match=said):
        training(EMA(0.75), EMA(0.5)).build(STREAMS)
    said = r"EMA\.momentum = 0\.5 is out of range: allowed is an objective whose target is a moving average\. Give"
    with pytest.raises(ConfigError, match=said):
        training(None, EMA(0.5)).build(STREAMS)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ContrastImages(Crop(), batch=1),
        lambda: ClassifyImages(Crop(), batch=1),
        lambda: PredictImages(Crop(), PROJECTION, PredictionHead(), NonContrastive(), batch=1),
    ],
)
def test_batches_of_one_image_are_refused(wrong):
    with pytest.raises(ConfigError, match=r"batch = 1 is out of range: allowed is >= 2"):
        wrong()
