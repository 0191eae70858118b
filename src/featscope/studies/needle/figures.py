"""The figures of the study, described for the report to draw."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from featscope.claims import LEVEL
from featscope.figures import Curve, Curves, Figure, Heatmaps, Panel
from featscope.studies.base import Runs
from featscope.studies.summaries import banded

if TYPE_CHECKING:
    from featscope.studies.needle.study import NeedleInAHaystack


def figures(study: "NeedleInAHaystack", runs: Runs) -> Iterator[Figure]:
    """Grids of length and depth, then means."""
    yield _grids(
        study, runs, "normalised", "grids", "Scores over length and depth", "normalised score", "1 is a perfect answer."
    )
    yield _means(study, runs)
    compressed = {arm: run for arm, run in runs.items() if arm not in ("full", "no-needle")}
    if compressed:
        about = "1 keeps all of it; for SnapKV and H2O over layers and heads, too."
        title = "What was kept of the needle"
        yield _grids(study, compressed, "kept", "kept", title, "share of the needle's tokens", about)


def _grids(
    study: "NeedleInAHaystack", runs: Runs, name: str, identifier: str, title: str, label: str, about: str
) -> Heatmaps:
    return Heatmaps(
        identifier,
        title,
        f"Means over prompts and replicas. {about}",
        {arm: run[name].mean(("replica", "prompt")).transpose("depth", "length").values for arm, run in runs.items()},
        "depth of the needle (%)",
        "prompt (tokens)",
        label,
        [f"{100 * depth:.0f}" for depth in study.places],
        [str(length) for length in study.lengths],
        (0.0, 1.0),
    )


def _means(study: "NeedleInAHaystack", runs: Runs) -> Curves:
    lengths = np.asarray(study.lengths, dtype=float)
    depths = 100 * np.asarray(study.places)

    def curves(x: np.ndarray, others: tuple[str, str]) -> list[Curve]:
        return [banded(arm, x, run["normalised"].mean(others)) for arm, run in runs.items()]

    return Curves(
        "means",
        "Scores over length, and over depth",
        f"Means over the other axis and over prompts. Bands are {100 * LEVEL:.3g} % intervals over replicas.",
        [
            Panel("Length", "prompt (tokens)", "normalised score", curves(lengths, ("depth", "prompt"))),
            Panel("Depth", "depth of the needle (%)", "normalised score", curves(depths, ("length", "prompt"))),
        ],
    )
