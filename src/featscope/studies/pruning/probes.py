"""What is measured on a network: along the way, and what a single step would do."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from featscope.data import TokenPairs
from featscope.losses import products
from featscope.models import TokenMLPNetwork
from featscope.probes import alignment, owner
from featscope.probes.frozen_gates import FrozenGates
from featscope.theory.pruning import positive_logit_change, similarity_change
from featscope.training import GradientTraining, MagnitudePruning, Measurement

BATCHES = 60
SMALL = 0.05  # factor on the pruned neurons' weights for which the first order must be all there is
HIDDEN = 0.9  # share of a feature's energy out of the logits' sight from which on the feature counts as hidden


def energies(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Measured along the way."""
    source, learner, pruned = experiment.source, experiment.learner, ~experiment.rules["pruning"].kept
    cosines = alignment(learner.weight, source.dictionary)
    along = (learner.weight @ source.dictionary).square()
    energy, unseen = along.sum(-2), (along * pruned[..., None]).sum(-2)
    single = (cosines.square() > 0.5).float().sum(-2)
    first_rare = cosines.shape[-1] - source.minority
    rare, common = energy[..., first_rare:].mean(-1), energy[..., :first_rare].mean(-1)
    share = (pruned & (owner(cosines) >= first_rare)).sum(-1) / pruned.sum(-1)  # NaN where nothing is pruned
    hidden = (unseen > HIDDEN * energy).float().sum(-1)
    of_rare, of_common = single[..., first_rare:].mean(-1), single[..., :first_rare].mean(-1)
    return {
        "minority_energy": Measurement(rare, "F_j = Σ_i <w_i, M_j>², minority features"),
        "majority_energy": Measurement(common, "F_j, majority features"),
        "energy_ratio": Measurement(rare / common, "F_min / F_maj"),
        "largest_energy": Measurement(energy.amax(-1), "largest F_j of any feature"),
        "minority_singletons": Measurement(of_rare, "singletons of a minority feature", units="neurons"),
        "majority_singletons": Measurement(of_common, "singletons of a majority feature", units="neurons"),
        "overlap": Measurement(share, "share of the pruned neurons that belong to a minority feature"),
        "pruned": Measurement(pruned.sum(-1).float(), "neurons that are pruned", units="neurons"),
        "hidden_features": Measurement(hidden, f"features with {HIDDEN:.0%} of their energy hidden", units="features"),
    }


def of_tiers(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """The same where minority features are of two tiers, as many of each, the rarest last."""
    source, learner = experiment.source, experiment.learner
    energy = (learner.weight @ source.dictionary).square().sum(-2)
    following, rarest = energy[..., -source.minority :].chunk(2, -1)
    return {
        **energies(experiment),
        "rarest_energy": Measurement(rarest.mean(-1), "F_j, features of the rarest tier"),
        "next_energy": Measurement(following.mean(-1), "F_j, features of the next tier"),
    }


def of_hidden(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """The same, and how large the neurons are that are hidden."""
    kept, norm = experiment.rules["pruning"].kept, experiment.learner.weight.norm(dim=-1)
    hidden = (norm * ~kept).sum(-1) / (~kept).sum(-1)  # NaN where nothing is pruned
    return {**energies(experiment), "hidden_norm": Measurement(hidden, "mean ||w_i|| of the pruned neurons")}


def one_step(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """What pruning does to logits and gradients at the planted start, over `BATCHES` batches.

    Growth is -<g_i, w_i>/||w_i||² of the data gradient g: what a step adds to the norm, relative to it and to η.
    """
    source, learner, objective = experiment.source, experiment.learner, experiment.objective
    norm = learner.weight.norm(dim=-1)
    rare = norm <= norm.amin(-1, keepdim=True) * (1 + 1e-4)  # the smallest, up to rounding: the minority's
    together = MagnitudePruning(int(rare[0].sum()) / rare.shape[-1])
    networks = {
        "whole": learner,
        "one": MagnitudePruning(1 / rare.shape[-1]).on(learner),
        "pruned": together.on(learner),
        "straight_through": replace(together, gradient="straight-through").on(learner),
    }
    zeros = learner.weight.new_zeros
    growth = {name: zeros(rare.shape) for name in networks}
    hardness = {name: zeros(2, len(rare)) for name in ("whole", "pruned")}
    samples = zeros(2, len(rare))
    overlap = zeros(2, len(rare))  # of positive pairs, of negative ones
    first_order = {factor: zeros(2, len(rare)) for factor in (SMALL, 1.0)}
    for batch in range(BATCHES):
        pairs = source.pairs(experiment.streams.at("one step", batch), objective.pairs)
        present = pairs.codes_x[..., -source.minority :].abs().amax(-1) > 0
        groups = torch.stack([present, ~present])
        samples += groups.sum(-1)
        h_x, h_y = (learner(one).detach() * rare[:, None] for one in (pairs.x, pairs.y))
        overlap += torch.stack([(h_x * other).sum(-1).mean(-1) for other in (h_y, h_y.roll(1, 1))]) / BATCHES
        for name, seen in networks.items():
            with torch.enable_grad():
                loss = objective.loss.in_batch(seen(pairs.x), seen(pairs.y))
                (gradient,) = torch.autograd.grad(loss.sum(), learner.weight)
            growth[name] -= (gradient * learner.weight).sum(-1) / learner.weight.square().sum(-1) / BATCHES
            if name in hardness:
                miss = 1 - _logits(seen, pairs, objective.loss.temperature).diagonal(dim1=-2, dim2=-1)
                hardness[name] += (miss * groups).sum(-1)
        if batch < BATCHES // 10:  # in float64, which takes its time
            for factor, sums in first_order.items():
                # What is pruned is first multiplied by the factor, so that what pruning takes away is small.
                weight = learner.weight.detach().double() * torch.where(rare, factor, 1.0)[..., None]
                scaled = TokenMLPNetwork(weight, learner.tokens)
                changes = _logit_changes(scaled, together, rare, pairs.double(), objective.loss.temperature)
                sums += (changes * present).sum(-1)

    found = {
        f"growth_{kind}_{name}": Measurement(
            (grown * members).sum(-1) / members.sum(-1), f"growth of {kind} neurons, {name}", units="1/η"
        )
        for name, grown in growth.items()
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
    found["pruned_overlap"] = Measurement(overlap[0], "E[Σ h_i(X) h_i(Y)] over pruned neurons")
    found["pruned_overlap_of_negatives"] = Measurement(overlap[1], "the same of two pairs")
    found["presence"] = Measurement(samples[0] / samples.sum(0), "share of samples with a minority feature")
    return found


def one_update(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """How far a step of training is from Algorithm 1 with the gradient (5), written out in float64 (P)."""
    step, learner, objective = 0, experiment.learner, experiment.objective  # any step: only its draws matter
    trial = deepcopy(experiment)
    with torch.enable_grad():
        trial.advance(step)
    pairs = experiment.source.pairs(experiment.streams.at("batch", step), objective.pairs).double()
    at = FrozenGates(learner, pairs, objective.loss)
    (group,) = experiment.optimizer.param_groups
    expected = -group["lr"] * (at.gradient(experiment.rules["pruning"].kept) + group["weight_decay"] * at.w)
    moved = trial.learner.weight.detach() - at.w
    error = (moved - expected).flatten(1).norm(dim=-1) / expected.flatten(1).norm(dim=-1)
    return {"update_error": Measurement(error, "a step of training against Algorithm 1, relative")}


def _logit_changes(
    network: TokenMLPNetwork,
    pruning: MagnitudePruning,
    pruned: Bool[Tensor, "replica neuron"],
    pairs: TokenPairs,
    temperature: float,
) -> Float[Tensor, "2 replica pair"]:
    """Δℓ'_p by ``pruning``, which hides the neurons ``pruned``, and what it is to first order ((207)-(211))."""
    logits, after = (_logits(seen, pairs, temperature) for seen in (network, replace(pruning, start=0).on(network)))
    h_x, h_y, hidden, before = (e.cpu().numpy() for e in (network(pairs.x), network(pairs.y), pruned, logits))
    change = similarity_change(h_x, h_y, hidden)
    predicted = positive_logit_change(before, change, np.arange(change.shape[-1]), temperature)
    return torch.stack([(after - logits).diagonal(dim1=-2, dim2=-1), torch.from_numpy(predicted).to(logits)])


def _logits(seen: nn.Module, pairs: TokenPairs, temperature: float) -> Float[Tensor, "replica pair pair"]:
    return (products(seen(pairs.x), seen(pairs.y)) / temperature).softmax(-1)
