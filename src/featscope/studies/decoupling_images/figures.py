"""The figures of the study."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
import xarray as xr

from featscope.claims import interval_of_mean
from featscope.figures import Bars, Curve, Curves, Figure, Heatmaps, ImageGrids, Panel, Scatters
from featscope.probes.filters import colourfulness
from featscope.studies.base import Runs

_NAMES = {
    "none": "no augmentation",
    "crop": "crop",
    "crop-colour": "crop + colour",
    "supervised-crop": "supervised, crop",
    "supervised-crop-colour": "supervised, crop + colour",
    "untrained": "untrained",
}
_ERROR_BARS = "Bars are means over replicas with 99 % intervals."


def figures(runs: Runs) -> Iterator[Figure]:
    """Figure 2 of the paper, read-outs, Figures 4 and 3, then the course of training."""
    start = runs["untrained"]["filters"].isel(replica=0)
    yield ImageGrids(
        id="filters-learned",
        title="What training added to the first-layer filters",
        caption="W - W(0) of replica 0, each filter scaled to its largest weight and sorted from grey to colourful; "
        "mid-grey is zero (the paper's Figure 2). The random start, which all arms share, is taken away.",
        panels={
            _NAMES[arm]: _filter_images(run["filters"].isel(replica=0) - start)
            for arm, run in runs.items()
            if arm != "untrained"
        },
    )
    yield Bars(
        id="readouts",
        title="What can be read out of the features",
        caption="Accuracy of a linear probe and of 20 nearest neighbours for the class, and R² of a "
        "linear read-out of the image's mean colour, all on test images and frozen features of "
        f"the last layer. {_ERROR_BARS}",
        groups=["linear probe", "nearest neighbours", "colour"],
        series={
            _NAMES[arm]: _bars([run[name].isel(layer=-1) for name in ("linear_probe", "knn", "colour_readout")])
            for arm, run in runs.items()
        },
        y_label="accuracy, or R²",
    )
    yield ImageGrids(
        id="filters",
        title="First-layer filters as they are",
        caption="Filters of replica 0, each scaled to its own largest weight and sorted from grey to "
        "colourful; mid-grey is zero (the paper's Figure 2).",
        panels={_NAMES[arm]: _filter_images(run["filters"].isel(replica=0)) for arm, run in runs.items()},
    )
    yield _by_layer(
        runs,
        "density",
        "Fraction of units that fire",
        "active fraction",
        "Layers 2 to 5 are the paper's Figure 4.",
    )
    yield _by_layer(runs, "hoyer", "Hoyer sparsity", "Hoyer sparsity", "0: all units alike; 1: a single one is active.")
    yield Heatmaps(
        id="firing-patterns",
        title="Firing patterns",
        caption="Activations of replica 0 on test images (rows): the centre of 24 channels of each layer "
        "above the first, left to right, each over its highest value (the paper's Figure 4).",
        panels={_NAMES[arm]: _pattern(run["firing_pattern"].isel(replica=0)) for arm, run in runs.items()},
        row_label="test image",
        column_label="unit, layer after layer",
        value_label="activation / highest",
    )
    any_run = next(iter(runs.values()))
    yield Scatters(
        id="maps",
        title="t-SNE of the features",
        caption="Test images of replica 0, coloured by class (the paper's Figure 3). Distances between "
        "clusters mean nothing; whether classes are together or mixed does.",
        panels={_NAMES[arm]: run["map"].isel(replica=0).values for arm, run in runs.items()},
        classes={_NAMES[arm]: run["map_class"].isel(replica=0).values for arm, run in runs.items()},
        class_names=any_run["map_class"].attrs["long_name"].removeprefix("class: ").split(", "),
    )
    yield _by_layer(
        runs,
        "linear_probe",
        "Linear-probe accuracy",
        "test accuracy",
        "Channels are averaged over the image first.",
    )
    yield _by_layer(runs, "silhouette", "Silhouette of the classes", "silhouette", "Below 0: classes interleave.")
    trained = {arm: run for arm, run in runs.items() if run.sizes["step"] > 1}
    if trained:
        yield Curves(
            id="training",
            title="The course of training",
            caption="Means over replicas with 99 % bands.",
            panels=[
                _course(trained, "watched_density", "Firing of the top layer", "active fraction"),
                _course(
                    trained,
                    "filter_distance",
                    "Distance of the filters from their start",
                    "||W - W(0)|| / ||W(0)||",
                ),
                _course(trained, "filter_colourfulness", "Colourfulness of the filters", "chromatic share of energy"),
            ],
        )


def _by_layer(runs: Runs, name: str, title: str, y_label: str, hint: str) -> Bars:
    layers = next(iter(runs.values())).sizes["layer"]
    return Bars(
        id=name.replace("_", "-"),
        title=f"{title}, layer by layer",
        caption=f"On test images. {hint} {_ERROR_BARS}",
        groups=[f"layer {number}" for number in range(1, layers + 1)],
        series={_NAMES[arm]: _bars([run[name].isel(layer=i) for i in range(layers)]) for arm, run in runs.items()},
        y_label=y_label,
    )


def _bars(values: Sequence[xr.DataArray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    means = np.array([float(value.mean()) for value in values])
    low, high = np.array([_interval(value.values) for value in values]).T
    return means, low, high


def _interval(samples: np.ndarray) -> tuple[float, float]:
    """What is drawn: nothing where a single replica leaves the whole line."""
    low, high = interval_of_mean(samples)
    return (low, high) if np.isfinite(high - low) else (np.nan, np.nan)


def _course(runs: Runs, name: str, title: str, y_label: str) -> Panel:
    curves = []
    for arm, run in runs.items():
        series = run[name].isel(layer=-1) if "layer" in run[name].dims else run[name]
        points = series.transpose("step", "replica").values
        low, high = np.array([_interval(point) for point in points]).T
        curves.append(Curve(_NAMES[arm], run["step"].values, points.mean(-1), low, high))
    return Panel(title, "step", y_label, curves)


def _filter_images(filters: xr.DataArray) -> np.ndarray:
    weights = filters.transpose("filter", "channel", "row", "column").values
    order = np.argsort(colourfulness(torch.from_numpy(weights)).numpy())
    largest = np.abs(weights).max((1, 2, 3), keepdims=True)
    scaled = 0.5 + 0.5 * weights / np.where(largest > 0, largest, 1)
    return scaled[order].transpose(0, 2, 3, 1)


def _pattern(pattern: xr.DataArray) -> np.ndarray:
    above_first = pattern.isel(layer=slice(1, None)).transpose("image", "layer", "unit").values
    return above_first.reshape(len(above_first), -1)
