"""What is measured on a network: on the way, and at the end."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from featscope.data.images import as_float
from featscope.evaluation import Accuracy, k_nearest_neighbours, linear_probe
from featscope.models import Encoder, activations
from featscope.probes.filters import colourfulness, distance_from_init
from featscope.probes.readout import (
    mean_colour,
    one_thread,
    regression_score,
    silhouette,
    tsne,
)
from featscope.probes.sparsity import density, firing_pattern, hoyer, treves_rolls
from featscope.training import GradientTraining, Measurement

one = Measurement.of_one
WATCHED, FIRED = 256, 1000  # most test images that firing is measured on, on the way and at the end
READ_OUT = 5000  # most images that read-outs are fitted to, and measured on
MAPPED = 500  # test images in the t-SNE map
SHOWN = 40, 24  # test images and units of the firing pattern that is kept of each layer
CHROMATIC = "mean over first-layer filters of the chromatic share"


def during(experiment: GradientTraining, initial: Encoder) -> Mapping[str, Measurement]:
    """Firing, filters and distance; cheap enough to take often."""
    encoder, pixels = experiment.learner, experiment.source.test_set.pixels
    layers = activations(encoder, encoder.layers, as_float(pixels[:WATCHED])).values()
    moved, colour = distance_from_init(encoder.filters, initial.filters), colourfulness(encoder.filters).mean()
    return {
        "watched_density": _by_layer(map(density, layers), "fraction of active units on test images"),
        "filter_distance": one(moved, "first layer, ||W - W(0)|| / ||W(0)||"),
        "filter_colourfulness": one(colour, f"{CHROMATIC} of their energy"),
    }


def firing(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Density and sparsity of each layer on the test images, and a piece of each layer's firing pattern."""
    encoder, pixels = experiment.learner, experiment.source.test_set.pixels
    layers = activations(encoder, encoder.layers, as_float(pixels[:FIRED])).values()
    units = [a.flatten(1) for a in layers]
    alone, rates = (treves_rolls(a).nanmean() for a in units), (hoyer(a).nanmean() for a in units)
    pattern = torch.stack([firing_pattern(a, *SHOWN) for a in layers])
    shown = "activation at the centre of a channel over its highest on the images kept"
    return {
        "density": _by_layer(map(density, units), "fraction of active units, over test images"),
        "treves_rolls": _by_layer(alone, "population sparseness, mean over images"),
        "hoyer": _by_layer(rates, "Hoyer sparsity of a layer, mean over images"),
        "firing_pattern": one(pattern, shown, "layer", "image", "unit"),
    }


def filters(experiment: GradientTraining, initial: Encoder) -> Mapping[str, Measurement]:
    """The first layer's filters, the colour that training added to them, and how far each convolution has moved."""
    now, axes = experiment.learner.filters, ("filter", "channel", "row", "column")
    pairs = zip(experiment.learner.parameters(), initial.parameters(), strict=True)
    moved = torch.stack([distance_from_init(weight, before) for weight, before in pairs if weight.ndim == 4])
    return {
        "filters": one(now, "weights of the first convolution", *axes),
        "distance": one(moved, "||W - W(0)|| / ||W(0)|| of each convolution", "convolution"),
        "colour_added": one(colourfulness(now - initial.filters).nanmean(), f"{CHROMATIC} of W - W(0)"),
    }


@one_thread
def readout(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """What can be read out of a layer's channels, averaged over the image: the class, the image's colour."""
    encoder, train, test = experiment.learner, experiment.source.train_set, experiment.source.test_set
    y, z = train.labels[:READ_OUT], test.labels[:READ_OUT]
    images = [as_float(each.pixels[:READ_OUT]) for each in (train, test)]
    pooled = [activations(encoder, encoder.layers, each, reduce=lambda maps: maps.mean((-2, -1))) for each in images]
    fitted, measured = ([maps[name] for name in encoder.layers] for maps in pooled)
    hues, other_hues = (mean_colour(each) for each in images)

    def read(score: Callable[..., float | Accuracy], known: Tensor, asked: Tensor, about: str) -> Measurement:
        scores = (score(a, known, b, asked) for a, b in zip(fitted, measured, strict=True))
        return _by_layer((each.value if isinstance(each, Accuracy) else each for each in scores), about)

    # The record keeps numbers; the names of the classes travel in the description, a comma between them.
    names = ", ".join(name.replace(", ", "; ") for name in experiment.source.class_names)
    return {
        "linear_probe": read(linear_probe, y, z, "test accuracy of logistic regression"),
        "knn": read(k_nearest_neighbours, y, z, "test accuracy of 20 nearest neighbours"),
        "silhouette": _by_layer((silhouette(b, z) for b in measured), "mean silhouette of the classes, by cosine"),
        "colour_readout": read(regression_score, hues, other_hues, "R² of ridge regression to the mean colour"),
        "map": one(tsne(measured[-1][:MAPPED]), "t-SNE of the features of test images", "point", "axis"),
        "map_class": one(z[:MAPPED], f"class: {names}", "point"),
    }


def _by_layer(values: Iterable[Any], about: str) -> Measurement:
    row = [torch.as_tensor(value, dtype=torch.float64).cpu() for value in values]
    return one(torch.stack(row), about, "layer")
