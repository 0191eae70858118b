"""The figures of the study."""

from collections.abc import Mapping

import numpy as np

from featscope.figures import Curve, Curves, Panel
from featscope.studies.base import Runs, Study
from featscope.studies.multi_index.arms import ERRORS, ERRORS_CUBIC, ERRORS_NONE, SPAN, SPAN_CUBIC, SPAN_NONE
from featscope.studies.summaries import chart, curve, curves
from featscope.theory import multi_index as theory

_UNIT = (0.0, 1.0)


def share(study: Study, runs: Runs, laws: Mapping[str, float]) -> Curves:
    """Share of ‖W‖² in the span over n/d², for every d, with the limit."""
    panels = []
    for name in (SPAN, SPAN_CUBIC, SPAN_NONE):
        lines = curves(runs[name].share, "dimension", lambda d: f"d = {d}", "ratio", within=_UNIT)
        marks = []
        if name in laws:
            ratios = runs[name].ratio.values
            grid = np.geomspace(ratios[0], ratios[-1], 60)
            limit = np.array([theory.share_in_span(ratio, laws[name]) for ratio in grid])
            lines.append(Curve("large d, predicted", grid, limit, dashed=True))
            marks.append((theory.opening_ratio(laws[name]), "half"))
        panels.append(Panel(study.arm(name).label, "n/d²", "share in the span", lines, marks, log_x=True))
    return chart(
        "share",
        "How many samples does it take until the first gradient turns to the directions?",
        "Share of the first weights' squares in the span of the directions that count.",
        *panels,
        claims=("half-at-known-ratio", "share-rises-with-samples", "cubic-part-is-noise"),
    )


def subspace(study: Study, runs: Runs) -> Curves:
    """Cosine of the largest principal angle over n/d²."""
    return chart(
        "subspace",
        "How early do leading singular vectors of the first weights find the directions?",
        "Cosine of the largest principal angle between the top right singular vectors of W and the directions.",
        *(
            Panel(
                study.arm(name).label,
                "n/d²",
                "cosine of the largest angle",
                curves(runs[name].cosine, "dimension", lambda d: f"d = {d}", "ratio", within=_UNIT),
                log_x=True,
            )
            for name in (SPAN, SPAN_CUBIC, SPAN_NONE)
        ),
        claims=("subspace-is-recovered", "subspace-is-found-before-the-share"),
    )


def errors(study: Study, runs: Runs) -> Curves:
    """Errors over width."""
    drawn = {
        "network": "after the first step",
        "printed": "the same, linear part not added back",
        "random": "random features",
        "linear": "linear part alone",
    }
    return chart(
        "errors",
        "Features of one step against random ones of equal width",
        "Mean squared error against a polynomial of mean square 1, read-outs by ridge regression.",
        *(
            Panel(
                study.arm(arm).label,
                "neurons",
                "mean squared error",
                [curve(runs[arm][name], label, "width", within=(0.0, np.inf)) for name, label in drawn.items()],
                log_x=True,
                log_y=True,
            )
            for arm in (ERRORS, ERRORS_CUBIC, ERRORS_NONE)
        ),
        claims=("network-beats-random-features", "network-learns", "network-learns-as-printed"),
    )
