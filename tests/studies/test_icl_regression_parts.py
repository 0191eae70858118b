"""Parts of the study of in-context regression: losses, descent, and what is measured of a layer with all its blocks."""

from types import SimpleNamespace

import pytest
import torch

from featscope.data import RegressionPrompts
from featscope.models import LinearSelfAttention
from featscope.streams import Streams
from featscope.studies.icl_regression import probes
from featscope.studies.icl_regression.online import AllBlocks, SquaredError
from featscope.studies.icl_regression.population import Population
from featscope.studies.icl_regression.sampling import Pretrained

STREAMS = Streams(0, [0, 1])
SOURCE = RegressionPrompts(3, 10).build(STREAMS.at("data"))


@pytest.mark.parametrize("models", [0, 1, 4])
def test_the_loss_is_half_the_squared_error_added_up_over_models(models):
    targets = SOURCE.sample(STREAMS.at("batch"), 20).targets
    answers = torch.zeros(2, *[models] * bool(models), 20).double()
    found = SquaredError(20)(lambda shown: answers, SOURCE, STREAMS.at("batch"))
    torch.testing.assert_close(found, max(1, models) * targets.square().mean(-1) / 2)


def test_descent_goes_down_the_gradient_of_the_loss_of_all_prompts():
    options = Population(RegressionPrompts(3, 10), "descent", at_a_time=1, rate=0.3, scale=0.5)
    learner = options.build(STREAMS.at("start"))
    key, query = (one.detach().clone().requires_grad_() for one in (learner.model.key, learner.model.query))
    covariance = learner.source.covariance[:, None]
    trace = covariance.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    weighted = (1.1 * covariance + trace / 10 * torch.eye(3)) @ covariance
    product = key.mT @ query
    terms = weighted @ product @ covariance @ product.mT / 2 - covariance @ covariance @ product.mT
    terms.diagonal(dim1=-2, dim2=-1).sum().backward()
    learner(STREAMS.at("batch"))
    torch.testing.assert_close(learner.model.key.detach(), (key - 0.3 * key.grad).detach())
    torch.testing.assert_close(learner.model.query.detach(), (query - 0.3 * query.grad).detach())


def test_the_model_that_is_diagonal_is_so_in_the_eigenvectors_and_the_best_is_of_full_rank():
    models = Pretrained(RegressionPrompts(3, 10)).build(STREAMS.at("start"))
    q = models.source.directions
    torch.testing.assert_close(q.mT @ models.products[:, 1] @ q, torch.diag_embed(models.diagonal))
    torch.testing.assert_close(models.products[:, 2], probes.optima(models.source)[:, -1])


def looked_at(layer):
    found = probes.blocks(SimpleNamespace(learner=layer, source=SOURCE, streams=STREAMS))
    return {name: one.values for name, one in found.items()}


def test_the_best_layer_of_a_rank_has_the_least_loss_and_no_more_than_its_rank():
    v = probes.optima(SOURCE)[:, 1]
    (values, basis) = torch.linalg.eigh(v)
    row = (values[:, -1:].sqrt() * basis[..., -1])[:, None]
    value, key = torch.zeros(2, 4).double(), torch.cat([row, torch.zeros(2, 1, 1).double()], -1)
    value[:, -1] = 1
    found = looked_at(LinearSelfAttention(value, key, row))
    for name in ("over_best", "others", "beyond"):
        torch.testing.assert_close(found[name], torch.zeros(2).double(), atol=1e-9, rtol=0)


def test_the_matrix_between_the_moment_and_the_query_is_that_of_answers():
    """Of an example e_i with label 1 and the query e_j, the part of the answer that turns with the label's sign."""
    layer = AllBlocks(rank=1).build(SOURCE, STREAMS.at("weights"))
    torch.testing.assert_close(layer.value[:, -1].detach(), torch.ones(2).double())
    shown = torch.zeros(2, 9, 2, 4).double()
    for at in range(9):
        shown[:, at, 0, at // 3] = shown[:, at, 1, at % 3] = shown[:, at, 0, 3] = 1
    sides = [layer(shown * torch.tensor([1.0, 1, 1, side]).double()) for side in (1, -1)]
    values = torch.linalg.svdvals(((sides[0] - sides[1]) / 2).detach().view(2, 3, 3))
    torch.testing.assert_close(looked_at(layer)["beyond"], values[:, 1] / values[:, 0])
