"""What is measured on a network: on the way, and at the end.

A replica is one experiment; every measurement has a leading replica axis of 1.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from featscope.data.images import as_float
from featscope.models import Encoder, activations
from featscope.probes.filters import colourfulness, distance_from_init
from featscope.probes.readout import knn_accuracy, linear_probe, mean_colour, regression_score, silhouette, tsne
from featscope.probes.sparsity import density, firing_pattern, hoyer, treves_rolls
from featscope.studies.images import one_thread
from featscope.training import GradientTraining, Measurement

WATCHED, FIRED = 256, 1000  # most test images that firing is measured on, on the way and at the end
READ_OUT = 5000  # most images that read-outs are fitted to, and measured on
MAPPED = 500  # test images in the t-SNE map
SHOWN = 40, 24  # test images and units of the firing pattern that is kept of each layer


def during(experiment: GradientTraining, initial: Encoder) -> Mapping[str, Measurement]:
    """Firing, filters and distance; cheap enough to take often."""
    encoder, pixels = experiment.learner, experiment.source.test_set.pixels
    layers = activations(encoder, encoder.layers, as_float(pixels[:WATCHED])).values()
    moved, colour = distance_from_init(encoder.filters, initial.filters), colourfulness(encoder.filters).mean()
    return {
        "watched_density": _by_layer(map(density, layers), "fraction of active units on test images"),
        "filter_distance": Measurement(moved[None], "first layer, ||W - W(0)|| / ||W(0)||"),
        "filter_colourfulness": Measurement(colour[None], f"{CHROMATIC} the filters' energy, {MEAN}"),
    }


def firing(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Density and sparsity of each layer on the test images, and a piece of each layer's firing pattern."""
    encoder, pixels = experiment.learner, experiment.source.test_set.pixels
    layers = activations(encoder, encoder.layers, as_float(pixels[:FIRED])).values()
    units = [a.flatten(1) for a in layers]
    pattern = torch.stack([firing_pattern(a, *SHOWN) for a in layers])[None]
    shown = "activation at the centre of a channel over its highest on the images kept"
    alone = "population sparseness, mean over images"
    return {
        "density": _by_layer(map(density, units), "fraction of active units, over test images"),
        "treves_rolls": _by_layer((treves_rolls(a).nanmean() for a in units), alone),
        "hoyer": _by_layer((hoyer(a).nanmean() for a in units), "Hoyer sparsity of a layer, mean over images"),
        "firing_pattern": Measurement(pattern, shown, ("layer", "image", "unit")),
    }


def filters(experiment: GradientTraining, initial: Encoder) -> Mapping[str, Measurement]:
    """The first layer's filters, the colour that training added to them, and how far each convolution has moved."""
    now, axes = experiment.learner.filters, ("filter", "channel", "row", "column")
    pairs = zip(experiment.learner.parameters(), initial.parameters(), strict=True)
    moved = torch.stack([distance_from_init(weight, before) for weight, before in pairs if weight.ndim == 4])
    added = colourfulness(now - initial.filters).nanmean()
    return {
        "filters": Measurement(now[None], "weights of the first convolution", axes),
        "distance": Measurement(moved[None], "||W - W(0)|| / ||W(0)|| of each convolution", ("convolution",)),
        "colour_added": Measurement(added[None], f"{CHROMATIC} W - W(0), {MEAN}"),
    }


@one_thread
def readout(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """What can be read out of a layer's channels, averaged over the image: the class, the image's colour."""
    encoder, source = experiment.learner, experiment.source
    images = [as_float(part.pixels[:READ_OUT]) for part in (source.train_set, source.test_set)]
    y, z = source.train_set.labels[:READ_OUT], source.test_set.labels[:READ_OUT]
    hues = [mean_colour(each) for each in images]
    pooled = [activations(encoder, encoder.layers, each, reduce=lambda maps: maps.mean((-2, -1))) for each in images]
    layers = [(pooled[0][name], pooled[1][name]) for name in encoder.layers]
    colour = (regression_score(a, hues[0], b, hues[1]) for a, b in layers)
    # The record keeps numbers; the names of the classes travel in the description.
    names = f"class: {', '.join(source.class_names)}"
    return {
        "linear_probe": _by_layer((linear_probe(a, y, b, z) for a, b in layers), "accuracy of logistic regression"),
        "knn": _by_layer((knn_accuracy(a, y, b, z) for a, b in layers), "accuracy of 20 nearest neighbours"),
        "silhouette": _by_layer((silhouette(b, z) for _, b in layers), "mean silhouette of the classes, by cosine"),
        "colour_readout": _by_layer(colour, "R² of ridge regression to the image's mean colour"),
        "map": Measurement(tsne(layers[-1][1][:MAPPED])[None], "t-SNE of the features", ("point", "axis")),
        "map_class": Measurement(z[None, :MAPPED], names, ("point",)),
    }


CHROMATIC, MEAN = "chromatic share of", "mean over first-layer filters"


def _by_layer(values: Iterable[Any], about: str) -> Measurement:
    row = [torch.as_tensor(value, dtype=torch.float64).cpu() for value in values]
    return Measurement(torch.stack(row)[None], about, ("layer",))
