"""What is measured of networks in their first two steps, of answers on the test set, and of machines."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.data import DictionarySource
from featscope.models import TruncatedReLUNetwork
from featscope.models.truncated_relu import FrozenFeatures
from featscope.studies.fixed_features.trained import FittedMachines, accuracies
from featscope.training import GradientTraining, Measurement, Recursion

STAGES = ("start", "one step", "two steps")


def cosines(
    weights: Float[Tensor, "replica neuron d"], direction: Float[Tensor, "replica d"]
) -> Float[Tensor, "replica neuron"]:
    """Cosines of weights with a direction of length 1, however short they are: after one step 1e-9 and less."""
    direction = direction.to(weights)[:, None]
    return (weights / weights.norm(dim=-1, keepdim=True).clamp(min=1e-300) * direction).sum(-1)


@torch.no_grad()
def answers(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Accuracy on the test set, and the best cosine of a neuron where the first layer is trained."""
    source: DictionarySource = experiment.source
    inputs, labels = source.test_set
    given = experiment.learner(inputs)
    accuracy, balanced = accuracies(given, labels)
    found = {
        "accuracy": Measurement(accuracy, "share of right answers on the test set"),
        "balanced": Measurement(balanced, "mean over classes of the share of right answers"),
        "test_hinge": Measurement((1 - labels * given).relu().mean(1), "hinge loss on the test set"),
    }
    if isinstance(experiment.learner, TruncatedReLUNetwork):
        best = cosines(experiment.learner.weights, source.target).amax(1)
        found["best"] = Measurement(best, "largest cosine of a neuron with the relevant patterns")
    return found


@torch.no_grad()
def first_steps(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Weights at the start, after one step and after two, and what pulled at them."""
    source: DictionarySource = experiment.source
    network: TruncatedReLUNetwork = experiment.learner
    o, pulls = source.options, network.pulls
    k, scale = o.relevant, source.scale[:, 0].double()
    active = torch.stack([one.active for one in pulls], 1)
    active_square = torch.stack([one.active_square for one in pulls], 1)
    on = torch.stack([one.weights[..., :k].mean(-1) for one in pulls], 1)
    rest = torch.stack([one.weights[..., k:].square().mean(-1).sqrt() for one in pulls], 1)
    size = o.gamma / scale[:, None]
    floor = (o.background * (1 - o.background) * active_square / o.samples).sqrt() / scale[:, None]
    lengths = [
        (after.weights.norm(dim=-1) / (before.outer.abs() * found.weights.norm(dim=-1))).mean(1)
        for before, after, found in zip(network.stages[:-1], network.stages[1:], pulls, strict=True)
    ]
    summed = torch.zeros_like(source.target)
    summed[:, :k] = k**-0.5
    stage, step = ("stage", "neuron"), ("pull", "neuron")
    return {
        "cosine": Measurement(
            torch.stack([cosines(one.weights, source.target) for one in network.stages], 1),
            "cosine with the relevant patterns, as labels weigh them",
            stage,
        ),
        "sum_cosine": Measurement(
            torch.stack([cosines(one.weights, summed) for one in network.stages], 1),
            "cosine with the plain sum of the relevant patterns",
            stage,
        ),
        "length": Measurement(
            torch.stack([one.weights.norm(dim=-1) for one in network.stages], 1), "length of weights", stage
        ),
        "step_size": Measurement(
            torch.stack([lengths[0] / scale[:, 0], *lengths[1:]], 1), "η of each step, of the first over σ", ("pull",)
        ),
        "active": Measurement(active, "share of samples that activate a neuron", step),
        "active_square": Measurement(active_square, "mean square slope of a neuron's activation", step),
        "on_over_active": Measurement(
            on / (active * size), "mean T on relevant patterns over active x gamma/sigma", step
        ),
        "off_over_floor": Measurement(rest / floor, "root mean square T off them over the sampling floor", step),
        "weights": Measurement(
            torch.stack([one.weights / one.weights.norm(dim=-1, keepdim=True) for one in network.stages], 1).float(),
            "directions of weights",
            ("stage", "neuron", "d"),
        ),
        "target": Measurement(
            (source.target / source.target.norm(dim=-1, keepdim=True)).float(),
            "direction of the relevant patterns, as labels weigh them",
            ("d",),
        ),
    }


@torch.no_grad()
def turned(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Cosines at the start and after each step, and E[α_y y x] on the patterns, wherever these point."""
    source: DictionarySource = experiment.source
    inputs, labels = source.train_set
    size = source.options.gamma / source.scale[:, 0].double()
    chances = [(labels == one).double() / (labels == one).sum(1, keepdim=True) for one in (1, -1)]
    mean = inputs.double().mT @ (chances[0] - chances[1])[..., None] / 2
    if source.dictionary is not None:
        mean = torch.linalg.lstsq(source.dictionary.double(), mean, driver="gels").solution
    return {
        "cosine": Measurement(
            torch.stack([cosines(one.weights, source.target) for one in experiment.learner.stages], 1),
            "cosine with the sum of the relevant patterns",
            ("stage", "neuron"),
        ),
        "moment": Measurement(
            mean[:, : source.options.relevant, 0] / size,
            "E[α_y y x] on each relevant pattern over γ/σ",
            ("pattern",),
        ),
    }


@torch.no_grad()
def frozen(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Cosines of a first layer that is not trained, the only stage there is."""
    learner: FrozenFeatures = experiment.learner
    found = cosines(learner.first.weights, experiment.source.target)
    return {"cosine": Measurement(found[:, None], "cosine with the sum of the relevant patterns", ("stage", "neuron"))}


@torch.no_grad()
def drifting(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """`answers`, and how far weights and thresholds have gone from where two steps had brought them."""
    network: TruncatedReLUNetwork = experiment.learner
    weights, thresholds, outer = network.stages[2]
    grown = (network.outer.double().abs() - outer.abs()).amax(1)
    moved = (network.weights.double() - weights).norm(dim=-1).amax(1)
    shifted = (network.biases.double() - thresholds).abs().amax(1)
    return dict(answers(experiment)) | {
        "outer_grown": Measurement(grown, "largest |a| - |a after two steps|"),
        "weights_moved": Measurement(moved, "largest |w - w after two steps|"),
        "biases_moved": Measurement(shifted, "largest |b - b after two steps|"),
        "outer_at_two": Measurement(outer.abs().amax(1), "largest |a| after two steps"),
        "longest": Measurement(experiment.source.train_set.inputs.norm(dim=-1).amax(1), "largest |x|"),
    }


def machines(experiment: Recursion) -> Mapping[str, Measurement]:
    """Accuracy of each machine, and where the feature machine's M has its trace."""
    fitted: FittedMachines = experiment.learner
    return {
        "accuracy": Measurement(fitted.accuracy, "share of right answers on the test set", ("machine",)),
        "found": Measurement(fitted.found, "share of M's trace on the relevant patterns", ("turn",)),
    }
