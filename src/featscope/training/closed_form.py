"""Gradients that are written by hand: a few matrix products where autograd makes some hundred small operations.

Autograd is the reference, and does all other training: a closed form is only of parts whose methods are the very ones
that it stands in for. Where one of these is edited, its closed form is to be derived again: tests compare the two.
"""

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from featscope.streams import Draws
from featscope.training import closed_form_contrastive, closed_form_prediction, closed_form_supervised

_OF_KINDS = closed_form_contrastive.gradient, closed_form_prediction.gradient, closed_form_supervised.gradient


def gradient(learner: nn.Module, source: Any, objective: Any, draws: Draws) -> Float[Tensor, "replica"] | None:
    """The loss of each replica on a batch from ``draws``; its gradient stands where autograd would add it.

    Returns:
        None where no closed form is of these parts. Nothing has been drawn then.
    """
    for of_this_kind in _OF_KINDS:
        loss = of_this_kind(learner, source, objective, draws)
        if loss is not None:
            return loss
    return None
