"""The gradient of InfoNCE through a layer of symmetrised ReLU neurons, as the papers write it.

    ∂L/∂w_i = 1/K Σ_k (Σ_s ℓ_s h_i(x_s) - (1 - ℓ_p) h_i(x_k⁺⁺)) 1[|<w_i, x_k⁺>| > b_i] x_k⁺

over anchors x_k⁺ with positives x_k⁺⁺ and negatives x_s, where ℓ are the shares of the softmax (Wen & Li 2021, Section
2.2).
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from featscope.data import ProjectedInputs, projected_noise
from featscope.data.sparse_tokens import SparseTokensSource
from featscope.kernels import multiply, suits
from featscope.losses import InfoNCE, info_nce, similarity
from featscope.numbers import per_replica
from featscope.streams import Draws
from featscope.training.as_derived import AsDerived, learns
from featscope.training.closed_form_layer import DERIVED_FROM as LAYER
from featscope.training.closed_form_layer import Layer, layer_of
from featscope.training.objectives import Contrastive, ContrastivePairs, require_one_shape
from featscope.training.whole_step import whole_step, whole_step_of_pairs

DERIVED_FROM = AsDerived(
    *LAYER.places,
    (InfoNCE, "__call__"),
    (InfoNCE, "in_batch"),
    (InfoNCE, "_over_temperature"),
    (InfoNCE, "_scaled"),
    (info_nce, "products"),
    (info_nce, "paired"),
    (info_nce, "per_replica"),
    (info_nce, "_LogSumExpOver"),
    (info_nce, "_in_full"),
    (info_nce, "_wide"),
    (similarity, "stop_gradient"),
    (similarity, "_of_value"),
    (similarity, "_masked"),
    (Contrastive, "__call__"),
    (ContrastivePairs, "__call__"),
    (ProjectedInputs, "project"),
    (projected_noise, "projected_noise"),
    (SparseTokensSource, "projected_pairs"),
)
_WITH_NEGATIVES, _OF_PAIRS = Contrastive.__call__, ContrastivePairs.__call__

Rows = Float[Tensor, "replica batch neuron"]
Keys = Float[Tensor, "replica key neuron"]


class Pull(NamedTuple):
    """A loss, and its gradient by the representations of anchors.

    Attributes:
        loss: of each replica.
        on_anchors: the gradient.
    """

    loss: Float[Tensor, "replica"]
    on_anchors: Rows


def from_negatives(logits_of: Rows, positive: Rows, negatives: Keys) -> Pull:
    """InfoNCE at τ = 1 with one set of negatives: 1/K (Σ_s ℓ_s f(x_s) - (1 - ℓ_p) f(x⁺⁺)).

    As ℓ_s = (1 - ℓ_p) q_s with q the softmax over negatives alone, that is (1 - ℓ_p)/K (Σ_s q_s f(x_s) - f(x⁺⁺)).
    """
    products = multiply(logits_of, negatives.mT)
    if suits(products):
        from featscope.kernels.rows import contrast

        loss, pull = contrast(products, logits_of, positive)
        return Pull(loss, multiply(products, negatives, pull))
    share = products.softmax(-1)
    others = products.amax(-1) - share.amax(-1).log()
    ahead = (logits_of * positive).sum(-1) - others
    doubt = torch.sigmoid(-ahead) / ahead.shape[-1]
    pull = torch.baddbmm(positive, share, negatives, beta=-1)
    return Pull(-logsigmoid(ahead).mean(-1), doubt.unsqueeze(-1) * pull)


def from_other_pairs(logits_of: Rows, positive: Rows) -> Pull:
    """InfoNCE at τ = 1 where other pairs' positives are an anchor's negatives: 1/K (Σ_s ℓ_s f(x_s⁺⁺) - f(x⁺⁺))."""
    products = multiply(logits_of, positive.mT)
    if suits(products):
        from featscope.kernels.rows import within_batch

        loss = within_batch(products)
        return Pull(loss, multiply(products, positive))
    log_share = products.log_softmax(-1)
    loss = -log_share.diagonal(dim1=-2, dim2=-1).mean(-1)
    return Pull(loss, torch.baddbmm(positive, log_share.exp(), positive, beta=-1) / products.shape[-1])


def pulled(layer: Layer, loss: InfoNCE, anchor: Rows, positive: Rows, negatives: Keys | None) -> Pull:
    """A loss and its gradient by u of anchors; without negatives, other pairs' positives are those."""
    logits_of = anchor if layer.kept is None else anchor * layer.kept
    temperature = per_replica(loss.temperature, anchor)
    if not _is_one(temperature):
        logits_of = logits_of / temperature
    pull = (
        from_other_pairs(logits_of, positive) if negatives is None else from_negatives(logits_of, positive, negatives)
    )
    value, on_anchors = pull
    if loss.scale == "tau":
        value = per_replica(loss.temperature, value) * value
    else:
        on_anchors = on_anchors / temperature
    return Pull(value, layer.passed(on_anchors, anchor))


def gradient(learner: nn.Module, source: Any, objective: Any, draws: Draws) -> Float[Tensor, "replica"] | None:
    """See `featscope.training.closed_form.gradient`."""
    known = layer_of(learner) if _is_of(learner, objective, source) else None
    if known is None:
        return None
    layer, weight = known
    if layer.kept is not None and getattr(objective, "noise", "dense") != "dense":
        return None  # two networks would look at noise that exists for one alone, which autograd refuses
    with torch.no_grad():
        of_this_kind = _with_negatives if type(objective).__call__ is _WITH_NEGATIVES else _of_pairs
        loss, weight.grad = of_this_kind(layer, source, objective, draws)
    return loss


def _of_pairs(layer: Layer, source: Any, objective: Any, draws: Draws) -> tuple[Tensor, Tensor]:
    if objective.noise != "dense":
        return _projected(layer, source.projected_pairs(draws, objective.pairs), objective)
    if _is_one(objective.loss.temperature):
        kept, whole = None if layer.kept is None else layer.kept[:, 0].contiguous(), (layer.weight, layer.threshold)
        found = whole_step_of_pairs(*whole, layer.tokens or 1, objective, source, draws, kept)
        if found is not None:
            return found
    pairs = source.pairs(draws, objective.pairs)
    require_one_shape(pairs.x, pairs.y)
    x = layer.seen(pairs.x)
    anchor, positive = (layer.of(layer.project(one)) for one in (x, pairs.y))
    loss, pull = pulled(layer, objective.loss, anchor, positive, None)
    return loss, multiply(pull.mT, x)


def _with_negatives(layer: Layer, source: Any, objective: Any, draws: Draws) -> tuple[Tensor, Tensor]:
    bare = layer.tokens is None and _is_bare(layer, objective.loss)
    if bare and (found := whole_step(layer.weight, layer.threshold, objective, source, draws)) is not None:
        return found
    inputs = objective.batch(source, draws)
    given = layer.weight, *inputs
    alike = all(x.shape[::2] == given[0].shape[::2] and x.stride()[1:] == (x.shape[2], 1) for x in inputs)
    if bare and alike and suits(*given) and layer.weight.is_contiguous():
        from featscope.kernels import contrastive

        return contrastive.gradient(layer.weight, layer.threshold, *inputs)
    loss, pull = pulled(layer, objective.loss, *(layer.of(layer.project(x)) for x in inputs))
    return loss, multiply(pull.mT, layer.seen(inputs[0]))


def _is_bare(layer: Layer, loss: InfoNCE) -> bool:
    """Whether it is the papers' own formula: no mask, no temperature."""
    return layer.kept is None and _is_one(loss.temperature)


def _is_one(temperature: Any) -> bool:
    return isinstance(temperature, float) and temperature == 1


def _projected(layer: Layer, inputs: ProjectedInputs, objective: Any) -> tuple[Tensor, Tensor]:
    """The same for inputs that are never made, whose gradient by weights is their own matter."""
    u, slope = inputs.project_without_autograd(layer.weight)
    anchor, positive = layer.of(u).split(objective.pairs, 1)
    loss, pull = pulled(layer, objective.loss, anchor, positive, None)
    return loss, slope(pull)


def _is_of(learner: nn.Module, objective: Any, source: Any) -> bool:
    """Whether it is InfoNCE that is differentiated, and everything in it as it was when its gradient was derived."""
    known = type(objective).__call__ in (_WITH_NEGATIVES, _OF_PAIRS) and type(objective.loss) is InfoNCE
    dense = getattr(objective, "noise", "dense") == "dense"
    if not known or learns(source) or learns(getattr(objective, "view", None)):
        return False
    return (dense or type(source) is SparseTokensSource) and DERIVED_FROM.holds(
        learner, source, objective, objective.loss
    )
