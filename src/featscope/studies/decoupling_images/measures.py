"""What is measured on an image experiment, during training and after it.

A replica is one experiment; every measurement has a leading replica axis of 1.
"""

from collections.abc import Iterable

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from featscope.data import ImageSet, ImageSource
from featscope.data.images import as_float
from featscope.models import Encoder, activations
from featscope.probes.filters import colourfulness, distance_from_init
from featscope.probes.readout import knn_accuracy, linear_probe, regression_score, silhouette, tsne
from featscope.probes.sparsity import density, hoyer, treves_rolls
from featscope.training import Measurement
from featscope.training.experiment import Experiment

WATCHED, FIRED = 256, 1000
"""Most test images that firing is measured on, during training and after it."""
READ_OUT = 5000
"""Most training images that read-outs are fitted to, and most test images they are measured on."""
MAPPED = 500
"""Test images in the t-SNE map."""
SHOWN_IMAGES, SHOWN_UNITS = 40, 24
"""Size of the firing pattern that is kept of each layer, in test images and units."""


def during(experiment: Experiment, initial: Encoder) -> dict[str, Measurement]:
    """Firing, filters and distance; cheap enough to take often."""
    encoder, source = _parts(experiment)
    images = as_float(source.test_set.pixels[:WATCHED])
    layers = activations(encoder, encoder.layers, images).values()
    return {
        "watched_density": _per_layer((density(a) for a in layers), "fraction of active units on test images"),
        "filter_distance": _single(
            distance_from_init(encoder.filters, initial.filters), "first layer, ||W - W(0)|| / ||W(0)||"
        ),
        "filter_colourfulness": _single(
            colourfulness(encoder.filters).mean(),
            "chromatic share of the filters' energy, mean over first-layer filters",
        ),
    }


def firing(experiment: Experiment) -> dict[str, Measurement]:
    """Density and sparsity of each layer on the test images, and a piece of each layer's firing pattern."""
    encoder, source = _parts(experiment)
    images = as_float(source.test_set.pixels[:FIRED])
    layers = list(activations(encoder, encoder.layers, images).values())
    units = [a.flatten(1) for a in layers]
    return {
        "density": _per_layer((density(a) for a in units), "fraction of active units, over test images"),
        "treves_rolls": _per_layer(
            (treves_rolls(a).nanmean() for a in units), "population sparseness, mean over images"
        ),
        "hoyer": _per_layer((hoyer(a).nanmean() for a in units), "Hoyer sparsity of a layer, mean over images"),
        "firing_pattern": Measurement(
            torch.stack([_pattern(a) for a in layers])[None],
            ("layer", "image", "unit"),
            about="activation at the centre of a channel over its highest on the images kept",
        ),
    }


def filters(experiment: Experiment, initial: Encoder) -> dict[str, Measurement]:
    """The first layer's filters, and how far each convolution has moved."""
    encoder, _ = _parts(experiment)
    pairs = zip(encoder.named_parameters(), initial.parameters(), strict=True)
    moved = [distance_from_init(now, before) for (_, now), before in pairs if now.ndim == 4]
    return {
        "filters": Measurement(
            encoder.filters[None],
            ("filter", "channel", "row", "column"),
            about="weights of the first convolution",
        ),
        "distance": Measurement(
            torch.stack(moved)[None], ("convolution",), about="||W - W(0)|| / ||W(0)|| of each convolution"
        ),
    }


def readout(experiment: Experiment) -> dict[str, Measurement]:
    """What can be read out of a layer's channels, averaged over the image: the class, the image's colour."""
    # A worker has one core; BLAS threads that spin at barriers beside other workers cost a factor of 10.
    with threadpool_limits(1):
        return _readout(experiment)


def _readout(experiment: Experiment) -> dict[str, Measurement]:
    encoder, source = _parts(experiment)
    train, test = _first(source.train_set, READ_OUT), _first(source.test_set, READ_OUT)
    fitted, measured = (_features(encoder, as_float(s.pixels)) for s in (train, test))
    hues = [mean_colour(as_float(s.pixels)) for s in (train, test)]
    linear, neighbours, separation, colour = [], [], [], []
    for layer in range(len(encoder.layers)):
        a, b = fitted[layer], measured[layer]
        linear.append(linear_probe(a, train.labels, b, test.labels))
        neighbours.append(knn_accuracy(a, train.labels, b, test.labels))
        separation.append(silhouette(b, test.labels))
        colour.append(regression_score(a, hues[0], b, hues[1]))
    shown = test.labels[:MAPPED]
    return {
        "linear_probe": _per_layer(linear, "test accuracy of logistic regression"),
        "knn": _per_layer(neighbours, "test accuracy of 20 nearest neighbours"),
        "silhouette": _per_layer(separation, "mean silhouette of the classes, cosine distance"),
        "colour_readout": _per_layer(colour, "R² of ridge regression to the image's mean colour"),
        "map": Measurement(
            tsne(measured[-1][:MAPPED])[None], ("point", "axis"), about="t-SNE of the features of test images"
        ),
        # The record keeps numbers; the names of the classes travel in the description.
        "map_class": Measurement(shown[None], ("point",), about="class: " + ", ".join(source.class_names)),
    }


def _parts(experiment: Experiment) -> tuple[Encoder, ImageSource]:
    assert isinstance(experiment.learner, Encoder)
    assert isinstance(experiment.source, ImageSource)
    return experiment.learner, experiment.source


def _first(images: ImageSet, count: int) -> ImageSet:
    return images._replace(pixels=images.pixels[:count], labels=images.labels[:count])


def mean_colour(images: Tensor) -> Tensor:
    """The two colour-opponent means of each image, ``[image, 2]``: red - green, and blue - yellow."""
    red, green, blue = images.mean((-2, -1)).unbind(-1)
    return torch.stack([red - green, blue - (red + green) / 2], dim=-1)


def _features(encoder: Encoder, images: Tensor) -> list[Tensor]:
    pooled: list[list[Tensor]] = []
    for part in images.split(500):  # feature maps are large; only their means are kept
        layers = activations(encoder, encoder.layers, part).values()
        pooled.append([a.mean((-2, -1)) for a in layers])
    return [torch.cat(parts) for parts in zip(*pooled, strict=True)]


def _pattern(maps: Tensor) -> Tensor:
    height, width = maps.shape[-2:]
    units = maps[:SHOWN_IMAGES, :, height // 2, width // 2]
    # Evenly spaced channels; a layer with fewer than are shown repeats some.
    chosen = torch.linspace(0, units.shape[1] - 1, SHOWN_UNITS, device=units.device).round().long()
    units = units[:, chosen]
    return units / units.amax(0).clamp_min(torch.finfo(units.dtype).tiny)


def _per_layer(values: Iterable[Tensor | float], about: str) -> Measurement:
    row = torch.stack([torch.as_tensor(value, dtype=torch.float64).cpu() for value in values])
    return Measurement(row[None], ("layer",), about=about)


def _single(value: Tensor, about: str) -> Measurement:
    return Measurement(value[None], about=about)
