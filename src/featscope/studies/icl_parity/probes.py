"""What is measured of networks that are set by hand, trained, or searched."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.data import ParityPromptSource
from featscope.models import ReLULinearAttention
from featscope.studies.icl_parity.endless import ConstructedNetworks, EveryPrompt
from featscope.studies.icl_parity.prompted import LARGEST, MEANS, judged
from featscope.studies.icl_parity.trained import SHARP, SearchedNetwork
from featscope.theory import sparse_parity as theory
from featscope.training import GradientTraining, Measurement, Recursion

SHOWN = 256
"""Examples in the prompts by which trained networks are judged."""
_JUDGED, _AT_A_TIME = 400, 100
_ABOUT = {
    "accuracy": "share of right answers; one of zero counts as half",
    "hinge": "mean hinge loss",
    "signal_loss": "mean hinge loss of h at the signal alone",
    "noise_power": "mean of ‖P_D Ξ‖²",
    "gap_quantile": "90 % quantile of |g - h| at signal and noise",
    "off_identity": "largest |g - h(θ, S)|",
    "off_projection": "largest |h(θ, P_D S) - h(θ, S)|",
}


def constructed(experiment: Recursion) -> Mapping[str, Measurement]:
    """Margins of networks that are set by hand, on endless prompts, and the ranks of D."""
    learner: ConstructedNetworks = experiment.learner
    margins = torch.stack([learner.margins(network) for network in learner.networks], 1)
    own = learner.networks
    diagonals = [in_features(n.weights, learner.source).diagonal(dim1=-2, dim2=-1) for n in own]
    ranks = torch.stack([torch.linalg.matrix_rank(d, tol=1e-9) for d in diagonals], 1)
    norm = torch.stack([n.weights.square().flatten(1).sum(1) for n in own], 1)
    heads = torch.tensor([n.signs.shape[1] for n in own], device=ranks.device).expand_as(ranks)
    of_network = ("network",)
    return {
        "margin": Measurement(margins, "y g for each pattern and task", ("network", "pattern", "i", "j")),
        "rank": Measurement(ranks.double(), "rank of D", of_network),
        "heads": Measurement(heads.double(), "heads, the columns of D", of_network),
        "norm": Measurement(norm, "sum of squared weights", of_network),
    }


def prompted(experiment: Recursion) -> Mapping[str, Measurement]:
    """Of networks of every size on prompts with an end."""
    learner, size = experiment.learner, ("size",)
    means = {name: Measurement(learner.mean(name), _ABOUT[name], size) for name in MEANS}
    return means | {name: Measurement(learner.get_buffer(name), _ABOUT[name], size) for name in LARGEST}


def in_features(
    weights: Float[Tensor, "replica head d d"], source: ParityPromptSource
) -> Float[Tensor, "replica head d d"]:
    """V = Gᵀ W G."""
    g = source.dictionary.to(weights)[:, None]
    return g.mT @ weights @ g


def diagonal_share(matrices: Float[Tensor, "replica head d d"]) -> Float[Tensor, "replica"]:
    """Share of the squared entries that are on diagonals."""
    kept = matrices.diagonal(dim1=-2, dim2=-1).square().flatten(1).sum(1)
    return kept / matrices.square().flatten(1).sum(1)


@torch.no_grad()
def trained(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Losses of trained networks on endless prompts and on some with an end, and what they are made of."""
    network: ReLULinearAttention = experiment.learner
    source = experiment.source
    every = EveryPrompt(source, network.weights.dtype)
    margins, inside = every.margins(network), every.inside[0]
    tasks = every.hinge(margins)
    shown = torch.nn.functional.one_hot(every.pattern[0, inside], 4).to(margins)
    patterns = torch.einsum("rtq,tqp->rp", margins[:, inside], shown) / shown.sum((0, 1))
    matrices = in_features(network.weights, source)
    accuracy, hinge = _on_prompts(experiment)
    return {
        "inner_loss": Measurement(tasks[:, inside].mean(1), "hinge loss on S_1, endless prompts"),
        "outer_loss": Measurement(tasks[:, ~inside].mean(1), "hinge loss on S_2, endless prompts"),
        "pattern_margin": Measurement(patterns, "mean y g of each pattern on S_1", ("pattern",)),
        "covered": Measurement(_covered(network.signs, matrices, source.options.important), "patterns of S_1 covered"),
        "diagonal": Measurement(diagonal_share(matrices), "share of V's squared entries that are on its diagonal"),
        "accuracy": Measurement(accuracy, f"share of right answers on S_1 after {SHOWN} examples"),
        "hinge": Measurement(hinge, f"hinge loss on S_1 after {SHOWN} examples"),
    }


def _on_prompts(experiment: GradientTraining) -> tuple[Tensor, Tensor]:
    source = experiment.source
    options = replace(source.options, samples=SHOWN, others=0.0)
    finite = ParityPromptSource(source.dictionary, options)
    found = []
    for step in range(_JUDGED // _AT_A_TIME):
        prompts, targets, _ = finite.sample(experiment.streams.at("judge", step), _AT_A_TIME)
        margins = experiment.learner(prompts.to(experiment.learner.weights.dtype)) * targets
        found.append(torch.stack(judged(margins)))
    accuracy, hinge = torch.stack(found).mean(0)
    return accuracy, hinge


def _covered(
    signs: Float[Tensor, "replica head"], matrices: Float[Tensor, "replica head d d"], important: int
) -> Float[Tensor, "replica"]:
    """Share of the patterns of S_1 for which a head has the label's sign and the signs of its features."""
    diagonal = matrices.diagonal(dim1=-2, dim2=-1).sign()
    pairs = torch.combinations(torch.arange(important))
    found = []
    for first, second in theory.PATTERNS:
        right = signs == first * second
        for i, j in pairs.tolist():
            found.append((right & (diagonal[..., i] == first) & (diagonal[..., j] == second)).any(1))
    return torch.stack(found, 1).double().mean(1)


@torch.no_grad()
def searched(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """The norm that a search has come to at a margin of one on every prompt, over that of Theorem 5.5.1."""
    network: SearchedNetwork = experiment.learner
    options, matrices = experiment.source.options, network.in_features.double()
    least = EveryPrompt(experiment.source).margins(network).flatten(1).amin(1)
    norm = matrices.square().flatten(1).sum(1) / least.square()
    printed = theory.printed_norm(options.features.bit_length() - 1, options.features, options.gamma)
    first, second = matrices[:, :, 0], matrices[:, :, 1]
    apart = (first - second).square().flatten(1).sum(1) / (first.square() + second.square()).flatten(1).sum(1)
    (group,), sharpness = experiment.optimizer.param_groups, experiment.objective.get_buffer("sharpness").double()
    going = torch.full_like(norm, group["lr"] / experiment.rules["cooling"].config.lr)
    return {
        "going": Measurement(going, "step size at the end over that at the start"),
        "blur": Measurement((1 - sharpness / SHARP[1]).expand_as(norm), "1 - sharpness of the smallest margin/its aim"),
        "norm_ratio": Measurement(
            torch.where(least > 0, norm / printed, torch.inf),
            "sum of squared weights at margin 1, over the printed one",
        ),
        "diagonal": Measurement(diagonal_share(matrices), "share of V's squared entries that are on its diagonal"),
        "rows_apart": Measurement(apart, "squared distance of the first two rows of V, over their squares"),
    }
