"""The closed form of supervised gradients against autograd, and who is served by which."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from featscope.data import SparseCoding
from featscope.kernels import BACKENDS
from featscope.models import SymmetricReLU
from featscope.streams import Streams
from featscope.studies.decoupling.objectives import SignTasks
from featscope.training import SGD, MagnitudePruning, SignLabels, Supervised, Training
from featscope.training import gradient as engine
from featscope.training.closed_form_supervised import DERIVED_FROM

OBJECTIVES = [SignTasks(3, 40), SignTasks(1, 30), SignLabels(40)]
RECIPE = Training(SparseCoding(5, 16, sparsity=2.0), SymmetricReLU(9, 1.0), OBJECTIVES[0], SGD())


def experiment_of(**other):
    made = replace(RECIPE, **other).build(Streams(0, (4, 1, 6)))
    made.learner.bias.copy_(made.streams.at("bias").uniform(made.learner.bias.shape[1]) / 2)
    return made


def both(experiment):
    """Loss and gradients in closed form, and by autograd on the same draws; None for what has no closed form."""
    found = []
    trained = experiment.learner.weight, experiment.objective.head
    for form in (engine.gradient, None):
        draws = experiment.streams.at("batch", 4)
        for one in trained:
            one.grad = None
        if form:
            loss = form(experiment.seen(), experiment.source, experiment.objective, draws)
        else:
            loss = experiment.loss(draws)
            loss.sum().backward()
        found.append(None if loss is None else (loss.detach(), *(one.grad for one in trained), draws.normal(3)))
    return found


def in_closed_form(experiment):
    return both(experiment)[0] is not None


@pytest.mark.parametrize("kernels", BACKENDS)
@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
@pytest.mark.parametrize("sparsity", [0.5, 2.0])  # samples without a feature, and so without a label, are many or few
def test_it_is_the_gradient_of_autograd(kernels, objective, sparsity, monkeypatch):
    monkeypatch.setenv("FEATSCOPE_KERNELS", kernels)
    experiment = experiment_of(objective=objective, data=replace(RECIPE.data, sparsity=sparsity))
    found, expected = both(experiment)
    assert found is not None
    for ours, theirs in zip(found[:3], expected[:3], strict=True):
        assert theirs.norm() > 0
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5 * float(theirs.abs().max()))
    assert torch.equal(found[3], expected[3])  # and the stream goes on at the same place


def test_replicas_of_which_one_has_no_label_at_all():
    experiment = experiment_of()
    del experiment.objective.labels
    experiment.objective.labels = lambda sample: sample.codes[..., :3] * torch.tensor([1.0, 0, 1])[:, None, None]
    found, expected = both(experiment)
    assert [float(one[1].abs().max()) for one in found[:3]] == [0, 0, 0]
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("objective", OBJECTIVES[::2], ids=repr)
def test_training_takes_the_same_path(objective, monkeypatch):
    closed, by_autograd = experiment_of(objective=objective), experiment_of(objective=objective)
    for step in range(20):
        closed.advance(step)
    monkeypatch.setattr(engine, "gradient", lambda *_: None)
    for step in range(20):
        by_autograd.advance(step)
    for ours, theirs in zip(closed.parameters(), by_autograd.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_one_task_of_several_is_the_task_alone():
    alone, one = experiment_of(objective=SignLabels(40)), experiment_of(objective=SignTasks(1, 40))
    with torch.no_grad():
        one.objective.head.copy_(alone.objective.head[:, None])
        one.objective.labels.vector.copy_(alone.objective.labels.vector[:, None])
    losses, weights, heads, _ = zip(both(alone)[1], both(one)[1], strict=True)
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*weights)
    torch.testing.assert_close(heads[0], heads[1][:, 0])


@pytest.mark.parametrize(("owner", "name"), DERIVED_FROM.places, ids=str)
def test_what_is_patched_is_left_to_autograd(owner, name, monkeypatch):
    experiment, was = experiment_of(), getattr(owner, name)
    draws = experiment.streams.at("batch", 4)
    assert engine.gradient(experiment.seen(), experiment.source, experiment.objective, draws) is not None
    monkeypatch.setattr(owner, name, lambda *given: was(*given))
    assert engine.gradient(experiment.seen(), experiment.source, experiment.objective, draws) is None


class OtherLoss(Supervised):
    """Somebody's own."""


def test_other_parts_are_left_to_autograd():
    assert in_closed_form(experiment_of())
    pruned = experiment_of(rules={"pruning": MagnitudePruning(0.3, granularity="entry", gradient="straight-through")})
    assert not in_closed_form(pruned)
    hooked = experiment_of()
    hooked.objective.register_forward_hook(lambda *_: None)
    assert not in_closed_form(hooked)
    frozen = experiment_of()
    frozen.objective.head.requires_grad_(False)
    assert not in_closed_form(frozen)
    learned = experiment_of()
    learned.objective.labels.vector = nn.Parameter(learned.objective.labels._buffers.pop("vector"))
    assert not in_closed_form(learned)
    own = experiment_of()
    own.objective.signs = own.objective.signs
    assert not in_closed_form(own)
    other = experiment_of()
    other.objective.__class__ = OtherLoss
    assert not in_closed_form(other)


@pytest.mark.parametrize("by_hand", [True, False])
def test_too_many_labels_are_an_error_either_way(by_hand, monkeypatch):
    experiment = experiment_of()
    del experiment.objective.labels
    experiment.objective.labels = lambda sample: sample.codes
    if not by_hand:
        monkeypatch.setattr(engine, "gradient", lambda *_: None)
    with pytest.raises(ValueError, match=r"labels have shape \[3, 40, 5\]: expected \[3, 40, 3\], one of each"):
        experiment.advance(0)


def test_labels_may_be_numbers_of_any_kind():
    head = torch.tensor([[1.0, -1.0]])
    x = torch.tensor([[[1.0, 2.0], [-1.0, 0.5], [3.0, 1.0]]])
    draws = Streams(0, [0]).at("batch")
    source = SimpleNamespace(sample=lambda draws, count: SimpleNamespace(x=x))
    found = [
        Supervised(head, lambda sample, kind=kind: torch.tensor([[2, -7, 0]]).to(kind), 3)(nn.Identity(), source, draws)
        for kind in (torch.float32, torch.float64, torch.int64)
    ]
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
