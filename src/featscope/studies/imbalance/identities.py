"""Closed forms that hold before any training, or at any weights, measured."""

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor

from featscope.studies.imbalance.measures import parts
from featscope.training import ContrastivePairs, Experiment, Measurement

PAIRS, BLOCKS = 10_000, 10
FLOAT64_PAIRS = 64


def growth_identity(experiment: Experiment) -> Mapping[str, Measurement]:
    """P Lemma F.3: E[h_i(Y) <∇h_i(X), M_j>] = a_j A_ij at b = 0, its part off the features, and negatives (F.1(c)).

    As coefficients of a regression on A_ij over neurons, one a feature: a_j, and 0 for negatives. Off the features,
    of a regression on the non-feature part of the weights: 0.
    """
    source, learner = parts(experiment)
    dictionary, weight = source.dictionary, learner.weight
    along = weight @ dictionary
    outside = weight - along @ dictionary.mT
    pull = negative = torch.zeros(())
    for block in range(BLOCKS):
        pairs = source.pairs(experiment.streams.at("growth identity", block), PAIRS)
        slope = learner.tokens * (pairs.x if pairs.x.ndim == weight.ndim else pairs.x.mean(-2))  # ∇h_i(X) at b = 0
        h = learner(pairs.y)
        pull = pull + h.mT @ slope / (PAIRS * BLOCKS)
        negative = negative + h.roll(1, 1).mT @ slope / (PAIRS * BLOCKS)

    def coefficient(of: Tensor, on: Tensor) -> Tensor:
        return (of * on).sum(-2) / on.square().sum(-2)

    inside = pull - (pull @ dictionary) @ dictionary.mT
    return {
        "pull": Measurement(
            coefficient(pull @ dictionary, along), ("feature",), "1", "E[h_i(Y) <∇h_i(X), M_j>] over A_ij"
        ),
        "pull_of_negatives": Measurement(
            coefficient(negative @ dictionary, along).mean(-1), (), "1", "the same for h_i of negatives"
        ),
        "pull_off_features": Measurement(
            (inside * outside).sum((-2, -1)) / outside.square().sum((-2, -1)), (), "1", "the same off the features"
        ),
    }


def pseudo_loss(experiment: Experiment) -> Mapping[str, Measurement]:
    """P (118), (160): the gate-frozen pseudo-loss at θ = w has the value and gradient of the loss, in float64.

    Both against the gradient of P (21), written out without autograd.
    """
    source, learner = parts(experiment)
    objective = cast(ContrastivePairs, experiment.objective)
    tau = objective.loss.temperature
    factor = 1.0 if objective.loss.scale == "tau" else 1 / tau
    pairs = source.pairs(experiment.streams.at("pseudo-loss"), FLOAT64_PAIRS, dtype=torch.float64)
    weight, bias = learner.weight.detach().double(), learner.bias.double()[:, None]
    tokens = learner.tokens

    def represent(x: Tensor, parameter: Tensor) -> Tensor:
        u = x @ parameter.mT
        return tokens * torch.sign(u) * (u.abs() - bias).clamp_min(0)

    h_y = represent(pairs.y, weight)
    gate = ((pairs.x @ weight.mT).abs() >= bias).double()
    with torch.enable_grad():
        w = weight.clone().requires_grad_()
        loss = objective.loss.in_batch(represent(pairs.x, w), h_y)
        (of_loss,) = torch.autograd.grad(loss.sum(), w)
        theta = weight.clone().requires_grad_()
        side = (pairs.x @ weight.mT).sign()
        frozen = tokens * (pairs.x @ theta.mT - bias * side) * gate
        pseudo = objective.loss.in_batch(frozen, h_y)
        (of_pseudo,) = torch.autograd.grad(pseudo.sum(), theta)
    share = (represent(pairs.x, weight) @ h_y.mT / tau).softmax(-1)
    pulled = factor * (share - torch.eye(FLOAT64_PAIRS, dtype=share.dtype, device=share.device)) @ h_y
    by_hand = tokens * (pulled * gate).mT @ pairs.x / FLOAT64_PAIRS

    def error(a: Tensor, b: Tensor) -> Tensor:
        return (a - b).abs().amax((-2, -1)) / b.abs().amax((-2, -1)).clamp_min(torch.finfo(b.dtype).tiny)

    return {
        "gradient_error": Measurement(
            error(of_loss, by_hand), (), "1", "gradient of the loss against P (21), relative"
        ),
        "pseudo_gradient_error": Measurement(
            error(of_pseudo, by_hand), (), "1", "pseudo-loss against P (21), relative"
        ),
        "pseudo_value_error": Measurement((pseudo - loss).abs().detach(), (), "nats", "pseudo-loss minus loss"),
    }
