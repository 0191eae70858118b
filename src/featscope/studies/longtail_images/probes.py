"""What is measured on a network: on the way, and at the end.

A replica is one experiment; every measurement has a leading replica axis of 1. Classes are in the order from head to
tail.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.data.images import as_float
from featscope.models import Encoder
from featscope.probes.readout import accuracy_by_class, features_of, linear_probe_labels, mean_by_class
from featscope.studies.images import one_thread
from featscope.training import GradientTraining, MagnitudePruning, Measurement

DOUBT_BATCHES = 10


def during(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """The norm of all weights, which decides with their gradients how far a step turns them."""
    norm = torch.stack([p.norm() for p in experiment.learner.parameters()]).norm()
    return {"weight_norm": Measurement(norm[None], "Euclidean norm of all weights of the encoder")}


@one_thread
def readout(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """How many training images each class has, and the accuracy on it of a linear probe fitted to balanced images."""
    encoder, source = experiment.learner, experiment.source
    classes, fitted, measured = len(source.class_names), source.probe_set, source.test_set
    sizes = torch.bincount(source.train_set.labels, minlength=classes).double()
    named = linear_probe_labels(
        features_of(encoder, fitted.pixels).cpu(), fitted.labels, features_of(encoder, measured.pixels).cpu()
    )
    accuracy = accuracy_by_class(named, measured.labels.cpu(), classes)
    # The record keeps numbers; the names of the classes travel in the description.
    names = ", ".join(source.class_names[label] for label in source.head_to_tail)
    return {
        "class_size": _by_class(experiment, sizes, f"training images of {names}"),
        "class_accuracy": _by_class(experiment, accuracy, "test accuracy of logistic regression"),
    }


def pruning(experiment: GradientTraining, config: MagnitudePruning, initial: Encoder) -> Mapping[str, Measurement]:
    """What the arm prunes, and what pruning prunes or would prune: where, and whether it was born small."""
    rules, now = experiment.rules, config.on(experiment.learner)
    share = 1 - rules["pruning"].kept.double().mean() if "pruning" in rules else torch.zeros(())
    gone, gone_at_start = ~now.mask.kept, ~config.on(initial).mask.kept
    born_small = (gone & gone_at_start).double().sum() / gone.double().sum()
    hidden = now.mask.pruned_parameters(experiment.learner).values()
    layers = torch.stack([(weight == 0).double().mean() for weight in hidden if weight.ndim == 4])
    before = "share of the weights that pruning takes which it took before training"
    each = "share that pruning takes from each convolution"
    return {
        "pruned_from_start": Measurement(born_small.cpu()[None], before),
        "pruned_share": Measurement(share.cpu()[None], "share of weights that the loss does not see"),
        "pruned_of_layer": Measurement(layers.cpu()[None], each, ("convolution",)),
    }


def doubt(experiment: GradientTraining, config: MagnitudePruning) -> Mapping[str, Measurement]:
    """1 - ℓ'_p on two views of test images, class by class, and what pruning makes of it (P, Lemma F.2).

    Batches are balanced and the same for all arms of a replica.
    """
    images, objective = experiment.source.test_set, experiment.objective
    networks = experiment.learner, config.on(experiment.learner)
    count = min(objective.batch, len(images.labels))
    labels, doubts = [], []
    for batch in range(DOUBT_BATCHES):
        draws = experiment.streams.at("doubt", batch)
        chosen = draws.choice(len(images.labels), count)[0]
        views = torch.cat(objective.view(as_float(images.pixels[chosen])[None], draws), dim=1)[0]
        labels.append(images.labels[chosen].repeat(2))
        pairs = (objective.head(network(views)).chunk(2) for network in networks)
        doubts.append(torch.stack([objective.loss.doubt(*pair) for pair in pairs]))
    classes = len(experiment.source.class_names)
    whole, pruned = (mean_by_class(each, torch.cat(labels), classes) for each in torch.cat(doubts, 1))
    return {
        "doubt": _by_class(experiment, whole, "1 - ℓ'_p, mean over views of test images"),
        "doubt_added": _by_class(experiment, pruned - whole, "what pruning adds to 1 - ℓ'_p"),
    }


def _by_class(experiment: GradientTraining, values: Float[Tensor, " class"], about: str) -> Measurement:
    return Measurement(values.cpu()[None, list(experiment.source.head_to_tail)], about, ("class",))
