"""The figures of the study, described for the report to draw. Runs are called by the labels of their arms."""

from collections.abc import Iterator

import numpy as np
import xarray as xr

from featscope.claims import COSINE, POSITIVE, SHARE
from featscope.figures import Bars, Figure, Heatmaps, ImageGrids, Panel, Scatters
from featscope.probes.filters import as_images
from featscope.studies import Runs
from featscope.studies.summaries import bars, chart, curve

READ_OUT = {"linear_probe": "linear probe", "knn": "nearest neighbours", "colour_readout": "colour"}


def figures(runs: Runs) -> Iterator[Figure]:
    """Figure 2 of the paper, read-outs, Figures 4 and 3, then the course of training."""
    first = {name: run.isel(replica=0) for name, run in runs.items()}
    start = first["untrained"]
    yield ImageGrids(
        "filters-learned",
        "What training added to the first-layer filters",
        "Filters of replica 0 without the random start that all arms share (W - W(0)), each scaled to its largest "
        "weight and sorted from grey to colourful; mid-grey is zero (the paper's Figure 2).",
        {name: as_images(run["filters"] - start["filters"]) for name, run in first.items() if run is not start},
        claims=("filters-move-without-augmentation", "crop-learns-colourful-filters", "supervised-learns-more-colour"),
    )
    probe = "crop-learns-some-semantics", "colour-improves-features", "augmentation-improves-linear-probe"
    yield bars(
        "readouts",
        "What can be read out of the features",
        "Accuracy of a linear probe and of 20 nearest neighbours for the class, and R² of a linear read-out of the "
        "image's mean colour, all on test images and frozen features of the last layer.",
        list(READ_OUT.values()),
        {name: xr.concat([run[m].isel(layer=-1) for m in READ_OUT], "readout") for name, run in runs.items()},
        "accuracy, or R²",
        within=(-np.inf, 1.0),
        claims=("no-augmentation-learns-no-signal", "crop-keeps-colour-features", "augmentation-improves-knn", *probe),
    )
    yield ImageGrids(
        "filters",
        "First-layer filters as they are",
        "Filters of replica 0, each scaled to its own largest weight and sorted from grey to colourful; mid-grey is "
        "zero (the paper's Figure 2).",
        {name: as_images(run["filters"]) for name, run in first.items()},
        claims=("crop-keeps-colourful-filters", "supervised-more-colourful"),
    )
    sparser = "colour-makes-contrastive-sparser"
    density = "no-augmentation-fires-densely", "supervised-sparser-than-crop", "supervised-firing-ignores-colour"
    paper, ends = "Layers 2 to 5 are the paper's Figure 4.", "0: all units alike; 1: a single one is active."
    yield _by_layer(
        runs, "density", "Share of units that fire", "share of active units", paper, SHARE, sparser, *density
    )
    yield _by_layer(runs, "hoyer", "Sparsity of firing", "Hoyer's sparsity", ends, SHARE, f"{sparser}-hoyer")
    yield Heatmaps(
        "firing-patterns",
        "Firing patterns",
        "Activations of replica 0 on test images (rows): the centre of 24 channels of each layer above the first, "
        "left to right, each over its highest value (the paper's Figure 4). Strong colours are units that fire.",
        {name: np.concatenate(run["firing_pattern"].values[1:], axis=-1) for name, run in first.items()},
        row_label="test image",
        column_label="unit, layer after layer",
        value_label="activation over the highest",
        claims=(sparser, "no-augmentation-fires-densely"),
    )
    separates = "augmentation-separates-classes"
    yield Scatters(
        "maps",
        "t-SNE of the features",
        "Test images of replica 0, coloured by class (the paper's Figure 3). Distances between clusters mean nothing; "
        "whether classes are together or mixed does.",
        {name: run["map"].values for name, run in first.items()},
        {name: run["map_class"].values for name, run in first.items()},
        start["map_class"].attrs["long_name"].removeprefix("class: ").split(", "),
        claims=(separates,),
    )
    pooled, mixed = "Channels are averaged over the image first.", "Below 0: classes interleave."
    yield _by_layer(runs, "linear_probe", "Accuracy of a linear probe", "test accuracy", pooled, SHARE, *probe)
    yield _by_layer(runs, "silhouette", "Silhouette of the classes", "mean silhouette", mixed, COSINE, separates)
    moved = "distance over norm (||W - W(0)|| / ||W(0)||)"
    if trained := {name: run.isel(layer=-1) for name, run in runs.items() if run.sizes["step"] > 1}:
        yield chart(
            "training",
            "The course of training",
            "How sparsely the last layer fires, and how far and in what colours first-layer filters move.",
            _course(trained, "Firing of the top layer", "watched_density", "share of active units", SHARE),
            _course(trained, "Distance of the filters from their start", "filter_distance", moved, POSITIVE),
            _course(trained, "Colourfulness of the filters", "filter_colourfulness", "share that is colour", SHARE),
            claims=("filters-move-without-augmentation", "crop-keeps-colourful-filters"),
        )


def _by_layer(
    runs: Runs, measured: str, title: str, y_label: str, hint: str, within: tuple[float, float], *claims: str
) -> Bars:
    groups = [f"layer {number}" for number in range(1, 1 + next(iter(runs.values())).sizes["layer"])]
    id, title, caption = measured.replace("_", "-"), f"{title}, layer by layer", f"On test images. {hint}"
    series = {name: run[measured] for name, run in runs.items()}
    return bars(id, title, caption, groups, series, y_label, within=within, claims=claims)


def _course(runs: Runs, title: str, measured: str, y_label: str, within: tuple[float, float]) -> Panel:
    lines = [curve(run[measured], name, within=within) for name, run in runs.items()]
    return Panel(title, "training step", y_label, lines)
