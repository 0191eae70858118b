"""What is measured on a network: on the way, and at the end. Classes are in the order from head to tail."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.evaluation import linear_probe_labels, mean_by_class
from featscope.models import Encoder
from featscope.probes.readout import features_of, one_thread
from featscope.training import GradientTraining, MagnitudePruning, Measurement

one = Measurement.of_one
DOUBT_BATCHES = 10


def during(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """The norm of all weights, which decides with their gradients how far a step turns them."""
    norm = torch.stack([p.norm() for p in experiment.learner.parameters()]).norm()
    return {"weight_norm": one(norm, "Euclidean norm of all weights of the encoder")}


@one_thread
def readout(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """How many training images each class has, and the accuracy on it of a linear probe fitted to balanced images."""
    source = experiment.source
    classes, fitted, measured = len(source.class_names), source.probe_set, source.test_set
    seen, asked = (features_of(experiment.learner, images.pixels).cpu() for images in (fitted, measured))
    named = linear_probe_labels(seen, fitted.labels, asked)
    accuracy = mean_by_class((named == measured.labels.cpu()).double(), measured.labels.cpu(), classes)
    sizes = torch.bincount(source.train_set.labels, minlength=classes).double()
    # The record keeps numbers; the names of the classes travel in the description, a comma between them.
    names = ", ".join(source.class_names[label].replace(", ", "; ") for label in source.head_to_tail)
    return {
        "class_size": _by_class(experiment, sizes, f"training images of {names}"),
        "class_accuracy": _by_class(experiment, accuracy, "test accuracy of logistic regression"),
    }


def pruning(experiment: GradientTraining, config: MagnitudePruning, initial: Encoder) -> Mapping[str, Measurement]:
    """What the arm prunes, and what pruning prunes or would prune: where, and whether it was born small."""
    config = replace(config, start=0)  # what would go now, whenever it began
    rules, now = experiment.rules, config.on(experiment.learner)
    used = rules["pruning"].kept if "pruning" in rules else None
    share = 1 - used.double().mean() if used is not None else torch.zeros(())
    stale = (used != now.mask.kept).double().mean() if used is not None else torch.zeros(())
    gone, gone_at_start = ~now.mask.kept, ~config.on(initial).mask.kept
    born_small = (gone & gone_at_start).double().sum() / gone.double().sum()
    hidden = now.mask.pruned_parameters(experiment.learner).values()
    layers = torch.stack([(weight == 0).double().mean() for weight in hidden if weight.ndim == 4])
    before = "share of the weights that pruning takes which it took before training"
    return {
        "pruned_from_start": one(born_small, before),
        "pruned_share": one(share, "share of weights that the loss does not see"),
        "pruned_as_before": one(stale, "share of weights on which the mask in use is not what is smallest now"),
        "pruned_of_layer": one(layers, "share that pruning takes from each convolution", "convolution"),
    }


def doubt(experiment: GradientTraining, config: MagnitudePruning) -> Mapping[str, Measurement]:
    """1 - ℓ'_p on two views of test images, class by class, and what pruning makes of it (the paper, Lemma F.2).

    Batches are balanced and the same for all arms of a replica.
    """
    source, networks = experiment.source, (experiment.learner, replace(config, start=0).on(experiment.learner))
    draws = (experiment.streams.at("doubt", batch) for batch in range(DOUBT_BATCHES))
    doubts, labels = zip(*(experiment.objective.doubts(networks, source.test_set, d) for d in draws), strict=True)
    whole, pruned = (mean_by_class(d, torch.cat(labels), len(source.class_names)) for d in torch.cat(doubts, 1))
    return {
        "doubt": _by_class(experiment, whole, "1 - ℓ'_p, mean over views of test images"),
        "doubt_added": _by_class(experiment, pruned - whole, "what pruning adds to 1 - ℓ'_p"),
    }


def _by_class(experiment: GradientTraining, values: Float[Tensor, " class"], about: str) -> Measurement:
    return one(values[list(experiment.source.head_to_tail)], about, "class")
