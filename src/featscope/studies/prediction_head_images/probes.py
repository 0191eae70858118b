"""What is measured on a network without negatives: on the way, and at the end.

Ranks and spectra are of standardised dimensions: "batch" normalisation shows the loss no others, and the linear probe
standardises too.
"""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.evaluation import linear_probe
from featscope.models import Encoder, IdentityHead
from featscope.models.prediction_head import matrix_of
from featscope.probes import collapse
from featscope.probes.filters import distance
from featscope.probes.readout import features_of, one_thread
from featscope.probes.targets import gradient_to_targets
from featscope.training import GradientTraining, Measurement

one = Measurement.of_one
WATCHED, COLLAPSED = 512, 2000  # most test images that collapse is measured on, on the way and at the end
RANK, CORRELATION = "effective rank of standardised dimensions", "mean |correlation| of two dimensions"
SPREAD = "variance of directions on the sphere"


def during(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Collapse of encoder and projection on test images, and where the prediction head is."""
    found = {}
    for name, z in representations(experiment, WATCHED).items():
        rank = collapse.effective_rank(collapse.standardised(z))
        found[f"{name}_rank"] = one(rank, f"{name} outputs: {RANK}")
        found[f"{name}_correlation"] = one(collapse.mean_correlation(z), f"{name} outputs: {CORRELATION}")
        found[f"{name}_spread"] = one(collapse.spread(z), f"{name} outputs: {SPREAD}")
    head = experiment.objective.head
    if isinstance(head, IdentityHead):
        off = head.off_diagonal
        found["head_off_diagonal"] = one(off.norm(), "||offdiag(E)||_F of the prediction head")
        found["head_difference"] = one((off - off.mT).norm(), "||E - Eᵀ||_F of the prediction head")
    return found


def at_the_end(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Spectra and correlations of encoder and projection on test images."""
    found = {}
    for name, z in representations(experiment, COLLAPSED).items():
        alike, about = collapse.standardised(z), f"correlations of {name} outputs over test images"
        matrix, axes = collapse.correlation_matrix(z), (f"{name}_output", f"other_{name}_output")
        spectrum = collapse.singular_spectrum(alike)
        found[f"{name}_spectrum"] = one(spectrum, "singular values over √images", f"{name}_axis")
        found[f"{name}_correlations"] = one(matrix, about, *axes)
        found[f"{name}_mean_correlation"] = one(collapse.mean_correlation(z), CORRELATION)
        found[f"{name}_effective_rank"] = one(collapse.effective_rank(alike), RANK)
        found[f"{name}_final_spread"] = one(collapse.spread(z), SPREAD)
    return found


@one_thread
def readout(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Test accuracy of a linear probe on the frozen encoder, without augmentation (Section 8)."""
    encoder, train, test = experiment.learner, experiment.source.train_set, experiment.source.test_set
    fitted, measured = (features_of(encoder, images.pixels).cpu() for images in (train, test))
    accuracy = linear_probe(fitted, train.labels, measured, test.labels).value
    return {"linear_probe": one(torch.tensor(accuracy), "test accuracy of logistic regression")}


def parts(experiment: GradientTraining, initial: Encoder) -> Mapping[str, Measurement]:
    """Whether loss, head and target network are what they are said to be."""
    objective, encoder = experiment.objective, experiment.learner
    z = representations(experiment, WATCHED)["projection"]
    ratio = gradient_to_targets(objective.loss, objective.head(z), z)
    along = gradient_along(objective.loss, objective.head(z), z.roll(1, 0))
    found = {"target_gradient": one(ratio, "norm of the loss's gradient to targets over that to predictions")}
    found["length_gradient"] = one(along, "share of the loss's gradient to predictions that is along them")
    if isinstance(objective.head, IdentityHead | nn.Linear):
        error = (matrix_of(objective.head).diagonal() - 1).abs().max()
        found["head_diagonal_error"] = one(error, "largest |E_jj - 1| of what the head does")
    if objective.target is not None:
        (followed, _) = objective.target.average.children()
        lag = distance(followed, encoder) / distance(initial, encoder)
        found["target_lag"] = one(lag, "distance of target and encoder over that of start and encoder")
    return found


@torch.enable_grad()
def gradient_along(
    loss: Callable[[Tensor, Tensor], Tensor],
    prediction: Float[Tensor, "image output"],
    target: Float[Tensor, "image output"],
) -> Float[Tensor, ""]:
    """Norm of what of the gradient of ``loss(prediction, target)`` is along the predictions, over its own; in float64.

    0 if the loss does not see their lengths.
    """
    prediction, target = prediction.detach().double().requires_grad_(), target.detach().double()
    (gradient,) = torch.autograd.grad(loss(prediction, target), prediction)
    direction = prediction.detach() / prediction.detach().norm(dim=-1, keepdim=True)
    return (gradient * direction).sum(-1).norm() / gradient.norm()


def representations(experiment: GradientTraining, images: int) -> Mapping[str, Tensor]:
    """What encoder and projection put out on the first test images."""
    h = features_of(experiment.learner, experiment.source.test_set.pixels[:images])
    return {"encoder": h, "projection": experiment.objective.projection(h)}
