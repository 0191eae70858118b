"""The gradient of logistic losses of linear heads on symmetrised ReLU neurons, as one would write it by hand.

With y_kt the sign label of sample x_k in task t (0 for none), N_t labelled samples, margins m_kt = y_kt <v_t, h(x_k)>
and p_kt = -y_kt σ(-m_kt) / N_t,

    ∂L/∂v_t = Σ_k p_kt h(x_k),    ∂L/∂w_i = Σ_k (Σ_t p_kt v_ti) 1[|<w_i, x_k>| > b_i] x_k

(Wen & Li 2021, Definition 3.1 and Section 2.2). Autograd is the reference, and does all other training.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from featscope.data.sparse_coding import SparseCodingSource
from featscope.kernels import multiply
from featscope.models.symmetric_relu import SymmetricReLUNetwork
from featscope.streams import Draws
from featscope.training import objectives
from featscope.training.as_derived import AsDerived, does_what_its_class_says, learns
from featscope.training.closed_form_layer import DERIVED_FROM as LAYER
from featscope.training.closed_form_layer import Layer, layer_of
from featscope.training.objectives import Supervised

DERIVED_FROM = AsDerived(*LAYER.places, (Supervised, "forward"), (Supervised, "signs"), (objectives, "softplus"))


def gradient(learner: nn.Module, source: Any, objective: Any, draws: Draws) -> Float[Tensor, "replica"] | None:
    """See `featscope.training.closed_form.gradient`."""
    known = layer_of(learner) if _is_of(learner, source, objective) else None
    if known is None:
        return None
    layer, weight = known
    with torch.no_grad():
        loss, weight.grad, objective.head.grad = _step(layer, source, objective, draws)
    return loss


def _step(layer: Layer, source: SparseCodingSource, objective: Supervised, draws: Draws) -> tuple[Tensor, ...]:
    sample = source.sample(draws, objective.samples)
    x, heads = sample.x, objective.head.detach().reshape(len(layer.weight), -1, layer.weight.shape[1])
    y = objective.signs(sample).reshape(*x.shape[:2], -1)
    f = layer.of(layer.project(x))
    margin = y * multiply(f, heads.mT)
    share = y.abs()
    share = share / share.sum(1, keepdim=True).clamp_min(1)
    pull = -y * share * torch.sigmoid(-margin)
    of_weight = multiply(layer.passed(multiply(pull, heads), f).mT, x)
    return (softplus(-margin) * share).sum((1, 2)), of_weight, multiply(pull.mT, f).reshape(objective.head.shape)


def _is_of(learner: nn.Module, source: Any, objective: Any) -> bool:
    """Whether it is this loss on this layer and data, and everything in it as it was when its gradient was derived."""
    if type(objective) is not Supervised or type(learner) is not SymmetricReLUNetwork:
        return False
    if type(source) is not SparseCodingSource or learns(source) or learns(objective.labels):
        return False
    weight, head = learner.weight, objective.head
    if head.ndim < 2 or (head.shape[0], head.shape[-1]) != weight.shape[:2]:
        return False
    if weight.shape[::2] != source.dictionary.shape[:2] or not head.requires_grad:
        return False
    return does_what_its_class_says(objective) and DERIVED_FROM.holds(learner, source, objective)
