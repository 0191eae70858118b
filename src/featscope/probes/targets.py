"""Whether the targets of a loss are constants to it."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

Embeddings = Float[Tensor, "batch output"]


@torch.enable_grad()
def gradient_to_targets(
    loss: Callable[[Tensor, Tensor], Tensor], prediction: Embeddings, target: Embeddings
) -> Float[Tensor, ""]:
    """Norm of the gradient of ``loss(prediction, target)`` to the targets over that to the predictions.

    0 if no gradient flows through the targets, as under a stop-gradient.
    """
    prediction, target = (each.detach().clone().requires_grad_() for each in (prediction, target))
    to_prediction, to_target = torch.autograd.grad(loss(prediction, target), (prediction, target), allow_unused=True)
    if to_target is None:
        return prediction.new_zeros(())
    return to_target.norm() / to_prediction.norm()
