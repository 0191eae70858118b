"""Contrastive steps in one call: the same numbers, without arrays of a whole batch.

On sparse coding draws and all; on pairs of sparse tokens from signals and noise that replicas may share.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.data.sparse_coding import SparseCodingSource
from featscope.data.sparse_tokens import SparseTokensSource
from featscope.kernels import LossAndGradient, suits
from featscope.streams import Draws
from featscope.training.as_derived import AsDerived
from featscope.training.objectives import Contrastive, ContrastivePairs
from featscope.views import RandomMask

DERIVED_FROM = AsDerived(
    (Contrastive, "batch"),
    (SparseCodingSource, "sample"),
    (RandomMask, "__call__"),
    (Draws, "signs"),
    (Draws, "uniform"),
    (Draws, "normal"),
    (Draws, "halves"),
    (SparseTokensSource, "pairs"),
)


def whole_step(
    weight: Float[Tensor, "replica neuron input"],
    threshold: Float[Tensor, "replica neuron"],
    objective: Contrastive,
    source: Any,
    draws: Draws,
) -> LossAndGradient | None:
    """A step of a layer of symmetrised ReLU neurons on anchors, positives and negatives from ``draws``, at τ = 1.

    Returns:
        None where the batch is made in another way, or no machine code is wanted. Nothing has been drawn then.
    """
    if (
        type(objective) is not Contrastive
        or type(objective.view) is not RandomMask
        or type(source) is not SparseCodingSource
    ):
        return None
    dictionary, chance, std = source.dictionary, source.config.activity, source.config.noise_variance**0.5
    if not (isinstance(chance, float) and isinstance(std, float) and draws.all_differ):  # one law for all replicas
        return None
    if not _fits(weight, dictionary, objective, source, draws):
        return None
    if not (dictionary.is_contiguous() and weight.is_contiguous() and suits(weight, threshold, dictionary)):
        return None
    from featscope.kernels import contrastive, contrastive_team

    sizes, law, threads = (objective.anchors, objective.negatives), (chance, std), torch.get_num_threads()
    batch = sizes, law, *draws.skip(sum(contrastive.blocks(*sizes, *dictionary.shape[1:])))
    if threads > 1 and len(weight) == 1 and contrastive_team.is_divisible(objective.anchors):
        return contrastive_team.step(weight, threshold, dictionary, *batch, threads)
    return contrastive.step(weight, threshold, dictionary, *batch)


def whole_step_of_pairs(
    weight: Float[Tensor, "replica neuron input"],
    threshold: Float[Tensor, "replica neuron"],
    tokens: int,
    objective: ContrastivePairs,
    source: Any,
    draws: Draws,
    kept: Float[Tensor, "replica neuron"] | None = None,
) -> LossAndGradient | None:
    """The same on pairs, of which the layer says ``tokens`` times what it does of their mean tokens.

    That is what it says of sums of tokens, with thresholds of so many times the size. ``kept`` is 0 for neurons that
    are hidden from similarities.

    Returns:
        None where the batch is made in another way, pairs hold tokens rather than their means, or no machine code is
        wanted. Nothing has been drawn then.
    """
    if type(objective) is not ContrastivePairs or objective.noise != "dense" or type(source) is not SparseTokensSource:
        return None
    if not source.means or not _fits(weight, source.dictionary, objective, source, draws):
        return None
    given = (weight, threshold, source.dictionary, *([] if kept is None else [kept]))
    if not (all(one.is_contiguous() for one in given) and suits(*given, source.activity, source.noise_std)):
        return None
    from featscope.kernels import pairs

    codes, std, noise, places = source.pairs_unmixed(draws, objective.pairs)
    scaled = tokens * threshold, source.dictionary, tokens * codes, tokens * std
    return pairs.gradient(weight, *scaled, noise, places.int(), kept)


def _fits(weight: Tensor, dictionary: Tensor, objective: Any, source: Any, draws: Draws) -> bool:
    """Whether every replica has a layer and a dictionary, of as many inputs, and nothing has been replaced."""
    (replicas, _, inputs), (dictionaries, of_dictionary, _) = weight.shape, dictionary.shape
    alike = replicas == dictionaries == draws.replicas and inputs == of_dictionary
    return alike and type(draws) is Draws and DERIVED_FROM.holds(objective, source, draws)
