"""A step whose batch is drawn within one call, against the same batch made of arrays."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from featscope.data import SparseCoding, SparseTokens
from featscope.data.sparse_coding import SparseCodingSource
from featscope.data.sparse_tokens import SparseTokensSource
from featscope.kernels import contrastive_team
from featscope.models import SymmetricReLU, TokenMLP
from featscope.streams import Draws, Streams
from featscope.training import SGD, Contrastive, ContrastivePairs, Training, closed_form, closed_form_contrastive
from featscope.training.stack import stack
from featscope.training.whole_step import whole_step, whole_step_of_pairs
from featscope.views import RandomMask, SameSample

RECIPE = Training(
    data=SparseCoding(features=4, input_dim=13, dictionary="qr", sparsity=1.5),
    learner=SymmetricReLU(width=7, init_norm=1.0),
    objective=Contrastive(anchors=9, negatives=5),
    optimizer=SGD(),
)


def experiment_of(recipe, replicas=(5, 2, 7)):
    made = recipe.build(Streams(0, replicas))
    made.learner.bias.copy_(torch.linspace(0, 0.2, made.learner.bias.numel()).view_as(made.learner.bias))
    return made


def whole(experiment, draws):
    learner = experiment.learner
    return whole_step(learner.weight.detach(), learner.bias, experiment.objective, experiment.source, draws)


def of_arrays(experiment, monkeypatch, name="whole_step"):
    with monkeypatch.context() as patched:
        patched.setattr(closed_form_contrastive, name, lambda *_: None)
        draws = experiment.streams.at("batch", 3)
        loss = closed_form.gradient(experiment.learner, experiment.source, experiment.objective, draws)
    return loss, experiment.learner.weight.grad, draws


SIDES = st.integers(1, 20)


@given(features=st.integers(3, 9), inputs=st.integers(9, 40), width=SIDES, anchors=SIDES, negatives=SIDES)
def test_the_same_numbers_whatever_the_sizes(features, inputs, width, anchors, negatives):
    recipe = replace(
        RECIPE,
        data=replace(RECIPE.data, features=features, input_dim=inputs),
        learner=SymmetricReLU(width=width, init_norm=1.0),
        objective=Contrastive(anchors=anchors, negatives=negatives),
    )
    experiment = experiment_of(recipe)
    with pytest.MonkeyPatch.context() as patched:
        loss, slope, draws = of_arrays(experiment, patched)
    own = experiment.streams.at("batch", 3)
    found = whole(experiment, own)
    torch.testing.assert_close(found, (loss, slope), rtol=1e-5, atol=1e-6)  # small products are torch's there
    assert torch.equal(own.normal(5), draws.normal(5))  # and it goes on where the batch ends


@dataclass(frozen=True)
class OtherBatch(Contrastive):
    """Makes its batch in its own way."""

    def batch(self, source, draws):
        anchor, positive, negatives = super().batch(source, draws)
        return anchor, positive, 2 * negatives


@pytest.mark.parametrize(
    "change",
    [
        {"objective": OtherBatch(anchors=9, negatives=5)},
        {"objective": replace(RECIPE.objective, view=SameSample())},
    ],
)
def test_what_is_made_in_another_way_is_left_alone(change):
    check_left_alone(experiment_of(replace(RECIPE, **change)))


@pytest.mark.parametrize("option", ["noise", "sparsity"])
def test_laws_that_differ_between_replicas_are_left_alone(option):
    each = {replica: replace(RECIPE.data, **{option: 1 + replica / 10}) for replica in (5, 2, 7)}
    experiment = experiment_of(RECIPE)
    differs = {"noise": "noise_variance", "sparsity": "activity"}[option]
    values = {name: getattr(RECIPE.data, name) for name in ("features", "input_dim", "activity", "noise_variance")}
    values[differs] = torch.tensor([getattr(one, differs) for one in each.values()])
    experiment.source.config = SimpleNamespace(**values)
    check_left_alone(experiment)


def check_left_alone(experiment):
    draws = experiment.streams.at("batch", 3)
    assert whole(experiment, draws) is None
    assert torch.equal(draws.normal(4), experiment.streams.at("batch", 3).normal(4))


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (SparseCodingSource, "sample"),
        (RandomMask, "__call__"),
        (Contrastive, "batch"),
        *((Draws, name) for name in ("signs", "uniform", "normal", "halves")),
    ],
)
def test_what_is_patched_is_left_alone(owner, name, monkeypatch):
    was = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *given, **named: was(*given, **named))
    experiment = experiment_of(RECIPE)
    assert whole(experiment, experiment.streams.at("batch", 3)) is None


def test_replicas_that_share_draws_and_those_of_torch_are_left_alone(monkeypatch):
    shared, experiment = experiment_of(RECIPE, (5, 2, 5)), experiment_of(RECIPE)
    assert whole(shared, shared.streams.at("batch", 3)) is None
    assert whole(experiment, experiment.streams.at("batch", 3)) is not None
    monkeypatch.setenv("FEATSCOPE_KERNELS", "torch")
    assert whole(experiment, experiment.streams.at("batch", 3)) is None


ON_PAIRS = Training(
    data=SparseTokens(features=4, input_dim=13, activity=0.6, eps_min=0.8),
    learner=TokenMLP(width=7, init_norm=1.0),
    objective=ContrastivePairs(pairs=9),
    optimizer=SGD(),
)


def whole_of_pairs(experiment, draws):
    learner, objective = experiment.learner, experiment.objective
    return whole_step_of_pairs(
        learner.weight.detach(), learner.bias, learner.tokens, objective, experiment.source, draws
    )


@given(
    inputs=st.integers(4, 40),
    width=SIDES,
    pairs=st.integers(2, 20),
    tokens=st.integers(1, 5),
    activity=st.sampled_from([0.5, 1.0]),
)
def test_the_same_numbers_of_pairs_whatever_the_sizes(inputs, width, pairs, tokens, activity):
    recipe = replace(
        ON_PAIRS,
        data=replace(ON_PAIRS.data, input_dim=inputs, tokens=tokens, token_activity=activity),
        learner=TokenMLP(width=width, init_norm=1.0),
        objective=ContrastivePairs(pairs=pairs),
    )
    experiment = experiment_of(recipe)
    check_same_of_pairs(experiment)


def check_same_of_pairs(experiment):
    with pytest.MonkeyPatch.context() as patched:
        loss, slope, draws = of_arrays(experiment, patched, "whole_step_of_pairs")
    own = experiment.streams.at("batch", 3)
    found = whole_of_pairs(experiment, own)
    size = float(slope.abs().max())
    torch.testing.assert_close(found[0], loss, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found[1], slope, rtol=1e-4, atol=1e-5 * size)
    assert torch.equal(own.normal(5), draws.normal(5))


def test_experiments_side_by_side_that_share_their_draws():
    parts = [
        replace(ON_PAIRS, data=replace(ON_PAIRS.data, noise_std=std, eps_min=eps))
        for std, eps in ((0.1, 0.3), (0.2, 0.5), (0.4, 1.0))
    ]
    check_same_of_pairs(stack([part.build(Streams(0, (5, 2))) for part in parts]))


@dataclass(frozen=True)
class OtherPairs(ContrastivePairs):
    """Somebody's own."""


@pytest.mark.parametrize(
    "change",
    [
        {"objective": OtherPairs(pairs=9)},
        {"objective": ContrastivePairs(pairs=9, noise="projected")},
        {"learner": replace(ON_PAIRS.learner, attention="linear")},
    ],
)
def test_pairs_that_are_made_in_another_way_are_left_alone(change):
    check_pairs_left_alone(experiment_of(replace(ON_PAIRS, **change)))


def check_pairs_left_alone(experiment):
    draws = experiment.streams.at("batch", 3)
    assert whole_of_pairs(experiment, draws) is None
    assert torch.equal(draws.normal(4), experiment.streams.at("batch", 3).normal(4))


@pytest.mark.parametrize(("owner", "name"), [(SparseTokensSource, "pairs"), (Draws, "signs"), (Draws, "normal")])
def test_patched_pairs_and_those_of_torch_are_left_alone(owner, name, monkeypatch):
    experiment, was = experiment_of(ON_PAIRS), getattr(owner, name)
    assert whole_of_pairs(experiment, experiment.streams.at("batch", 3)) is not None
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, lambda *given, **named: was(*given, **named))
        assert whole_of_pairs(experiment, experiment.streams.at("batch", 3)) is None
    monkeypatch.setenv("FEATSCOPE_KERNELS", "torch")
    check_pairs_left_alone(experiment)


@pytest.mark.parametrize("anchors", [32, 9])
def test_a_lone_replica_has_all_threads_where_its_batch_divides(monkeypatch, anchors):
    calls = []
    kept = contrastive_team.step
    monkeypatch.setattr(contrastive_team, "step", lambda *given: calls.append(given[-1]) or kept(*given))
    experiment = experiment_of(replace(RECIPE, objective=Contrastive(anchors=anchors, negatives=5)), (5,))
    loss, slope, _ = of_arrays(experiment, monkeypatch)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    found = whole(experiment, experiment.streams.at("batch", 3))
    torch.testing.assert_close(found, (loss, slope), rtol=1e-5, atol=1e-6)  # small products are torch's there
    assert calls == ([2] if anchors == 32 else [])


@pytest.mark.parametrize("shape", [(3, 7, 12), (2, 7, 13)])
def test_layers_that_do_not_fit_are_left_alone(shape):
    for recipe, step in ((RECIPE, whole), (ON_PAIRS, whole_of_pairs)):
        experiment = experiment_of(recipe)
        experiment.learner.weight = torch.nn.Parameter(torch.randn(shape))
        experiment.learner.bias = torch.zeros(shape[:2])
        draws = experiment.streams.at("batch", 3)
        assert step(experiment, draws) is None
        assert torch.equal(draws.normal(4), experiment.streams.at("batch", 3).normal(4))
