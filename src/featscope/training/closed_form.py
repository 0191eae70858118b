"""The gradient of InfoNCE through a layer of symmetrised ReLU neurons, as the papers write it.

    ∂L/∂w_i = 1/K Σ_k (Σ_s ℓ_s h_i(x_s) - (1 - ℓ_p) h_i(x_k⁺⁺)) 1[|<w_i, x_k⁺>| > b_i] x_k⁺

over anchors x_k⁺ with positives x_k⁺⁺ and negatives x_s, where ℓ are the shares of the softmax (Wen & Li 2021, Section
2.2). These are a few matrix products, where autograd makes some hundred small operations. Autograd is the reference,
and does all other training: `gradient` is only of parts whose methods are the very ones that it stands in for.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from featscope.data import ProjectedInputs
from featscope.data.sparse_tokens import SparseTokensSource
from featscope.kernels import multiply, suits
from featscope.losses import InfoNCE, similarity
from featscope.models import symmetric_relu, token_mlp
from featscope.models.symmetric_relu import SymmetricReLUNetwork
from featscope.models.token_mlp import TokenMLPNetwork
from featscope.numbers import per_replica
from featscope.streams import Draws
from featscope.training import closed_form_prediction
from featscope.training.hooked import hooked
from featscope.training.objectives import Contrastive, ContrastivePairs
from featscope.training.pruning import Pruner, PruningMask
from featscope.training.whole_step import whole_step, whole_step_of_pairs

_DERIVED_FROM = (
    (InfoNCE, "__call__"),
    (InfoNCE, "in_batch"),
    (similarity, "products"),
    (similarity, "paired"),
    (similarity, "stop_gradient"),
    (similarity, "_of_value"),
    (symmetric_relu, "soft_threshold"),
    (token_mlp, "soft_threshold"),
    (Pruner, "forward"),
    (ProjectedInputs, "project"),
    (SparseTokensSource, "projected_pairs"),
)
_OWNERS, _NAMES = zip(*_DERIVED_FROM, strict=True)
_AS_DERIVED = (*map(getattr, _OWNERS, _NAMES),)
_FORWARD = {kind: kind.forward for kind in (SymmetricReLUNetwork, TokenMLPNetwork)}
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


class Layer(NamedTuple):
    """A layer of symmetrised ReLU neurons; of sequences it sees the mean token, and says L times what it does of one.

    Attributes:
        weight: as the loss sees it.
        threshold: b.
        tokens: L; None where inputs are no sequences.
        kept: 1 for each neuron that logits see, 0 for one that is hidden from them; None for all.
    """

    weight: Float[Tensor, "replica neuron input"]
    threshold: Float[Tensor, "replica neuron"]
    tokens: int | None
    kept: Float[Tensor, "replica 1 neuron"] | None

    def project(self, x: Tensor) -> Rows:
        """u = W x."""
        return multiply(self.seen(x), self.weight.mT)

    def seen(self, x: Tensor) -> Float[Tensor, "replica batch input"]:
        """Mean tokens of sequences, and inputs that are no sequences, or mean tokens already, as they are."""
        return x.mean(-2) if self.tokens is not None and x.ndim == 4 else x

    def of(self, u: Rows) -> Rows:
        """L (ReLU(u - b) - ReLU(-u - b)), in place of u."""
        if suits(u):
            from featscope.kernels.rows import shrink

            shrink(u, self.threshold)
        else:
            b = self.threshold.unsqueeze(-2)
            u -= u.clamp(-b, b)
        return u if self.tokens in (None, 1) else u.mul_(self.tokens)

    def passed(self, pull: Rows, anchor: Rows) -> Rows:
        """The gradient by u, of neurons that fire."""
        fired = torch.ops.aten.hardshrink_backward(pull, anchor, 0.0)  # where anchor != 0, in one pass
        return fired if self.tokens in (None, 1) else fired.mul_(self.tokens)


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
    """The loss of each replica on a batch from ``draws``; its gradient goes where autograd would put it.

    Returns:
        None where the closed form is not of this learner and objective. Nothing has been drawn then.
    """
    known = _layer(learner) if _is_of(objective, source) else None
    if known is None:
        return closed_form_prediction.gradient(learner, source, objective, draws)
    layer, weight = known
    with torch.no_grad():
        of_this_kind = _with_negatives if type(objective).__call__ is _WITH_NEGATIVES else _of_pairs
        loss, weight.grad = of_this_kind(layer, source, objective, draws)
    return loss


def _of_pairs(layer: Layer, source: Any, objective: Any, draws: Draws) -> tuple[Tensor, Tensor]:
    if objective.noise != "dense":
        return _projected(layer, source.projected_pairs(draws, objective.pairs), objective)
    if _is_bare(layer, objective.loss):
        found = whole_step_of_pairs(layer.weight, layer.threshold, layer.tokens or 1, objective, source, draws)
        if found is not None:
            return found
    pairs = source.pairs(draws, objective.pairs)
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
    if bare and suits(*given) and all(x.stride()[1:] == (x.shape[2], 1) for x in given):
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


def _is_of(objective: Any, source: Any) -> bool:
    """Whether it is InfoNCE that is differentiated, and everything in it as it was when its gradient was derived."""
    known = type(objective).__call__ in (_WITH_NEGATIVES, _OF_PAIRS) and type(objective.loss) is InfoNCE
    dense = getattr(objective, "noise", "dense") == "dense"
    return known and (dense or type(source) is SparseTokensSource) and (*map(getattr, _OWNERS, _NAMES),) == _AS_DERIVED


def _layer(learner: nn.Module) -> tuple[Layer, nn.Parameter] | None:
    """What the loss sees of a learner, and the parameter that it is trained by; None if it is no such layer."""
    mask: PruningMask | None = None
    if type(learner) is Pruner:
        mask, learner = learner._held
        if mask.gradient == "theory" and mask.granularity != "neuron":
            return None
    kind: Any = type(learner)
    if kind not in _FORWARD or kind.forward is not _FORWARD[kind]:
        return None
    network: Any = learner
    if kind is TokenMLPNetwork and network.attention != "uniform":
        return None
    weight, bias, tokens = network.weight, network.bias, network.tokens if kind is TokenMLPNetwork else None
    if hooked(network):
        return None
    trained = weight.ndim == 3 and weight.requires_grad and not bias.requires_grad
    if not (trained and bias.shape == weight.shape[:2] and bias.dtype == weight.dtype and bias.is_contiguous()):
        return None
    seen, kept = weight.detach(), None
    if mask is not None and mask.gradient == "straight-through":
        with torch.no_grad():
            seen = mask.pruned_parameters(network)["weight"]
    elif mask is not None:
        kept = mask.kept.to(seen.dtype).unsqueeze(1)
    return Layer(seen, bias, tokens, kept), weight
