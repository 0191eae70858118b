"""Exact statements, measured on networks: closed forms against sampling, gradients against autograd."""

from collections.abc import Mapping
from math import sqrt
from typing import cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from featscope.models import SymmetricReLUNetwork, soft_threshold
from featscope.studies.decoupling.measures import parts
from featscope.theory import decoupling as theory
from featscope.training import Contrastive, Experiment, Measurement

SAMPLES = 8192
BATCH = 1024
CENSUS_NETWORKS = 256
LOGIT_SCALES = (0.01, 0.1, 1.0)  # of the initial Σ||w_i||²


def _over_replicas(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _numpy(tensor: Tensor) -> np.ndarray:
    return tensor.double().cpu().numpy()


def at_initialisation(experiment: Experiment) -> Mapping[str, Measurement]:
    """What the theory says of a random network, before any training."""
    found = dict(_mask_leak(experiment))
    found |= _dense_decoupling(experiment)
    found |= _lucky_sets(experiment)
    found |= _logit_deviation(experiment)
    found |= _orthogonal_rows(experiment)
    return found


def _mask_leak(experiment: Experiment) -> Mapping[str, Measurement]:
    """The noise variance that is left in E[h_i(x⁺⁺) x⁺], as a share of s² (Lemma C.2)."""
    source, learner = parts(experiment)
    objective = cast(Contrastive, experiment.objective)
    config = source.config
    term = torch.zeros_like(learner.weight, dtype=torch.float64)
    for part in range(SAMPLES // BATCH):
        draws = experiment.streams.at("mask leak", part)
        anchor, positive = objective.view(source.sample(draws, BATCH).x, draws)
        term += (soft_threshold(positive @ learner.weight.mT, learner.bias).mT @ anchor).double() / SAMPLES
    p = theory.activity(config.features, config.sparsity)
    leaks = []
    for g, w, m in zip(_numpy(term), _numpy(learner.weight), _numpy(source.dictionary), strict=True):
        excess = g - theory.masked_positive_term(w, m, p)
        leaks.append(float((excess * w).sum() / (w * w).sum() / theory.noise_variance(config.features, config.noise)))
    about = "noise variance left in the positive term over s²"
    return {"mask_leak": Measurement(_over_replicas(leaks), (), "1", about)}


def without_mask(experiment: Experiment) -> Mapping[str, Measurement]:
    """Growth rates along features and orthogonal to them without augmentation (Lemma F.1)."""
    source, learner = parts(experiment)
    term = torch.zeros_like(learner.weight, dtype=torch.float64)
    for part in range(SAMPLES // BATCH):
        x = source.sample(experiment.streams.at("plain rates", part), BATCH).x
        term += (learner(x).mT @ x).double() / SAMPLES
    weight, dictionary = learner.weight.double(), source.dictionary.double()
    inside = weight @ dictionary
    outside = weight - inside @ dictionary.mT
    along = ((term @ dictionary) * inside).sum((-2, -1)) / inside.square().sum((-2, -1))
    across = (term * outside).sum((-2, -1)) / outside.square().sum((-2, -1))
    about = "growth rate along features over the rate orthogonal to them"
    return {"rate_ratio": Measurement(along / across, (), "1", about)}


def pair_statistics(experiment: Experiment) -> Mapping[str, Measurement]:
    """Covariance of a neuron's two views over its closed form, summed over neurons."""
    source, learner = parts(experiment)
    objective = cast(Contrastive, experiment.objective)
    product = torch.zeros_like(learner.bias, dtype=torch.float64)
    for part in range(SAMPLES // BATCH):
        draws = experiment.streams.at("pair statistics", part)
        anchor, positive = objective.view(source.sample(draws, BATCH).x, draws)
        product += ((anchor @ learner.weight.mT) * (positive @ learner.weight.mT)).double().sum(-2) / SAMPLES
    p = theory.activity(source.config.features, source.config.sparsity)
    ratios = [
        float(measured.sum() / theory.pair_covariance(w, m, p).sum())
        for measured, w, m in zip(_numpy(product), _numpy(learner.weight), _numpy(source.dictionary), strict=True)
    ]
    about = "covariance of <w_i, x⁺> and <w_i, x⁺⁺> over its closed form"
    return {"pair_covariance": Measurement(_over_replicas(ratios), (), "1", about)}


def _logits(anchor: Tensor, positive: Tensor, negatives: Tensor, temperature: float) -> Tensor:
    """Similarities over τ ``[replica, anchor, key]``, the positive's first; written apart from the loss."""
    own = torch.einsum("rkn,rkn->rk", anchor, positive)
    others = torch.einsum("rkn,rsn->rks", anchor, negatives)
    return torch.cat([own[..., None], others], -1) / temperature


def _dense_decoupling(experiment: Experiment) -> Mapping[str, Measurement]:
    """E<f(2Dξ), f(2(I-D)ξ)> over E||f(ξ)||² for a random network with positive biases."""
    source, learner = parts(experiment)
    objective = cast(Contrastive, experiment.objective)
    bias = 0.5 * sqrt(source.config.noise_variance) * learner.weight.norm(dim=-1)
    inner, norm = torch.zeros(2, len(bias), dtype=torch.float64, device=bias.device)
    for part in range(SAMPLES // BATCH):
        draws = experiment.streams.at("dense decoupling", part)
        noise = source.sample(draws, BATCH).noise
        views = [soft_threshold(view @ learner.weight.mT, bias) for view in objective.view(noise, draws)]
        inner += (views[0] * views[1]).double().sum((-2, -1))
        norm += soft_threshold(noise @ learner.weight.mT, bias).double().square().sum((-2, -1))
    about = "E<f(2Dξ), f(2(I-D)ξ)> over E||f(ξ)||²"
    return {"dense_decoupling": Measurement(inner / norm, (), "1", about)}


def _lucky_sets(experiment: Experiment) -> Mapping[str, Measurement]:
    """Mean |Set_j| over features and over many initialisations."""
    source, learner = parts(experiment)
    config = source.config
    threshold = theory.lucky_constant() * np.log(config.features) / config.features
    width, input_dim = learner.weight.shape[-2:]
    count = torch.zeros_like(learner.bias[:, 0], dtype=torch.float64)
    for network in range(CENSUS_NETWORKS):
        weight = experiment.streams.at("lucky sets", network).normal(width, input_dim)
        squares = (weight @ source.dictionary).square()
        lucky = squares >= threshold * squares.sum(-1, keepdim=True)
        count += lucky.sum((-2, -1)).double() / config.features / CENSUS_NETWORKS
    return {"lucky_set_size": Measurement(count, (), "neurons", "mean size of the lucky sets Set_j")}


def _logit_deviation(experiment: Experiment) -> Mapping[str, Measurement]:
    """Largest |l - 1/|B|| of a batch for several scales of the initial weights (Lemma C.3)."""
    source, learner = parts(experiment)
    objective = cast(Contrastive, experiment.objective)
    views = objective.batch(source, experiment.streams.at("logits"))
    keys = objective.negatives + 1
    deviations, sizes = [], []
    for scale in LOGIT_SCALES:
        f = [soft_threshold(v @ (learner.weight * sqrt(scale)).mT, learner.bias) for v in views]
        share = _logits(f[0], f[1], f[2], objective.loss.temperature).double().softmax(-1)
        deviations.append((share - 1 / keys).abs().amax((-2, -1)) * keys)
        sizes.append(scale * learner.weight.double().square().sum((-2, -1)))
    return {
        "logit_deviation": Measurement(torch.stack(deviations, -1), ("scale",), "1", "max |l - 1/|B|| · |B|"),
        "logit_size": Measurement(torch.stack(sizes, -1), ("scale",), "1", "Σ ||w_i||²"),
    }


def _orthogonal_rows(experiment: Experiment) -> Mapping[str, Measurement]:
    """Similarities and loss of unit rows orthogonal to each other and to the features (Lemma F.2)."""
    source, learner = parts(experiment)
    objective = cast(Contrastive, experiment.objective)
    m = source.dictionary
    width = min(learner.weight.shape[-2], m.shape[-2] - m.shape[-1])
    draws = experiment.streams.at("orthogonal rows")
    frame = draws.normal(m.shape[-2], width)
    frame = torch.linalg.qr(frame - m @ (m.mT @ frame))[0]
    network = SymmetricReLUNetwork(frame.mT.contiguous())
    x = source.sample(draws, max(BATCH, objective.anchors + objective.negatives)).x
    f = network(x)
    anchors, negatives = (
        f[:, : objective.anchors],
        f[:, objective.anchors : objective.anchors + objective.negatives],
    )
    cross = anchors @ negatives.mT
    return {
        "orthogonal_self": Measurement(f.square().sum(-1).mean(-1), (), "1", "mean ||f(x)||², orthogonal unit rows"),
        "orthogonal_cross": Measurement(cross.square().mean((-2, -1)).sqrt(), (), "1", "rms <f(x), f(x')>"),
        "orthogonal_loss": Measurement(objective.loss(anchors, anchors, negatives), (), "nats", "loss without mask"),
    }


def gradients(experiment: Experiment) -> Mapping[str, Measurement]:
    """The Stage-III split (Definition E.4) and the pseudo-objective (Definition E.10) against autograd, in float64."""
    source, learner = parts(experiment)
    objective = cast(Contrastive, experiment.objective)
    draws = experiment.streams.at("gradients")
    count = 48
    sample = source.sample(draws, 2 * count, dtype=torch.float64)
    # The split uses that features are orthonormal; the float32 dictionary is so only to seven digits.
    left, _, right = torch.linalg.svd(sample.dictionary, full_matrices=False)
    dictionary = left @ right
    everything = sample.codes @ dictionary.mT + sample.noise
    x, negatives = everything[:, :count], everything[:, count:]
    anchor, positive = objective.view(x, draws)
    weight, bias = learner.weight.detach().double(), learner.bias.double()

    def loss_gradient(anchored: Tensor, parameter: Tensor) -> Tensor:
        keys = [soft_threshold(v @ parameter.mT, bias) for v in (positive, negatives)]
        return torch.autograd.grad(objective.loss(anchored, *keys).sum(), parameter)[0]

    with torch.enable_grad():
        w = weight.clone().requires_grad_()
        true_gradient = loss_gradient(soft_threshold(anchor @ w.mT, bias), w)
        theta = weight.clone().requires_grad_()
        u = anchor @ weight.mT
        gate = (u.abs() >= bias[:, None]).double()
        pseudo = (anchor @ theta.mT - bias[:, None] * u.sign()) * gate  # gates of w, linear in theta
        pseudo_gradient = loss_gradient(pseudo, theta)

    split = _stage3_split(
        objective.loss.temperature, weight, bias, dictionary, sample.codes, x, anchor, positive, negatives
    )
    projected = -true_gradient @ dictionary

    def error(a: Tensor, b: Tensor) -> Tensor:
        return (a - b).abs().amax((-2, -1)) / b.abs().amax((-2, -1))

    return {
        "split_error": Measurement(error(split, projected), (), "1", "four-term split against autograd, relative"),
        "pseudo_error": Measurement(error(pseudo_gradient, true_gradient), (), "1", "pseudo-objective, relative"),
    }


def _stage3_split(
    temperature: float,
    weight: Float[Tensor, "replica neuron input"],
    bias: Float[Tensor, "replica neuron"],
    dictionary: Float[Tensor, "replica input feature"],
    codes: Float[Tensor, "replica both feature"],
    x: Float[Tensor, "replica anchor input"],
    anchor: Float[Tensor, "replica anchor input"],
    positive: Float[Tensor, "replica anchor input"],
    negatives: Float[Tensor, "replica negative input"],
) -> Float[Tensor, "replica neuron feature"]:
    """Ψ + Φ + E1 + E2 of Definition E.4, with signs for which h = ψ + φ, by hand and without autograd."""
    count = x.shape[1]
    z, z_negative = codes[:, :count], codes[:, count:]
    b = bias[:, None]
    u = [v @ weight.mT for v in (anchor, positive, negatives)]
    h = [torch.sign(v) * (v.abs() - b).clamp_min(0) for v in u]
    share = _logits(h[0], h[1], h[2], temperature).softmax(-1)
    push, pull = share[..., 1:], 1 - share[..., :1]
    alpha = weight @ dictionary
    gate = (u[0].abs() >= b).double()

    def psi(v: Tensor, signal: Tensor) -> Tensor:
        fires, side = (v.abs() > b).double(), v.sign()
        return (alpha[:, None] * signal[:, :, None] - (b * side)[..., None]) * fires[..., None]

    def phi(v: Tensor, signal: Tensor) -> Tensor:
        return (v[..., None] - alpha[:, None] * signal[:, :, None]) * (v.abs() > b).double()[..., None]

    def expected(positive_part: Tensor, negative_part: Tensor, factor: Tensor) -> Tensor:
        contrast = pull[..., None] * positive_part - torch.einsum("rks,rsif->rkif", push, negative_part)
        return torch.einsum("rkif,rki,rkf->rif", contrast, gate, factor) / count

    signal = z @ dictionary.mT
    noise = x - signal
    kept = anchor / x  # the diagonal of 2D
    crosstalk = ((kept - 1) * signal) @ dictionary
    through_noise = (kept * noise) @ dictionary
    whole = [
        h[1][..., None].expand(-1, -1, -1, alpha.shape[-1]),
        h[2][..., None].expand(-1, -1, -1, alpha.shape[-1]),
    ]
    return (
        expected(psi(u[1], z), psi(u[2], z_negative), z)
        + expected(phi(u[1], z), phi(u[2], z_negative), z)
        + expected(whole[0], whole[1], crosstalk)
        + expected(whole[0], whole[1], through_noise)
    )
