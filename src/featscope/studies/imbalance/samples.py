"""What samples say of data, logits and gradients at the start, and of neurons and updates at the end."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from math import log, sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.models import TokenMLPNetwork
from featscope.probes import alignment
from featscope.probes.frozen_gates import FrozenGates
from featscope.studies.imbalance.probes import HELD
from featscope.theory.imbalance import token_moments
from featscope.training import GradientTraining, Measurement

ASSUMED_PAIRS, FEW_PAIRS = 40_000, 2000
TAIL = 10.0  # λ of Pr(<w, Mz>² > λ ||w||² √log d/d)
SCALES = (10.0, 20.0, 40.0)  # of the weights of the start, so that logits depart from uniform by more than rounding
BATCH_SIZES, BATCHES = (64, 1024), 16


def data(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Assumptions 3.1 to 3.4 on what is drawn, and tails of pre-activations of the start (P Lemmas E.7, E.8)."""
    source, weight = experiment.source, experiment.learner.weight
    pairs = source.pairs(experiment.streams.at("assumptions"), ASSUMED_PAIRS)
    x, y = pairs.codes_x.sign(), pairs.codes_y.sign()
    flat = source.dictionary.abs().amax((-2, -1)) * sqrt(source.dictionary.shape[-2])
    few, features = pairs.codes_x[:, :FEW_PAIRS], x.shape[-1]
    norm = weight.norm(dim=-1)[:, None]
    mean = pairs.x[:, :FEW_PAIRS] if pairs.x.ndim == 3 else pairs.x[:, :FEW_PAIRS].mean(-2)
    of_noise = ((mean - few @ source.dictionary.mT) @ weight.mT).abs() / norm
    noise_tail = (of_noise >= log(features) ** 2 / sqrt(features)).float().mean((-2, -1))
    return {
        "frequency": Measurement(x.abs().mean(1), "share of pairs with the feature", ("feature",)),
        "signs": Measurement(x.sum((-2, -1)) / x.abs().sum((-2, -1)), "mean sign of active features"),
        "shared": Measurement((x == y).float().mean((-2, -1)), "share of signals that a pair has in common"),
        "flatness": Measurement(flat, "largest entry of the dictionary", units="1/√d1"),
        "signal_tail": _signal_tail(experiment, few),
        "noise_tail": Measurement(noise_tail, "Pr(<w, noise>² >= ||w||² log⁴ d / d)"),
    }


def logits(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """How far logits are from uniform for several scales of the weights (V (39))."""
    learner, objective = experiment.learner, experiment.objective
    pairs = experiment.source.pairs(experiment.streams.at("logits"), objective.pairs).double()
    found = []
    for scale in SCALES:
        network = TokenMLPNetwork(scale * learner.weight.detach().double(), learner.tokens, learner.attention)
        similar = network(pairs.x) @ network(pairs.y).mT / objective.loss.temperature
        found.append((objective.pairs * similar.softmax(-1) - 1).abs().amax((-2, -1)))
    return {"logit_deviation": Measurement(torch.stack(found, -1), "largest |K ℓ' - 1|", ("scale",))}


def batches(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """How far gradients of batches are from that of the population, in its norm (P Lemma B.1; V Fact B.1)."""
    source, learner, objective = experiment.source, experiment.learner, experiment.objective
    loss = objective.loss
    scale = 1 / loss.temperature if loss.scale == "1" else 1.0
    shown = token_moments(source.tokens, source.token_activity)[0]
    pull = scale * source.tokens**2 * shown**2 * source.activity[:, None]
    population = -(learner.weight.detach() @ source.dictionary * pull) @ source.dictionary.mT
    errors = []
    for size in BATCH_SIZES:
        error = population.new_zeros(len(population))
        for batch in range(BATCHES):
            with torch.enable_grad():
                value = replace(objective, pairs=size)(learner, source, experiment.streams.at(f"of {size}", batch))
                (gradient,) = torch.autograd.grad(value.sum(), learner.weight)
            error += (gradient - (1 - 1 / size) * population).square().sum((-2, -1)) / BATCHES
        errors.append((error / population.square().sum((-2, -1))).sqrt())
    return {"batch_error": Measurement(torch.stack(errors, -1), "error of a batch's gradient", ("batch_size",))}


def firing(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Who fires for what (P Lemma E.1), with N_i the features of cosine `HELD` and more; tails (P Lemma E.7)."""
    source, learner = experiment.source, experiment.learner
    pairs = source.pairs(experiment.streams.at("firing"), FEW_PAIRS)
    fires, present = learner(pairs.x) != 0, (pairs.codes_x != 0).float()
    cosines = alignment(learner.weight, source.dictionary)
    members, single = (cosines.abs() >= HELD).float(), (cosines.square() > 0.5).float()
    some, own = present @ members.mT > 0, present @ single.mT > 0
    expected = (members @ source.activity[..., None]).mean((-2, -1))
    return {
        "firings": Measurement(fires.sum((-2, -1)).float(), "how often any neuron fired"),
        "fires_alone": Measurement((fires & ~some).sum((-2, -1)) / fires.sum((-2, -1)), "firings without a feature"),
        "heard": Measurement((fires & own).sum((-2, -1)) / own.sum((-2, -1)), "own feature there and neuron fires"),
        "hearings": Measurement(own.sum((-2, -1)).float(), "how often a neuron's own feature was there"),
        "firing_rate": Measurement(fires.float().mean((-2, -1)), "Pr(h_i ≠ 0), mean over neurons"),
        "members_rate": Measurement(expected, "Σ p_j over the features of a neuron, mean over neurons"),
        "signal_tail": _signal_tail(experiment, pairs.codes_x),
    }


def attention(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """How far answers are from those under uniform attention, with the same weights, where no threshold is."""
    learner = experiment.learner
    tokens = experiment.source.pairs(experiment.streams.at("attention"), FEW_PAIRS).x
    uniform = learner.tokens * (tokens.mean(-2) @ learner.weight.mT)
    apart = (learner(tokens) - uniform).flatten(1).norm(dim=-1) / uniform.flatten(1).norm(dim=-1)
    return {"attention_apart": Measurement(apart, "answers against those under uniform attention, relative")}


def one_update(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """How far a step of training is from gradient descent on P (21) with decay, written out in float64."""
    step, learner, objective = 0, experiment.learner, experiment.objective  # any step: only its draws matter
    trial = deepcopy(experiment)
    trial.objective = replace(objective, noise="dense")
    with torch.enable_grad():
        trial.advance(step)
    pairs = experiment.source.pairs(experiment.streams.at("batch", step), objective.pairs).double()
    at = FrozenGates(learner, pairs, objective.loss)
    (group,) = experiment.optimizer.param_groups
    expected = -group["lr"] * (at.gradient() + group["weight_decay"] * at.w)
    moved = trial.learner.weight.detach() - at.w
    error = (moved - expected).flatten(1).norm(dim=-1) / expected.flatten(1).norm(dim=-1)
    return {"update_error": Measurement(error, "a step of training against the paper's (21) with decay, relative")}


def _signal_tail(experiment: GradientTraining, codes: Float[Tensor, "replica pair feature"]) -> Measurement:
    """How often a signal pushes a neuron far (P Lemma E.7)."""
    weight, dictionary = experiment.learner.weight, experiment.source.dictionary
    pushed = (codes @ (weight @ dictionary).mT).abs() / weight.norm(dim=-1)[:, None]
    far = pushed > sqrt(TAIL * sqrt(log(codes.shape[-1])) / codes.shape[-1])
    return Measurement(far.float().mean((-2, -1)), f"Pr(<w, Mz>² > {TAIL:g} ||w||² √log d / d)")
