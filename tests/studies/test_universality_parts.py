"""Parts of the study of universality: its loss, its rules, what is measured, and what labels are of."""

import pytest
import torch

from featscope.data import TaskFeatures
from featscope.streams import Streams
from featscope.studies.universality import Universality, labelled, pretraining, tables
from featscope.studies.universality.arms import TUNED

STREAMS = Streams(0, [0, 1])


@pytest.mark.parametrize("loss", ["logistic", "exponential"])
def test_the_gradient_of_a_pairs_loss_goes_through_both_of_it(loss):
    options = TaskFeatures(2, 2, 2, 2)
    source = options.build(STREAMS.at("dictionary"))
    learner = pretraining.LinearRepresentation().build(source, STREAMS.at("weights"))
    objective = pretraining.PairLoss(50, loss).build(source, learner, STREAMS)
    objective(learner, source, STREAMS.at("batch")).sum().backward()
    x, other = source.pairs(STREAMS.at("batch"), 50)
    for replica in range(2):
        w, wanted = learner.matrix[replica].detach(), 0
        for a, b in zip(x[replica], other[replica], strict=True):
            agreement = (w @ a) @ (w @ b)
            slope = torch.sigmoid(-agreement) if loss == "logistic" else (-agreement).exp()
            wanted = wanted - slope * w @ (torch.outer(a, b) + torch.outer(b, a)) / 50
        torch.testing.assert_close(learner.matrix.grad[replica], wanted, rtol=1e-4, atol=1e-5)


def test_fine_tuning_stays_in_the_ball_and_within_the_bound_in_each_replica():
    experiment = Universality().smallest().arm(TUNED).recipe.build(STREAMS)
    rule, matrix = experiment.rules["bounds"], experiment.learner.matrix.data
    start, size = matrix.clone(), torch.tensor([3.0, 0.01])[:, None, None]
    way = STREAMS.at("way").normal(*start.shape[1:])
    matrix.add_(size * way / way.norm(dim=(-2, -1), keepdim=True))
    with torch.no_grad():
        rule(experiment, 1)
    far, near = (matrix - start).norm(dim=(-2, -1)).tolist()
    assert 0.4 < far <= 0.5 + 1e-5
    assert 0.005 < near <= 0.01 + 1e-6
    assert torch.linalg.matrix_norm(matrix, 2).amax() <= 1 + 1e-5


def test_weights_are_told_of_the_kind_and_the_task_that_they_have():
    experiment = Universality().smallest().arm("joint").recipe.build(STREAMS)
    options = experiment.source.options
    sizes = torch.zeros(options.features)
    sizes[: options.shared], sizes[options.invariant :] = 10, 20
    for task in range(options.tasks):
        sizes[options.own(task)] = task + 1
    experiment.learner.matrix = torch.nn.Parameter(sizes.sqrt().diag() @ experiment.source.dictionary.float().mT)
    found = {name: one.values[0] for name, one in pretraining.progress(experiment).items()}
    told = torch.cat([found["shared"][None], found["private"], found["spurious"][None]])
    torch.testing.assert_close(told, torch.tensor([10, 1, 2, 3, 4, 20]).double())


def test_searches_come_to_rest():
    start = STREAMS.at("start").normal(6, dtype=torch.float64)
    found = tables.descended(start, lambda free: (free - 0.3).abs().sum(), 300)
    assert (found - 0.3).abs().max() < 0.01  # steps that did not fall would go on about it, at 0.05


def test_half_of_a_label_is_of_shared_features():
    targets = labelled.Labelled(5).build(STREAMS.at("start"))._targets(STREAMS.at("batch"))
    parts = targets.square().split([labelled.SHARED, labelled.RANK - labelled.SHARED], -1)
    for part in parts:
        torch.testing.assert_close(part.sum(-1), torch.full((2, 5), 0.5).double())


def test_similarity_knows_no_turn_no_scale_and_no_mean():
    x = STREAMS.at("x").normal(30, 4, dtype=torch.float64)
    y = x @ torch.linalg.qr(STREAMS.at("turn").normal(4, 4, dtype=torch.float64)).Q
    torch.testing.assert_close(labelled.similarity(x, 3 * y + 5), torch.ones(2).double())
    assert labelled.similarity(x, y[..., :2]).amax() < 0.95
