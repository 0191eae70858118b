"""What is measured on an experiment without negatives, during training and after it.

A replica is one experiment; every measurement has a leading replica axis of 1. Ranks and spectra are of standardised
dimensions: "batch" normalisation shows the loss no others, and the linear probe standardises too.
"""

import torch
from jaxtyping import Float
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from featscope.data import ImageSource
from featscope.data.images import as_float
from featscope.models import Encoder, IdentityHead
from featscope.probes.collapse import (
    correlation_matrix,
    effective_rank,
    mean_correlation,
    singular_spectrum,
    spread,
    standardised,
)
from featscope.probes.readout import linear_probe
from featscope.training import Measurement
from featscope.training.experiment import Experiment
from featscope.training.image_objectives import PredictViews

WATCHED, COLLAPSED = 512, 2000
"""Most test images that collapse is measured on, during training and after it."""
_AT_ONCE = 500  # images through the network at once


def during(experiment: Experiment) -> dict[str, Measurement]:
    """Collapse of encoder and projection on test images, and where the prediction head is."""
    measured = {}
    for name, z in _representations(experiment, WATCHED).items():
        measured[f"{name}_rank"] = _single(
            effective_rank(standardised(z)), f"{name} outputs: effective rank of standardised dimensions"
        )
        measured[f"{name}_correlation"] = _single(
            mean_correlation(z), f"{name} outputs: mean |correlation| of two dimensions"
        )
        measured[f"{name}_spread"] = _single(spread(z), f"{name} outputs: variance of directions on the sphere")
    head = _objective(experiment).head
    if isinstance(head, IdentityHead):
        off = head.off_diagonal
        measured["head_off_diagonal"] = _single(off.norm(), "||offdiag(E)||_F of the prediction head")
        measured["head_difference"] = _single((off - off.mT).norm(), "||E - Eᵀ||_F of the prediction head")
    return measured


def collapse(experiment: Experiment) -> dict[str, Measurement]:
    """Spectra and correlations of encoder and projection on test images."""
    measured = {}
    for name, z in _representations(experiment, COLLAPSED).items():
        dims = f"{name}_output", f"other_{name}_output"
        measured[f"{name}_spectrum"] = Measurement(
            singular_spectrum(standardised(z))[None], (f"{name}_axis",), about="singular values over √images"
        )
        measured[f"{name}_correlations"] = Measurement(
            correlation_matrix(z)[None], dims, about=f"correlations of {name} outputs over test images"
        )
        measured[f"{name}_mean_correlation"] = _single(mean_correlation(z), "mean |correlation| of two dimensions")
        measured[f"{name}_effective_rank"] = _single(
            effective_rank(standardised(z)), "effective rank of standardised dimensions"
        )
        measured[f"{name}_final_spread"] = _single(spread(z), "variance of directions on the sphere")
    return measured


def readout(experiment: Experiment) -> dict[str, Measurement]:
    """Test accuracy of a linear probe on the frozen encoder, without augmentation (Section 8)."""
    encoder, source = _encoder(experiment), _source(experiment)
    train, test = source.train_set, source.test_set
    with threadpool_limits(1):  # BLAS threads that spin at barriers beside other workers cost a factor of 10
        accuracy = linear_probe(
            _through(encoder, train.pixels).cpu(), train.labels, _through(encoder, test.pixels).cpu(), test.labels
        )
    return {"linear_probe": _single(torch.tensor(accuracy), "test accuracy of logistic regression")}


def parts(experiment: Experiment, initial: Encoder) -> dict[str, Measurement]:
    """Whether loss, head and target network are what they are said to be."""
    objective, encoder = _objective(experiment), _encoder(experiment)
    measured = {
        "target_gradient": _single(
            _target_gradient(experiment), "norm of the loss's gradient to targets over that to predictions"
        )
    }
    if isinstance(objective.head, IdentityHead | nn.Linear):
        error = (_matrix(objective.head).diagonal() - 1).abs().max()
        measured["head_diagonal_error"] = _single(error, "largest |E_jj - 1| of what the head does")
    if objective.target is not None:
        (followed, _) = objective.target.average.children()
        lag = _distance(followed, encoder) / _distance(initial, encoder)
        measured["target_lag"] = _single(lag, "distance of target and encoder over that of start and encoder")
    return measured


@torch.enable_grad()
def _target_gradient(experiment: Experiment) -> Float[Tensor, ""]:
    objective = _objective(experiment)
    with torch.no_grad():
        z = _representations(experiment, WATCHED)["projection"]
        both = objective.head(z), z
    prediction, target = (each.clone().requires_grad_() for each in both)
    objective.loss(prediction, target).backward()
    assert prediction.grad is not None
    if target.grad is None:
        return torch.zeros(())
    return target.grad.norm() / prediction.grad.norm()


def _matrix(head: nn.Module) -> Float[Tensor, "output other"]:
    """E of an affine head z -> E z + b, from what it does to the unit vectors."""
    inputs = next(head.parameters()).shape[-1]
    zero = torch.zeros(1, inputs, device=next(head.parameters()).device)
    unit = torch.eye(inputs, device=zero.device)
    return (head(unit) - head(zero)).mT


def _distance(one: nn.Module, other: nn.Module) -> Float[Tensor, ""]:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return torch.stack([(a - b).norm() for a, b in pairs]).norm()


def _representations(experiment: Experiment, images: int) -> dict[str, Tensor]:
    pixels = _source(experiment).test_set.pixels[:images]
    features = _through(_encoder(experiment), pixels)
    return {"encoder": features, "projection": _objective(experiment).projection(features)}


def _through(encoder: Encoder, pixels: Tensor) -> Float[Tensor, "image feature"]:
    return torch.cat([encoder(as_float(part)) for part in pixels.split(_AT_ONCE)])


def _objective(experiment: Experiment) -> PredictViews:
    assert isinstance(experiment.objective, PredictViews)
    return experiment.objective


def _source(experiment: Experiment) -> ImageSource:
    assert isinstance(experiment.source, ImageSource)
    return experiment.source


def _encoder(experiment: Experiment) -> Encoder:
    assert isinstance(experiment.learner, Encoder)
    return experiment.learner


def _single(value: Tensor, about: str) -> Measurement:
    return Measurement(value.cpu()[None], about=about)
