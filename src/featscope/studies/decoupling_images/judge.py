"""From measurements to verdicts. All differences are paired: a replica's arms share network and images."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float

from featscope.claims import Claim
from featscope.studies.base import Runs, last
from featscope.studies.decoupling_images.statements import STATEMENTS

THE = {statement.id: statement for statement in STATEMENTS}

PerReplica = Float[np.ndarray, " replica"]
PAIRED = "Bound: 0, the sign of a difference paired by replica."
CONTROL = "Control: the untrained network takes the place of the trained one."


def claims(runs: Runs) -> Iterator[Claim]:
    """The three Messages, then Figures 1, 3 and 4."""

    def top(arm: str, name: str) -> PerReplica:
        """A layer's measurement at the features, the last layer."""
        return runs[arm][name].isel(layer=-1).values

    def above_first(arm: str, name: str) -> PerReplica:
        """A layer's measurement, mean over all layers but the first (Figure 4 shows layers 2 to 5)."""
        return runs[arm][name].isel(layer=slice(1, None)).mean("layer").values

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
    yield THE["crop-learns-some-semantics"].at_least(
        top("crop", "linear_probe") - top("none", "linear_probe"), 0.0, arm="crop", why=PAIRED
    )
    yield THE["crop-keeps-colour-features"].at_least(
        top("crop", "colour_readout") - top("crop-colour", "colour_readout"), 0.0, arm="crop", why=PAIRED
    )
    yield THE["crop-keeps-colourful-filters"].at_least(
        filters("crop", "filter_colourfulness") - filters("crop-colour", "filter_colourfulness"),
        0.0,
        arm="crop",
        why=PAIRED,
    )
    for arm in ("crop-colour", "untrained"):
        why, expected = (PAIRED, None) if arm == "crop-colour" else (CONTROL, False)
        yield THE["colour-makes-contrastive-sparser"].at_least(
            above_first("crop", "density") - above_first(arm, "density"),
            0.0,
            arm=arm,
            why=why,
            expected=expected,
        )
        yield THE["colour-makes-contrastive-sparser-hoyer"].at_least(
            above_first(arm, "hoyer") - above_first("crop", "hoyer"), 0.0, arm=arm, why=why, expected=expected
        )
        yield THE["colour-improves-features"].at_least(
            top(arm, "linear_probe") - top("crop", "linear_probe"), 0.0, arm=arm, why=why, expected=expected
        )
        for id, name in (
            ("augmentation-improves-linear-probe", "linear_probe"),
            ("augmentation-improves-knn", "knn"),
            ("augmentation-separates-classes", "silhouette"),
        ):
            yield THE[id].at_least(
                top(arm, name) - top("none", name), 0.0, arm=arm, why=why, expected=expected
            )
    for arm in ("supervised-crop", "supervised-crop-colour"):
        yield THE["supervised-sparser-than-crop"].at_least(
            above_first("crop", "density") - above_first(arm, "density"), 0.0, arm=arm, why=PAIRED
        )
    yield THE["supervised-firing-ignores-colour"].equals(
        above_first("supervised-crop", "density") - above_first("supervised-crop-colour", "density"),
        0.0,
        0.05,
        arm="supervised-crop-colour",
        why="Tolerance: one unit in twenty, a stated choice.",
    )
    yield THE["supervised-more-colourful"].at_least(
        filters("supervised-crop", "filter_colourfulness") - filters("crop-colour", "filter_colourfulness"),
        0.0,
        arm="supervised-crop",
        why=PAIRED,
    )


def headline(runs: Runs, claims: Sequence[Claim]) -> str:
    """What was found, in one sentence."""

    def mean(arm: str, name: str) -> float:
        return float(runs[arm][name].isel(layer=-1).mean())

    expected = [claim.verdict for claim in claims if claim.expected]
    return (
        f"A linear probe names {100 * mean('crop-colour', 'linear_probe'):.0f} % of the test images from "
        f"features learned with crops and colour distortion, {100 * mean('crop', 'linear_probe'):.0f} % "
        f"with crops alone, {100 * mean('none', 'linear_probe'):.0f} % without augmentation and "
        f"{100 * mean('untrained', 'linear_probe'):.0f} % untrained; {expected.count('holds')} of the "
        f"{len(expected)} statements expected to hold at this size do."
    )
