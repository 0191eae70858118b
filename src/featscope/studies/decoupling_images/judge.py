"""From measurements to verdicts. All differences are paired: a replica's arms share network and images."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float

from featscope.claims import Claim
from featscope.probes.filters import colourfulness
from featscope.studies.base import Runs, last
from featscope.studies.decoupling_images.statements import STATEMENTS

THE = {statement.id: statement for statement in STATEMENTS}

PerReplica = Float[np.ndarray, " replica"]
PAIRED = "Bound: 0, the sign of a difference paired by replica."
GAIN = 0.01
GAINED = "Bound: one point in a hundred, a stated choice that a network which learns nothing cannot reach."
CONTROL = "Control: the untrained network takes the place of the trained one."


def claims(runs: Runs) -> Iterator[Claim]:
    """The three Messages, then Figures 1, 3 and 4."""

    def top(arm: str, name: str) -> PerReplica:
        """A layer's measurement at the features, the last layer."""
        return runs[arm][name].isel(layer=-1).values

    def gain(arm: str, over: str, name: str) -> PerReplica:
        """How far ``arm`` is above both ``over`` and the network that all begin from."""
        return top(arm, name) - np.maximum(top(over, name), top("untrained", name))

    def above_first(arm: str, name: str) -> xr.DataArray:
        """A measurement of all layers but the first (Figure 4 shows layers 2 to 5), ``[replica, layer]``."""
        return runs[arm][name].isel(layer=slice(1, None))

    def filters(arm: str, name: str) -> PerReplica:
        return last(runs[arm], runs[arm][name]).values

    for arm in ("none", "untrained"):
        yield THE["filters-move-without-augmentation"].at_least(
            filters(arm, "filter_distance"),
            0.01,
            arm=arm,
            expected=arm == "none",
            why="Bound: one per cent, a stated choice far above rounding." if arm == "none" else CONTROL,
        )
    yield THE["no-augmentation-learns-no-signal"].at_most(
        top("none", "linear_probe") - top("untrained", "linear_probe"), 0.0, arm="none", why=PAIRED
    )
    yield THE["crop-learns-some-semantics"].at_least(gain("crop", "none", "linear_probe"), GAIN, arm="crop", why=GAINED)
    yield THE["crop-keeps-colour-features"].at_least(
        top("crop", "colour_readout") - top("crop-colour", "colour_readout"), 0.0, arm="crop", why=PAIRED
    )
    yield THE["crop-keeps-colourful-filters"].at_least(
        filters("crop", "filter_colourfulness") - filters("crop-colour", "filter_colourfulness"),
        0.0,
        arm="crop",
        why=PAIRED,
    )
    yield THE["crop-learns-colourful-filters"].at_least(
        _added_colour(runs, "crop") - _added_colour(runs, "crop-colour"), 0.0, arm="crop", why=PAIRED
    )
    for arm in ("crop-colour", "untrained"):
        expected = None if arm == "crop-colour" else False
        why = PAIRED if arm == "crop-colour" else CONTROL
        thinner = above_first("crop", "density") - above_first(arm, "density")
        yield THE["colour-makes-contrastive-sparser"].at_least(
            thinner.mean("layer"), 0.0, arm=arm, expected=expected, why=f"{why} {_by_layer(thinner)}"
        )
        sharper = above_first(arm, "hoyer") - above_first("crop", "hoyer")
        yield THE["colour-makes-contrastive-sparser-hoyer"].at_least(
            sharper.mean("layer"), 0.0, arm=arm, expected=expected, why=f"{why} {_by_layer(sharper)}"
        )
        denser = above_first("none", "density") - above_first(arm, "density")
        yield THE["no-augmentation-fires-densely"].at_least(
            denser.mean("layer"), 0.0, arm=arm, expected=expected, why=f"{why} {_by_layer(denser)}"
        )
        why = GAINED if arm == "crop-colour" else CONTROL
        for id, over, name in (
            ("colour-improves-features", "crop", "linear_probe"),
            ("augmentation-improves-linear-probe", "none", "linear_probe"),
            ("augmentation-improves-knn", "none", "knn"),
            ("augmentation-separates-classes", "none", "silhouette"),
        ):
            yield THE[id].at_least(gain(arm, over, name), GAIN, arm=arm, expected=expected, why=why)
    for arm in ("supervised-crop", "supervised-crop-colour"):
        thinner = above_first("crop", "density") - above_first(arm, "density")
        yield THE["supervised-sparser-than-crop"].at_least(thinner.mean("layer"), 0.0, arm=arm, why=PAIRED)
    changed = above_first("supervised-crop", "density") - above_first("supervised-crop-colour", "density")
    yield THE["supervised-firing-ignores-colour"].equals(
        changed.mean("layer"),
        0.0,
        0.05,
        arm="supervised-crop-colour",
        why="Tolerance: one unit in twenty, a stated choice.",
    )
    yield THE["supervised-learns-more-colour"].at_least(
        _added_colour(runs, "supervised-crop") - _added_colour(runs, "crop-colour"),
        0.0,
        arm="supervised-crop",
        why=PAIRED,
    )
    yield THE["supervised-more-colourful"].at_least(
        filters("supervised-crop", "filter_colourfulness") - filters("crop-colour", "filter_colourfulness"),
        0.0,
        arm="supervised-crop",
        why=PAIRED,
    )


def _added_colour(runs: Runs, arm: str) -> PerReplica:
    """Mean chromatic share of what training added to the filters; all arms begin as the untrained one is."""
    added = (runs[arm]["filters"] - runs["untrained"]["filters"]).transpose("replica", "filter", "channel", ...)
    return np.array([float(colourfulness(torch.from_numpy(filters)).nanmean()) for filters in added.values])


def _by_layer(differences: xr.DataArray) -> str:
    values = ", ".join(f"{float(v):+.3f}" for v in differences.mean("replica"))
    return f"Measured in each layer from the second: {values}."


def headline(runs: Runs, claims: Sequence[Claim]) -> str:
    """What was found, in one sentence."""

    def mean(arm: str, name: str) -> float:
        return float(runs[arm][name].isel(layer=-1).mean())

    def colour(arm: str) -> float:
        return 100 * float(_added_colour(runs, arm).mean())

    expected = [claim.verdict for claim in claims if claim.expected]
    return (
        f"What crops alone add to the first-layer filters is {colour('crop'):.0f} % colour, with colour distortion "
        f"{colour('crop-colour'):.0f} %; a linear probe then names {100 * mean('crop', 'linear_probe'):.0f} % and "
        f"{100 * mean('crop-colour', 'linear_probe'):.0f} % of the test images, "
        f"{100 * mean('untrained', 'linear_probe'):.0f} % before training; {expected.count('holds')} of the "
        f"{len(expected)} statements expected to hold at this size do."
    )
