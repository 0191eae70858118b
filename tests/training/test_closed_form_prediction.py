"""The closed form of Algorithm 1's gradient against autograd, and who is served by which."""

import operator
from dataclasses import dataclass, replace
from itertools import product

import pytest
import torch

from featscope.data import PatchFeatures
from featscope.losses import NonContrastive
from featscope.models import CubicPatches, IdentityInit, Online
from featscope.models.prediction_head import IdentityHead
from featscope.streams import Streams
from featscope.training import SGD, PredictOtherView, Training
from featscope.training import gradient as engine
from featscope.training.closed_form_prediction import DERIVED_FROM, compared

DATA = PatchFeatures(input_dim=9, patches=6, feature_patches=2, strong=2.0, weak=1.0)
RECIPE = Training(DATA, Online(CubicPatches(3), IdentityInit(0.3)), PredictOtherView(samples=21), SGD())


def experiment_of(recipe=RECIPE):
    made = recipe.build(Streams(0, (4, 1, 6)))
    if isinstance(made.learner.head, IdentityHead):
        with torch.no_grad():
            made.learner.head.scaled.copy_(torch.randn(3, 3, 3, generator=torch.Generator().manual_seed(0)) / 3)
    return made


def both(experiment):
    """Loss and gradients in closed form, and by autograd on the same draws; None for what has no closed form."""
    found = []
    for form in (engine.gradient, None):
        draws = experiment.streams.at("batch", 4)
        for one in experiment.learner.parameters():
            one.grad = None
        if form:
            loss = form(experiment.seen(), experiment.source, experiment.objective, draws)
        else:
            loss = experiment.loss(draws)
            loss.sum().backward()
        gradients = [one.grad for one in experiment.learner.parameters()]
        found.append(None if loss is None else (loss.detach(), gradients, draws.normal(3)))
    return found


LOSSES = [
    NonContrastive(normalization, scale, eps=eps)
    for (normalization, eps), scale in product(
        [("batch", 0.0), ("batch", 0.5), ("l2", 0.0), ("none", 0.0)], ["correlation", "squared"]
    )
]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("head", [IdentityInit(0.3), None])
@pytest.mark.parametrize("both_features", [False, True])
def test_it_is_the_gradient_of_autograd(loss, head, both_features):
    data = replace(DATA, both=both_features, feature_patches=1 if both_features else 2)
    learner, objective = replace(RECIPE.learner, head=head), replace(RECIPE.objective, loss=loss)
    found, expected = both(experiment_of(replace(RECIPE, data=data, learner=learner, objective=objective)))
    assert found is not None
    torch.testing.assert_close(found[0], expected[0], rtol=1e-5, atol=1e-5 * float(expected[0].abs().max()))
    for ours, theirs in zip(found[1], expected[1], strict=True):
        assert theirs.norm() > 0
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=2e-4 * float(theirs.abs().max()))
    assert torch.equal(found[2], expected[2])  # and the stream goes on at the same place


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_what_predictions_are_pulled_by_is_the_gradient_in_float64(loss):
    draw = torch.Generator().manual_seed(1)
    prediction, target = torch.randn(2, 4, 17, 5, generator=draw, dtype=torch.float64)
    prediction.requires_grad_()
    expected = loss(prediction, target)
    (slope,) = torch.autograd.grad(expected.sum(), prediction)
    found, pull = compared(loss, prediction.detach(), target)
    torch.testing.assert_close(found, expected.detach())
    torch.testing.assert_close(pull, slope)


@pytest.mark.parametrize("scale", ["correlation", "squared"])
def test_small_predictions_and_those_of_nothing_are_pulled_as_by_autograd(scale):
    loss, draw = NonContrastive("l2", scale), torch.Generator().manual_seed(2)
    prediction, target = torch.randn(2, 1, 6, 5, generator=draw, dtype=torch.float64)
    prediction *= torch.tensor([1.0, 1e-4, 1e-12, 1e-13, 1e-30, 0.0], dtype=torch.float64)[:, None]
    target[:, 1] = 0
    prediction.requires_grad_()
    expected = loss(prediction, target)
    (slope,) = torch.autograd.grad(expected.sum(), prediction)
    found, pull = compared(loss, prediction.detach(), target)
    torch.testing.assert_close(found, expected.detach())
    for ours, theirs in zip(pull[0], slope[0], strict=True):  # of sizes that differ by 30 orders
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-9 * float(theirs.abs().max()))


@dataclass(frozen=True)
class OtherLoss(NonContrastive):
    """Somebody's own."""


@pytest.mark.parametrize(
    "objective",
    [
        PredictOtherView(samples=21, noise="dense"),
        PredictOtherView(NonContrastive(stop_gradient=False), samples=21),
        PredictOtherView(OtherLoss(), samples=21),
    ],
)
def test_other_objectives_are_left_to_autograd(objective):
    found, _ = both(experiment_of(replace(RECIPE, objective=objective)))
    assert found is None


@pytest.mark.parametrize(("owner", "name"), DERIVED_FROM.places, ids=str)
def test_what_is_patched_is_left_to_autograd(owner, name, monkeypatch):
    experiment, was = experiment_of(), getattr(owner, name)
    draws = experiment.streams.at("batch", 4)
    assert engine.gradient(experiment.seen(), experiment.source, experiment.objective, draws) is not None
    monkeypatch.setattr(owner, name, property(was.fget) if isinstance(was, property) else lambda *given: was(*given))
    assert engine.gradient(experiment.seen(), experiment.source, experiment.objective, draws) is None


@pytest.mark.parametrize(("part", "name"), [("source", "codes"), ("learner.encoder", "views")])
def test_what_an_object_has_in_place_of_its_class_is_left_to_autograd(part, name):
    experiment = experiment_of()
    at = operator.attrgetter(part)(experiment)
    setattr(at, name, getattr(at, name))
    assert both(experiment)[0] is None


def test_a_source_that_learns_is_left_to_autograd():
    experiment = experiment_of()
    amplitude = experiment.source.amplitude
    del experiment.source.amplitude
    experiment.source.amplitude = torch.nn.Parameter(amplitude)
    found, _ = both(experiment)
    assert found is None
    assert experiment.source.amplitude.grad is not None


def test_hooks_frozen_weights_and_torch_are_left_to_autograd(monkeypatch):
    hooked = experiment_of()
    hooked.learner.head.register_forward_hook(lambda *_: None)
    assert both(hooked)[0] is None
    frozen = experiment_of()
    frozen.learner.head.scaled.requires_grad_(False)
    assert both(frozen)[0] is None
    monkeypatch.setenv("FEATSCOPE_KERNELS", "torch")
    assert both(experiment_of())[0] is None


@pytest.mark.parametrize("head", [IdentityInit(0.3), None])
def test_weights_that_are_computed_from_others_are_left_to_autograd(head):
    made = experiment_of(replace(RECIPE, learner=replace(RECIPE.learner, head=head)))
    encoder, weight = made.learner.encoder, made.learner.encoder.weight
    del encoder.weight
    encoder.weight = 2 * weight
    assert both(made)[0] is None
    assert weight.grad.norm() > 0


def test_training_takes_the_same_path(monkeypatch):
    closed, by_autograd = experiment_of(), experiment_of()
    with monkeypatch.context() as patched:
        patched.setattr(closed, "loss", None)  # which autograd would ask
        for step in range(5):
            closed.advance(step)
    monkeypatch.setattr(engine, "gradient", lambda *_: None)
    for step in range(5):
        by_autograd.advance(step)
    for ours, theirs in zip(closed.learner.parameters(), by_autograd.learner.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_loss_that_is_not_finite_is_of_its_replica_alone():
    experiment = experiment_of()
    with torch.no_grad():
        experiment.learner.encoder.weight[1, 0, 0] = torch.nan
    draws = experiment.streams.at("batch", 4)
    loss = engine.gradient(experiment.seen(), experiment.source, experiment.objective, draws)
    assert loss.isfinite().tolist() == [True, False, True]
    assert experiment.learner.encoder.weight.grad.flatten(1).isfinite().all(1).tolist() == [True, False, True]
