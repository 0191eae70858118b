"""What is measured on a network: along the way, and what a single step would do."""

from collections.abc import Mapping
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.data import SparseTokensSource
from featscope.losses import products
from featscope.models import TokenMLPNetwork
from featscope.probes import alignment, owner
from featscope.theory.pruning import positive_logit_change, similarity_change
from featscope.training import ContrastivePairs, Experiment, MagnitudePruning, Measurement
from featscope.training.pruning import PruningMask

BATCHES = 60
FIRST_ORDER_PAIRS = 256
SMALL = 0.05  # factor on the pruned neurons' weights for which the first order must be all there is


def parts(experiment: Experiment) -> tuple[SparseTokensSource, TokenMLPNetwork, PruningMask]:
    """Source, learner and pruning mask."""
    (mask,) = (rule for rule in experiment.rules if isinstance(rule, PruningMask))
    return cast(SparseTokensSource, experiment.source), cast(TokenMLPNetwork, experiment.learner), mask


def trajectory(experiment: Experiment) -> Mapping[str, Measurement]:
    """Measured along the way."""
    source, learner, mask = parts(experiment)
    cosines = alignment(learner.weight, source.dictionary)
    energy = (learner.weight @ source.dictionary).square().sum(-2)
    first_rare = cosines.shape[-1] - source.minority
    single = (cosines.square() > 0.5).float().sum(-2)
    rare, common = energy[..., first_rare:].mean(-1), energy[..., :first_rare].mean(-1)
    pruned = ~mask.kept
    of_rare = owner(cosines) >= first_rare
    share = (pruned & of_rare).sum(-1) / pruned.sum(-1)  # NaN where nothing is pruned
    return {
        "minority_energy": Measurement(rare, (), "1", "F_j = Σ_i <w_i, M_j>², minority features"),
        "majority_energy": Measurement(common, (), "1", "F_j, majority features"),
        "energy_ratio": Measurement(rare / common, (), "1", "F_min / F_maj"),
        "largest_energy": Measurement(energy.amax(-1), (), "1", "largest F_j of any feature"),
        "minority_singletons": Measurement(
            single[..., first_rare:].mean(-1), (), "neurons", "singletons of a minority feature"
        ),
        "majority_singletons": Measurement(
            single[..., :first_rare].mean(-1), (), "neurons", "singletons of a majority feature"
        ),
        "overlap": Measurement(share, (), "1", "share of the pruned neurons that belong to a minority feature"),
    }


def one_step(experiment: Experiment) -> Mapping[str, Measurement]:
    """What pruning does to logits and gradients at the planted start, over `BATCHES` batches.

    Growth is -<g_i, w_i>/||w_i||² of the data gradient g: what a step adds to the norm, relative to it and to η.
    """
    source, learner, mask = parts(experiment)
    objective = cast(ContrastivePairs, experiment.objective)
    rare = mask_of_smallest(learner, source.minority)
    neurons = rare.sum(-1)[0].item()
    total = learner.weight.shape[-2]
    masks = {
        "whole": None,
        "one": MagnitudePruning(1 / total),
        "pruned": MagnitudePruning(neurons / total),
        "straight_through": MagnitudePruning(neurons / total, gradient="straight-through"),
    }
    growth = {name: torch.zeros(learner.weight.shape[:2]) for name in masks}
    hardness = {name: torch.zeros(2, len(rare)) for name in ("whole", "pruned")}
    for batch in range(BATCHES):
        pairs = source.pairs(experiment.streams.at("one step", batch), objective.pairs)
        present = pairs.codes_x[..., -source.minority :].abs().amax(-1) > 0
        for name, pruning in masks.items():
            seen = learner if pruning is None else pruning.on(learner)
            with torch.enable_grad():
                loss = objective.loss.in_batch(seen(pairs.x), seen(pairs.y))
                (gradient,) = torch.autograd.grad(loss.sum(), learner.weight)
            rate = -(gradient * learner.weight).sum(-1) / learner.weight.square().sum(-1)
            growth[name] = growth[name] + rate / BATCHES
            if name in hardness:
                miss = 1 - _positive_logit(products(seen(pairs.x), seen(pairs.y)), objective.loss.temperature)
                for row, where in enumerate((present, ~present)):
                    hardness[name][row] += (miss * where).sum(-1) / where.sum(-1) / BATCHES
    small = _first_order(experiment, SMALL)
    whole = _first_order(experiment, 1.0)

    def of(name: str, members: Tensor) -> Tensor:
        return (growth[name] * members).sum(-1) / members.sum(-1)

    found = {
        f"growth_{kind}_{name}": Measurement(of(name, members), (), "1/η", f"growth of {kind} neurons, {name}")
        for name in masks
        for kind, members in (("minority", rare), ("majority", ~rare))
    }
    found |= {
        f"hardness_{where}_{name}": Measurement(hardness[name][row], (), "1", f"E[1 - ℓ'_p], {where} samples, {name}")
        for name in hardness
        for row, where in enumerate(("minority", "other"))
    }
    found["pruned_gradient"] = Measurement(
        (growth["straight_through"] * rare).abs().amax(-1), (), "1/η", "largest data growth of a pruned neuron, STE"
    )
    found["first_order_small"] = Measurement(small, (), "1", f"Δℓ'_p over its first order, weights times {SMALL}")
    found["first_order_whole"] = Measurement(whole, (), "1", "Δℓ'_p over its first order, whole neurons")
    return found


def mask_of_smallest(learner: TokenMLPNetwork, minority: int) -> Tensor:
    """Which neurons are the planted minority's: the smallest, as many of them as belong to ``minority`` features."""
    norm = learner.weight.norm(dim=-1)
    return norm <= norm.amin(-1, keepdim=True) * (1 + 1e-4) if minority else norm < 0


def _positive_logit(
    similarity: Float[Tensor, "replica pair pair"], temperature: float
) -> Float[Tensor, "replica pair"]:
    return (similarity / temperature).softmax(-1).diagonal(dim1=-2, dim2=-1)


def _first_order(experiment: Experiment, factor: float) -> Float[Tensor, "replica"]:
    """Mean Δℓ'_p on samples with the minority feature over its first-order prediction (P (207)-(211)).

    The neurons that are pruned are first multiplied by ``factor``, so that what pruning takes away is small.
    """
    source, learner, _ = parts(experiment)
    tau = cast(ContrastivePairs, experiment.objective).loss.temperature
    rare = mask_of_smallest(learner, source.minority)
    pairs = source.pairs(experiment.streams.at("first order"), FIRST_ORDER_PAIRS, dtype=torch.float64)
    weight = learner.weight.detach().double() * torch.where(rare, factor, 1.0)[..., None]
    h_x, h_y = (learner.tokens * x @ weight.mT for x in (pairs.x, pairs.y))
    kept = ~rare[:, None]
    before = _positive_logit(h_x @ h_y.mT, tau)
    after = _positive_logit((h_x * kept) @ (h_y * kept).mT, tau)
    present = pairs.codes_x[..., -source.minority :].abs().amax(-1) > 0
    ratios = []
    for r in range(len(rare)):
        change = similarity_change(h_x[r].numpy(), h_y[r].numpy(), rare[r].numpy())
        logits = (h_x[r] @ h_y[r].T / tau).softmax(-1).numpy()
        predicted = positive_logit_change(logits, change, torch.arange(len(logits)).numpy(), tau)
        true = (after - before)[r].numpy()
        ratios.append(true[present[r]].mean() / predicted[present[r]].mean())
    return torch.tensor(ratios)
