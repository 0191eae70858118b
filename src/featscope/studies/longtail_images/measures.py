"""What is measured on an experiment with long-tailed images.

A replica is one experiment; every measurement has a leading replica axis of 1. Classes are in the order from head to
tail.
"""

import torch
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from featscope.data import ImageSet, LongTailedSource
from featscope.data.images import as_float
from featscope.models import Encoder
from featscope.probes.readout import accuracy_by_class, linear_probe_labels
from featscope.training import MagnitudePruning, Measurement
from featscope.training.experiment import Experiment
from featscope.training.image_objectives import InBatchContrastive
from featscope.training.pruning import PruningMask

_AT_ONCE = 500  # images through the network at once
_DOUBT_BATCHES = 10


def data(experiment: Experiment) -> dict[str, Measurement]:
    """How many training images each class has."""
    source = _source(experiment)
    sizes = torch.bincount(source.train_set.labels, minlength=len(source.class_names)).cpu()
    # The record keeps numbers; the names of the classes travel in the description.
    names = ", ".join(source.class_names[label] for label in source.head_to_tail)
    return {"class_size": _by_class(sizes[list(source.head_to_tail)].double(), f"training images of {names}")}


def readout(experiment: Experiment) -> dict[str, Measurement]:
    """Accuracy of a linear probe on each class. It is fitted to balanced images, on the features as they are."""
    encoder, source = _encoder(experiment), _source(experiment)
    fitted, measured = source.probe_set, source.test_set
    with threadpool_limits(1):  # BLAS threads that spin at barriers beside other workers cost a factor of 10
        named = linear_probe_labels(_features(encoder, fitted), fitted.labels, _features(encoder, measured))
    accuracy = accuracy_by_class(named, measured.labels.cpu(), len(source.class_names))
    return {
        "class_accuracy": _by_class(accuracy[list(source.head_to_tail)], "test accuracy of logistic regression"),
    }


def during(experiment: Experiment) -> dict[str, Measurement]:
    """The norm of all weights, which decides with their gradients how far a step turns them."""
    norm = torch.stack([p.norm() for p in experiment.learner.parameters()]).norm()
    return {"weight_norm": Measurement(norm[None], about="Euclidean norm of all weights of the encoder")}


def pruning(experiment: Experiment, config: MagnitudePruning, initial: Encoder) -> dict[str, Measurement]:
    """What the arm's rule prunes, and what pruning prunes or would prune: where, and whether it was born small."""
    encoder = _encoder(experiment)
    masks = [rule for rule in experiment.rules if isinstance(rule, PruningMask)]
    share = [1 - mask.kept.double().mean() for mask in masks] or [torch.zeros(())]
    now = config.on(encoder)
    kept, kept_at_start = now.mask.kept, config.on(initial).mask.kept
    hidden = now.mask.pruned_parameters(encoder)
    layers = [(weight == 0).double().mean() for name, weight in hidden.items() if weight.ndim == 4]
    born_small = (~kept & ~kept_at_start).double().sum() / (~kept).double().sum()
    return {
        "pruned_from_start": Measurement(
            born_small.cpu()[None], about="share of the weights that pruning takes which it took before training"
        ),
        "pruned_share": Measurement(share[0].cpu()[None], about="share of weights that the loss does not see"),
        "pruned_of_layer": Measurement(
            torch.stack(layers).cpu()[None], ("convolution",), about="share that pruning takes from each convolution"
        ),
    }


def doubt(experiment: Experiment, config: MagnitudePruning) -> dict[str, Measurement]:
    """1 - ℓ'_p on two views of test images, class by class, and what pruning makes of it (P, Lemma F.2).

    Batches are balanced and the same for all arms of a replica.
    """
    encoder, source, objective = _encoder(experiment), _source(experiment), experiment.objective
    assert isinstance(objective, InBatchContrastive)
    images = source.test_set
    count = min(objective.batch, len(images.labels))
    networks: tuple[nn.Module, ...] = (encoder, config.on(encoder))
    labels, doubts = [], []
    for batch in range(_DOUBT_BATCHES):
        draws = experiment.streams.at("doubt", batch)
        chosen = draws.choice(len(images.labels), count)[0]
        views = torch.cat(objective.view(as_float(images.pixels[chosen])[None], draws), dim=1)[0]
        labels.append(images.labels[chosen].repeat(2))
        doubts.append(torch.stack([_doubt(objective, network(views)) for network in networks]))
    dense, pruned = (_class_means(d, torch.cat(labels), source) for d in torch.cat(doubts, 1))
    return {
        "doubt": _by_class(dense, "1 - ℓ'_p, mean over views of test images"),
        "doubt_added": _by_class(pruned - dense, "what pruning adds to 1 - ℓ'_p"),
    }


def _doubt(objective: InBatchContrastive, features: Tensor) -> Float[Tensor, " view"]:
    anchor, positive = objective.head(features).chunk(2)
    return 1 - torch.exp(-objective.loss.of_views(anchor, positive))


def _class_means(
    values: Float[Tensor, " view"], labels: Int[Tensor, " view"], source: LongTailedSource
) -> Float[Tensor, " class"]:
    classes = len(source.class_names)
    sums = torch.bincount(labels, weights=values.double(), minlength=classes)
    means = sums / torch.bincount(labels, minlength=classes)
    return means.cpu()[list(source.head_to_tail)]


def _features(encoder: Encoder, images: ImageSet) -> Float[Tensor, "image feature"]:
    return torch.cat([encoder(as_float(part)) for part in images.pixels.split(_AT_ONCE)]).cpu()


def _source(experiment: Experiment) -> LongTailedSource:
    assert isinstance(experiment.source, LongTailedSource)
    return experiment.source


def _encoder(experiment: Experiment) -> Encoder:
    assert isinstance(experiment.learner, Encoder)
    return experiment.learner


def _by_class(values: Float[Tensor, " class"], about: str) -> Measurement:
    return Measurement(values[None], ("class",), about=about)
