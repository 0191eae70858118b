"""The gradient of a step of Algorithm 1, as one would write it by hand (Wen & Li 2022, Section 3.1).

A prediction F = E f of what cubic neurons say of one view, f_j = Σ_p z_jp³ with z_jp = <w_j, X_p>, is compared with
what they say of the other, whose gradient is stopped. With outputs of mean 0 and variance 1 over N samples, F̂ and Ĝ,

    ∂L/∂F_kj = -(Ĝ_kj - c_j F̂_kj) / (N s_j),    ∂L/∂z_jp = 3 z_jp² (Eᵀ ∂L/∂F)_j  in the first view,

where c_j is the mean of F̂_j Ĝ_j and s_j the deviation of F_j; with outputs of norm 1, c and s are of each
sample, and there is no mean. Autograd is the reference, and does all other training.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.data import patches
from featscope.data.patches import PatchSource, ProjectedPatches
from featscope.kernels import suits
from featscope.losses import NonContrastive, non_contrastive
from featscope.models import cubic_patches
from featscope.models.cubic_patches import CubicPatchesNetwork, OnlineNetwork
from featscope.models.prediction_head import IdentityHead
from featscope.numbers import per_replica
from featscope.streams import Draws
from featscope.training import objectives
from featscope.training.as_derived import AsDerived, does_what_its_class_says, learns
from featscope.training.objectives import PredictOtherView

DERIVED_FROM = AsDerived(
    (PredictOtherView, "__call__"),
    (NonContrastive, "__call__"),
    (NonContrastive, "normalized"),
    (non_contrastive, "stop_gradient"),
    (non_contrastive, "of_length_one"),
    (non_contrastive, "per_replica"),
    (objectives, "patch_split"),
    (PatchSource, "projected"),
    (PatchSource, "codes"),
    (ProjectedPatches, "project"),
    (patches, "projected_noise"),
    (OnlineNetwork, "forward"),
    (CubicPatchesNetwork, "views"),
    (CubicPatchesNetwork, "_products"),
    (cubic_patches, "views_of_cubes"),
    (IdentityHead, "forward"),
    (IdentityHead, "off_diagonal"),
)

Outputs = Float[Tensor, "replica batch neuron"]


def gradient(learner: nn.Module, source: Any, objective: Any, draws: Draws) -> Float[Tensor, "replica"] | None:
    """See `featscope.training.closed_form.gradient`."""
    if not _is_of(learner, source, objective):
        return None
    known: Any = learner
    with torch.no_grad():
        return _step(known.encoder, known.head, source, objective, draws)


def _step(
    encoder: CubicPatchesNetwork, head: nn.Module, source: Any, objective: Any, draws: Draws
) -> Float[Tensor, "replica"]:
    from featscope.kernels import cubes

    in_first = objectives.patch_split(draws, objective.samples, source.patches)
    z, by_weights = source.projected(draws, objective.samples).project_without_autograd(encoder.weight.detach())
    first, second = cubes.sums(z, in_first)
    loss, pull = compared(objective.loss, head(first), second)
    if isinstance(head, IdentityHead):
        others = head.off_diagonal
        of_entries = (pull.mT @ first) * head.rate.sqrt()
        head.scaled.grad = of_entries - torch.diag_embed(of_entries.diagonal(dim1=-2, dim2=-1))
        pull = pull + pull @ others
    encoder.weight.grad = by_weights(cubes.slope(z, in_first, pull, torch.zeros_like(pull)))
    return loss


def compared(loss: NonContrastive, prediction: Outputs, target: Outputs) -> tuple[Float[Tensor, "replica"], Outputs]:
    """The loss of each replica, and its gradient by the prediction."""
    wanted, least = loss.normalized(target), 0.0
    if loss.normalization == "none":
        said, apart = prediction, -wanted
        agreed = (said * wanted).sum(-1).mean(-1)
    else:
        over = -2 if loss.normalization == "batch" else -1
        said, deviation = _standardized(loss, prediction)
        each = said * wanted
        correlation = each.mean(-2, keepdim=True) if over == -2 else each.sum(-1, keepdim=True)
        agreed, apart = each.sum(-1).mean(-1), (said * correlation - wanted) / deviation
        least = float(prediction.shape[-1]) if over == -2 else 1.0
    scale = 2.0 if loss.scale == "squared" else 1.0
    return (least - agreed) * scale, apart * (scale / prediction.shape[-2])


def _standardized(loss: NonContrastive, f: Outputs) -> tuple[Outputs, Float[Tensor, "replica ..."]]:
    """Outputs as the loss compares them, and what they were divided by."""
    if loss.normalization == "l2":
        length = f.norm(dim=-1, keepdim=True)
        size = length.where(length > 0, 1.0)  # of zeros, as the loss has it
        return f / size, size
    variance, mean = torch.var_mean(f, -2, correction=0, keepdim=True)
    deviation = (variance + per_replica(loss.eps, variance)).sqrt()
    return (f - mean) / deviation, deviation


def _is_of(learner: nn.Module, source: Any, objective: Any) -> bool:
    """Whether it is Algorithm 1 on drawn projections, and everything in it as it was when its gradient was derived."""
    if type(objective) is not PredictOtherView or type(learner) is not OnlineNetwork or type(source) is not PatchSource:
        return False
    loss, encoder, head = objective.loss, learner.encoder, learner.head
    if type(loss) is not NonContrastive or not loss.stop_gradient or objective.noise != "projected":
        return False
    if type(encoder) is not CubicPatchesNetwork or type(head) not in (IdentityHead, nn.Identity):
        return False
    if learns(source) or not DERIVED_FROM.holds(learner, encoder, head, source, objective, loss):
        return False
    trained: list[Any] = [encoder.weight, *head.parameters()]
    as_made = all(map(does_what_its_class_says, (learner, encoder, head)))
    if not as_made or not all(one.is_leaf and one.requires_grad and one.ndim == 3 for one in trained):
        return False
    fits = trained[0].shape[::2] == source.dictionary.shape[:2] and len(trained[-1]) == len(trained[0])
    return fits and suits(*(one.detach() for one in trained), source.dictionary)
