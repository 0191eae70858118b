"""Closed forms that hold before any training, or at any weights, measured."""

from collections.abc import Mapping
from copy import deepcopy
from typing import cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from featscope.data import TokenPairs
from featscope.models import TokenMLPNetwork
from featscope.probes import alignment
from featscope.studies.imbalance.measures import parts
from featscope.theory import imbalance as theory
from featscope.training import ContrastivePairs, Experiment, Measurement

PAIRS, BLOCKS = 10_000, 10
FLOAT64_PAIRS = 64
SCALES, DIRECTIONS = (0.1, 1.0, 10.0), 8  # of steps from w to other weights θ, in units of w
POWERS = range(-6, 8)  # of 2, for κ


def growth_identity(experiment: Experiment) -> Mapping[str, Measurement]:
    """P Lemma F.3: E[h_i(Y) <∇h_i(X), M_j>] = a_j A_ij at b = 0, its part off the features, and negatives (F.1(c)).

    As coefficients of a regression on A_ij over neurons, one a feature: a_j, and 0 for negatives. Off the features,
    of a regression on the non-feature part of the weights: 0, and L² σ²/L if X and Y had their noise in common.
    """
    source, learner = parts(experiment)
    dictionary, weight = source.dictionary, learner.weight
    along = weight @ dictionary
    outside = weight - along @ dictionary.mT
    pull = negative = noise = torch.zeros(())
    for block in range(BLOCKS):
        pairs = source.pairs(experiment.streams.at("growth identity", block), PAIRS)
        mean = pairs.x if pairs.x.ndim == weight.ndim else pairs.x.mean(-2)
        slope, h = learner.tokens * mean, learner(pairs.y)  # ∇h_i(X) at b = 0
        pull = pull + h.mT @ slope / (PAIRS * BLOCKS)
        negative = negative + h.roll(1, 1).mT @ slope / (PAIRS * BLOCKS)
        inside = (mean @ dictionary).square().sum((-2, -1))
        noise = noise + (mean.square().sum((-2, -1)) - inside) / (PAIRS * BLOCKS)

    def coefficient(of: Tensor, on: Tensor) -> Tensor:
        return (of * on).sum(-2) / on.square().sum(-2)

    variance = source.noise_std.square() / learner.tokens
    variance = variance.where(variance > 0, torch.nan)  # without noise there is nothing to measure in units of it
    off = pull - (pull @ dictionary) @ dictionary.mT
    return {
        "pull": Measurement(
            coefficient(pull @ dictionary, along), ("feature",), "1", "E[h_i(Y) <∇h_i(X), M_j>] over A_ij"
        ),
        "pull_of_negatives": Measurement(
            coefficient(negative @ dictionary, along).mean(-1), (), "1", "the same for h_i of negatives"
        ),
        "pull_off_features": Measurement(
            (off * outside).sum((-2, -1)) / outside.square().sum((-2, -1)) / learner.tokens**2 / variance,
            (),
            "Lσ²",
            "the same off the features",
        ),
        "noise_variance": Measurement(
            noise / (dictionary.shape[-2] - dictionary.shape[-1]) / variance,
            (),
            "σ²/L",
            "variance of mean tokens off the features, a coordinate",
        ),
    }


class _At:
    """A trained network on one batch in float64: what P's formulas of gradient and pseudo-loss are made of."""

    def __init__(self, experiment: Experiment, purpose: str, count: int) -> None:
        self.source, trained = parts(experiment)
        self.loss = cast(ContrastivePairs, experiment.objective).loss
        self.batch: TokenPairs = self.source.pairs(experiment.streams.at(purpose), count, dtype=torch.float64)
        self.network: TokenMLPNetwork = deepcopy(trained).double()
        self.w = self.network.weight.detach()
        self.keys = self.network(self.batch.y).detach()
        self.attended, self.times = _attended(self.network, self.batch.x)
        u = self._project(self.w)
        self.side, self.gate = u.sign(), (u.abs() >= self.network.bias[:, None, None]).double()

    def _project(self, theta: Tensor) -> Float[Tensor, "replica pair token neuron"]:
        return torch.einsum("rptd,rid->rpti", self.attended, theta)

    def pseudo_loss(self, theta: Tensor) -> Float[Tensor, "replica"]:
        """L̃(θ): the map of P (116), with the gates of w and linear in θ, against the keys of w (P (118))."""
        frozen = (self._project(theta) - self.network.bias[:, None, None] * self.side) * self.gate
        return self.loss.in_batch(self.times * frozen.sum(-2), self.keys)

    def gradient(self) -> Float[Tensor, "replica neuron input"]:
        """P (21) as printed, and times 1/τ for the loss without a leading τ. Nothing here is differentiated."""
        tau, count = self.loss.temperature, self.keys.shape[1]
        h = self.times * (self._project(self.w) - self.network.bias[:, None, None] * self.side).mul(self.gate).sum(-2)
        share = (h @ self.keys.mT / tau).softmax(-1)
        pulled = (share - torch.eye(count, dtype=share.dtype, device=share.device)) @ self.keys
        summed = self.times * torch.einsum("rpi,rpti,rptd->rid", pulled, self.gate, self.attended) / count
        return summed if self.loss.scale == "tau" else summed / tau


def _attended(network: TokenMLPNetwork, x: Tensor) -> tuple[Float[Tensor, "replica pair token input"], int]:
    """z^(r), and how many times each counts: under uniform attention all are the mean token."""
    if network.attention == "uniform":
        return (x if x.ndim == 3 else x.mean(-2))[:, :, None], network.tokens
    scores = torch.einsum("rpad,rpbd->rpab", x, x)
    weights = scores / network.tokens if network.attention == "linear" else scores.softmax(-1)
    return torch.einsum("rpab,rpbd->rpad", weights, x), 1


def gradients(experiment: Experiment) -> Mapping[str, Measurement]:
    """P (21) and the pseudo-loss (P (118)) against autograd on the network itself, in float64."""
    at = _At(experiment, "gradients", FLOAT64_PAIRS)
    by_hand = at.gradient()
    with torch.enable_grad():
        loss = at.loss.in_batch(at.network(at.batch.x), at.network(at.batch.y))
        (of_loss,) = torch.autograd.grad(loss.sum(), at.network.weight)
        theta = at.w.clone().requires_grad_()
        pseudo = at.pseudo_loss(theta)
        (of_pseudo,) = torch.autograd.grad(pseudo.sum(), theta)

    def error(found: Tensor) -> Tensor:
        scale = by_hand.abs().amax((-2, -1)).clamp_min(torch.finfo(by_hand.dtype).tiny)
        return (found - by_hand).abs().amax((-2, -1)) / scale

    return {
        "gradient_error": Measurement(error(of_loss), (), "1", "gradient of the loss against P (21), relative"),
        "pseudo_gradient_error": Measurement(error(of_pseudo), (), "1", "pseudo-loss against P (21), relative"),
        "pseudo_value_error": Measurement((pseudo - loss).abs().detach(), (), "nats", "pseudo-loss minus loss"),
    }


def optimal_learner(experiment: Experiment) -> Mapping[str, Measurement]:
    """The pseudo-loss away from w: at θ* (P (115)), and how far it lies above its tangent at w (P (162)).

    Neurons that end with one feature stand for the lucky ones of P (27): none exists at ε_min/ε_max = 0.3 and d = 9.
    κ, which P gives the order of max_j |M_j|, is whatever suits θ* best.
    """
    at = _At(experiment, "optimal learner", cast(ContrastivePairs, experiment.objective).pairs)
    frame = at.source.dictionary.double()
    lucky, amplitude = alignment(at.w, frame).square() > 0.5, at.w @ frame
    each = zip(*(tensor.cpu().numpy() for tensor in (frame, lucky, amplitude)), strict=True)
    best = torch.from_numpy(
        np.stack([theory.optimal_learner(m, i, a, at.loss.temperature, 1.0) for m, i, a in each])
    ).to(at.w)
    scaled = [2.0**power * best for power in POWERS]
    draws = experiment.streams.at("directions")
    size = at.w.square().mean((-2, -1), keepdim=True).sqrt()
    others = list(scaled)
    for scale in SCALES:
        others += [at.w + scale * size * draws.normal(*at.w.shape[1:], dtype=torch.float64) for _ in range(DIRECTIONS)]
    value, slope = at.pseudo_loss(at.w), at.gradient()
    above = [at.pseudo_loss(theta) - value - (slope * (theta - at.w)).sum((-2, -1)) for theta in others]
    # Keys that show the same signals as the own positive cannot be told from it.
    codes = at.batch.codes_y.sign()
    alike = (codes[:, :, None] == codes[:, None]).all(-1)
    floor = (at.loss.temperature if at.loss.scale == "tau" else 1.0) * alike.sum(-1).log().mean(-1)
    return {
        "optimal_loss": Measurement(
            torch.stack([at.pseudo_loss(theta) for theta in scaled]).amin(0),
            (),
            "nats",
            "pseudo-loss at θ*, its best κ",
        ),
        "loss_floor": Measurement(floor, (), "nats", "mean log number of keys that show an anchor's own signals"),
        "above_tangent": Measurement(
            torch.stack(above).amin(0), (), "nats", "smallest height of the pseudo-loss above its tangent at w"
        ),
    }
