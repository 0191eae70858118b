"""What is measured on a network: along the way, and what a single step would do."""

from collections.abc import Mapping
from copy import deepcopy

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from featscope.data import TokenPairs
from featscope.losses import products
from featscope.models import TokenMLPNetwork
from featscope.probes import alignment, owner
from featscope.theory.pruning import positive_logit_change, similarity_change
from featscope.training import GradientTraining, MagnitudePruning, Measurement

BATCHES = 60
SMALL = 0.05  # factor on the pruned neurons' weights for which the first order must be all there is
HIDDEN = 0.9  # share of a feature's energy out of the logits' sight from which on the feature counts as hidden


def energies(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Measured along the way."""
    source, learner, mask = experiment.source, experiment.learner, experiment.rules["pruning"]
    cosines = alignment(learner.weight, source.dictionary)
    along = (learner.weight @ source.dictionary).square()
    energy, unseen = along.sum(-2), (along * ~mask.kept[..., None]).sum(-2)
    first_rare = cosines.shape[-1] - source.minority
    single = (cosines.square() > 0.5).float().sum(-2)
    rare, common = energy[..., first_rare:].mean(-1), energy[..., :first_rare].mean(-1)
    pruned = ~mask.kept
    of_rare = owner(cosines) >= first_rare
    share = (pruned & of_rare).sum(-1) / pruned.sum(-1)  # NaN where nothing is pruned
    hidden = (unseen > HIDDEN * energy).float().sum(-1)
    return {
        "minority_energy": Measurement(rare, "F_j = Σ_i <w_i, M_j>², minority features"),
        "majority_energy": Measurement(common, "F_j, majority features"),
        "energy_ratio": Measurement(rare / common, "F_min / F_maj"),
        "largest_energy": Measurement(energy.amax(-1), "largest F_j of any feature"),
        "minority_singletons": Measurement(
            single[..., first_rare:].mean(-1), "singletons of a minority feature", units="neurons"
        ),
        "majority_singletons": Measurement(
            single[..., :first_rare].mean(-1), "singletons of a majority feature", units="neurons"
        ),
        "overlap": Measurement(share, "share of the pruned neurons that belong to a minority feature"),
        "hidden_features": Measurement(hidden, f"features with {HIDDEN:.0%} of their energy hidden", units="features"),
    }


def one_step(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """What pruning does to logits and gradients at the planted start, over `BATCHES` batches.

    Growth is -<g_i, w_i>/||w_i||² of the data gradient g: what a step adds to the norm, relative to it and to η.
    """
    source, learner, objective = experiment.source, experiment.learner, experiment.objective
    rare = smallest(learner)
    masks = {"whole": None} | _masks(rare)
    zeros = learner.weight.new_zeros
    growth = {name: zeros(rare.shape) for name in masks}
    hardness = {name: zeros(2, len(rare)) for name in ("whole", "pruned")}
    samples = zeros(2, len(rare))
    first_order = {factor: zeros(2, len(rare)) for factor in (SMALL, 1.0)}
    for batch in range(BATCHES):
        pairs = source.pairs(experiment.streams.at("one step", batch), objective.pairs)
        present = pairs.codes_x[..., -source.minority :].abs().amax(-1) > 0
        groups = torch.stack([present, ~present])
        samples += groups.sum(-1)
        for name, pruning in masks.items():
            seen = learner if pruning is None else pruning.on(learner)
            with torch.enable_grad():
                loss = objective.loss.in_batch(seen(pairs.x), seen(pairs.y))
                (gradient,) = torch.autograd.grad(loss.sum(), learner.weight)
            growth[name] -= (gradient * learner.weight).sum(-1) / learner.weight.square().sum(-1) / BATCHES
            if name in hardness:
                miss = 1 - _logits(seen, pairs, objective.loss.temperature).diagonal(dim1=-2, dim2=-1)
                hardness[name] += (miss * groups).sum(-1)
        if batch < BATCHES // 10:  # in float64, which takes its time
            for factor, sums in first_order.items():
                sums += _first_order(learner, rare, factor, pairs, present, objective.loss.temperature)

    def of(name: str, members: Tensor) -> Tensor:
        return (growth[name] * members).sum(-1) / members.sum(-1)

    found = {
        f"growth_{kind}_{name}": Measurement(of(name, members), f"growth of {kind} neurons, {name}", units="1/η")
        for name in masks
        for kind, members in (("minority", rare), ("majority", ~rare))
    }
    for name, sums in hardness.items():
        for where, mean in zip(("minority", "other"), sums / samples, strict=True):
            found[f"hardness_{where}_{name}"] = Measurement(mean, f"E[1 - ℓ'_p], {where} samples, {name}")
    for size, (true, predicted) in zip(("small", "whole"), first_order.values(), strict=True):
        about = f"Δℓ'_p over its first order, {size} neurons"
        found[f"first_order_{size}"] = Measurement(true / predicted, about)
    largest = (growth["straight_through"] * rare).abs().amax(-1)
    found["pruned_growth"] = Measurement(largest, "largest growth of a pruned neuron, straight-through", units="1/η")
    found["presence"] = Measurement(samples[0] / samples.sum(0), "share of samples with a minority feature")
    return found


def smallest(learner: TokenMLPNetwork) -> Bool[Tensor, "replica neuron"]:
    """The neurons of smallest norm, up to rounding: the minority's, in the start of the single step."""
    norm = learner.weight.norm(dim=-1)
    return norm <= norm.amin(-1, keepdim=True) * (1 + 1e-4)


def _masks(rare: Bool[Tensor, "replica neuron"]) -> dict[str, MagnitudePruning]:
    total, neurons = rare.shape[-1], int(rare[0].sum())
    return {
        "one": MagnitudePruning(1 / total),
        "pruned": MagnitudePruning(neurons / total),
        "straight_through": MagnitudePruning(neurons / total, gradient="straight-through"),
    }


def _logits(seen: nn.Module, pairs: TokenPairs, temperature: float) -> Float[Tensor, "replica pair pair"]:
    return (products(seen(pairs.x), seen(pairs.y)) / temperature).softmax(-1)


def _first_order(
    learner: TokenMLPNetwork,
    rare: Bool[Tensor, "replica neuron"],
    factor: float,
    pairs: TokenPairs,
    present: Bool[Tensor, "replica pair"],
    temperature: float,
) -> Float[Tensor, "2 replica"]:
    """Δℓ'_p by pruning ``rare``, and what it is to first order (P (207)-(211)); sums over samples ``present``.

    The neurons that are pruned are first multiplied by ``factor``, so that what pruning takes away is small.
    """
    weight = learner.weight.detach().double() * torch.where(rare, factor, 1.0)[..., None]
    scaled = TokenMLPNetwork(weight, learner.tokens)
    pairs = TokenPairs(*(each.double() for each in pairs))
    logits = _logits(scaled, pairs, temperature)
    after = _logits(_masks(rare)["pruned"].on(scaled), pairs, temperature)
    true = (after - logits).diagonal(dim1=-2, dim2=-1)
    in_numpy = (each.cpu().numpy() for each in (scaled(pairs.x), scaled(pairs.y), rare, logits, true, present))
    sums = [
        (true_r[where].sum(), _by_first_order(h_x, h_y, pruned, logits_r, temperature)[where].sum())
        for h_x, h_y, pruned, logits_r, true_r, where in zip(*in_numpy, strict=True)
    ]
    return torch.tensor(sums, device=weight.device).mT


def _by_first_order(
    h_x: np.ndarray, h_y: np.ndarray, pruned: np.ndarray, logits: np.ndarray, temperature: float
) -> np.ndarray:
    change = similarity_change(h_x, h_y, pruned)
    return positive_logit_change(logits, change, np.arange(len(h_x)), temperature)


def one_update(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """How far a step of training is from Algorithm 1 with the gradient (5), written out in float64 (P)."""
    source, learner, mask = experiment.source, experiment.learner, experiment.rules["pruning"]
    objective = experiment.objective
    step = 0  # any: only its draws matter
    trial = deepcopy(experiment)
    with torch.enable_grad():
        trial.advance(step)
    x, y = (e.double() for e in source.pairs(experiment.streams.at("batch", step), objective.pairs)[:2])
    w, b = learner.weight.detach().double(), learner.bias.double()[:, None]
    u, v = x @ w.mT, y @ w.mT
    h_x, h_y = (learner.tokens * (t.abs() - b).clamp_min(0) * t.sign() for t in (u, v))
    tau, kept = objective.loss.temperature, mask.kept[:, None]
    logits = ((h_x * kept) @ (h_y * kept).mT / tau).softmax(-1)
    push = logits - torch.eye(objective.pairs, dtype=w.dtype, device=w.device)
    scale = 1.0 if objective.loss.scale == "tau" else 1 / tau
    gradient = scale * learner.tokens / objective.pairs * ((push @ h_y) * (u.abs() >= b)).mT @ x
    (group,) = experiment.optimizer.param_groups
    expected = -group["lr"] * (gradient + group["weight_decay"] * w)
    moved = trial.learner.weight.detach() - w
    error = (moved - expected).flatten(1).norm(dim=-1) / expected.flatten(1).norm(dim=-1)
    return {"update_error": Measurement(error, "a step of training against Algorithm 1, relative")}
