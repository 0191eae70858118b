"""Objectives: how batches are made, and the supervised loss."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.functional import logsigmoid

from featscope.data import SparseCoding, SparseTokens, linear_task
from featscope.losses import InfoNCE
from featscope.models import SymmetricReLU, TokenMLP
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.training import Contrastive, ContrastivePairs, SignLabels, Supervised
from featscope.views import SameSample


def test_a_contrastive_batch_has_views_of_the_first_samples_and_the_rest_as_they_are():
    streams = Streams(0, range(2))
    source = SparseCoding(4, 16).build(streams.at("dictionary"))
    x = source.sample(streams.at("batch"), 5 + 3).x
    anchor, positive, negatives = Contrastive(anchors=5, negatives=3).batch(source, streams.at("batch"))
    assert torch.equal(anchor + positive, 2 * x[:, :5])
    assert torch.equal(negatives, x[:, 5:])
    anchor, positive, _ = Contrastive(SameSample(), anchors=5, negatives=3).batch(source, streams.at("batch"))
    assert torch.equal(anchor, x[:, :5])
    assert torch.equal(positive, x[:, :5])


def test_sequences_are_shared_out_by_samples_and_not_by_tokens():
    x = torch.arange(2 * 8 * 9 * 4.0).view(2, 8, 9, 4)
    source = SimpleNamespace(sample=lambda draws, count: SimpleNamespace(x=x[:, :count]))
    objective = Contrastive(SameSample(), anchors=5, negatives=3)
    anchor, positive, negatives = objective.batch(source, Streams(0, range(2)).at("batch"))
    assert torch.equal(anchor, x[:, :5])
    assert torch.equal(positive, x[:, :5])
    assert torch.equal(negatives, x[:, 5:])


def test_the_contrastive_loss_compares_representations():
    streams = Streams(0, range(2))
    source = SparseCoding(4, 16).build(streams.at("dictionary"))
    learner = SymmetricReLU(6, 1.0).build(source, streams.at("weights"))
    objective = Contrastive(loss=InfoNCE(2.0), anchors=5, negatives=3)
    views = objective.batch(source, streams.at("batch"))
    expected = InfoNCE(2.0)(*(view @ learner.weight.mT for view in views))
    assert torch.allclose(objective(learner, source, streams.at("batch")), expected)


@pytest.mark.parametrize("means", [True, False])
def test_contrastive_pairs_are_each_others_negatives(means):
    """The loss is that of the members of a pair, in the order in which the source gives them."""
    streams = Streams(0, range(2))
    source = SparseTokens(4, 16, tokens=3).build(streams.at("dictionary"))
    learner = TokenMLP(6, 1.0).build(source, streams.at("weights"))
    source.means = means
    pairs = source.pairs(streams.at("batch"), 5)
    f_x, f_y = (3 * (v if means else v.mean(-2)) @ learner.weight.mT for v in (pairs.x, pairs.y))
    own = torch.diagonal(f_x @ f_y.mT / 2, dim1=-2, dim2=-1)
    expected = 2 * ((f_x @ f_y.mT / 2).logsumexp(-1) - own).mean(-1)
    assert torch.allclose(ContrastivePairs(InfoNCE(2.0), 5)(learner, source, streams.at("batch")), expected, atol=1e-6)


def test_one_pair_has_no_negatives():
    with pytest.raises(ConfigError, match=r"ContrastivePairs.pairs = 1 is out of range: allowed is >= 2\. One pair"):
        ContrastivePairs(pairs=1)


@pytest.mark.parametrize("options", [{"anchors": 0}, {"negatives": 0}])
def test_wrong_batches_are_refused(options):
    (field,) = options
    with pytest.raises(ConfigError, match=f"Contrastive.{field} = 0 .* >= 1"):
        Contrastive(**options)


def supervised(labels: torch.Tensor) -> torch.Tensor:
    x = torch.tensor([[[1.0, 2.0], [-1.0, 0.5], [3.0, 1.0]]])
    source = SimpleNamespace(sample=lambda draws, count: SimpleNamespace(x=x[:, :count]))
    head = torch.tensor([[1.0, -1.0]])
    objective = Supervised(head, lambda sample: labels, 3)
    assert [name for name, _ in objective.named_parameters()] == ["head"]
    return objective(nn.Identity(), source, Streams(0, [0]).at("batch"))


def test_the_supervised_loss_is_logistic_and_leaves_out_samples_without_a_label():
    margins = torch.tensor([-1.0, 1.5])  # y <head, x> of the labelled ones
    expected = -logsigmoid(margins).mean()
    assert supervised(torch.tensor([[1.0, -1.0, 0.0]])).tolist() == pytest.approx([float(expected)])


def test_a_batch_without_any_label_costs_nothing_and_is_no_divergence():
    assert supervised(torch.zeros(1, 3)).tolist() == [0.0]


def test_sign_labels_are_those_of_a_random_task_on_the_true_signals():
    """The head is random, of norm 1 in expectation, and trained; the task is in the state and not trained."""
    streams = Streams(0, range(2))
    source = SparseCoding(4, 16).build(streams.at("dictionary"))
    learner = SymmetricReLU(600, 1.0).build(source, streams.at("weights"))
    objective = SignLabels(samples=50).build(source, learner, streams)
    task = linear_task(streams.at("task"), 4)
    assert {name for name, _ in objective.named_parameters()} == {"head"}
    assert set(objective.state_dict()) == {"head", "labels.vector"}
    assert torch.equal(objective.labels.vector, task)
    assert torch.equal(objective.head.detach(), streams.at("head").normal(600) / 600**0.5)
    assert objective.head.detach().norm(dim=-1).tolist() == pytest.approx([1, 1], abs=5 * (1 / 1200) ** 0.5)
    sample = source.sample(streams.at("batch"), 50)
    y = torch.einsum("rbf,rf->rb", sample.codes, task).sign()
    margins = y * (learner(sample.x) @ objective.head[..., None])[..., 0]
    expected = torch.stack([-logsigmoid(m[at != 0]).mean() for m, at in zip(margins, y, strict=True)])
    torch.testing.assert_close(objective(learner, source, streams.at("batch")), expected)
    with pytest.raises(ConfigError, match=r"SignLabels.samples = 0"):
        SignLabels(samples=0)


def test_options_of_an_objective_may_be_the_objective():
    objective = ContrastivePairs(pairs=5)
    assert objective.build(None, nn.Identity(), Streams(0, [0])) is objective
