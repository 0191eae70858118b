"""The figures of the study."""

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from featscope.figures import Curve, Curves, Heatmaps, Panel
from featscope.studies.base import Runs
from featscope.studies.icl_parity.arms import ALONE, EXAMPLES, OFTEN, TRAINED, WIDER, WIDEST
from featscope.studies.summaries import chart, curve, heatmaps
from featscope.theory import sparse_parity as theory

if TYPE_CHECKING:
    from featscope.studies.icl_parity.decomposition import DecompositionClaims

_M, _HEADS, _DIGITS = "examples in the prompt, M", "heads, m", "digits that the network looks at, ν"
_NETWORKS = ("small, ν = {}", "large, ν = {}")


def margins(study: "DecompositionClaims", runs: Runs) -> Heatmaps:
    """y g of the small and of the large network for every task."""
    run = runs["d=8-k=2"]
    number = np.arange(1, run.sizes["i"] + 1)
    shown = {
        f"{title}, {int(run.heads.isel(replica=0, network=at))} heads": study.margins(run, name)
        .min("pattern")
        .round(9)  # zeros are of rounding
        .assign_coords(i=number, j=number)
        for at, (name, title) in enumerate((("small", "Small network"), ("large", "Large network")))
    }
    return heatmaps(
        "margins",
        "Which pairs of features do small and large networks answer?",
        "Least margin y g of each task over its four patterns, endless prompts. At 1 and above there is no loss; at 0 "
        "a task is not answered. It is the number of binary digits, of those the network looks at, in which the two "
        "features' numbers differ. Important is the task of features 1 and 2 only.",
        shown,
        ("i", "feature i"),
        ("j", "feature j"),
        "margin",
        (0.0, 3.0),
        claims=("margins-are-hamming-distances", "large-answers-every-task", "loss-on-other-tasks"),
    )


def _pair(study: "DecompositionClaims", values: xr.DataArray, arm: str) -> list[Curve]:
    """Small and large over lengths of prompts."""
    both = zip(_NETWORKS, study.sizes(arm), study.both(values, arm), strict=True)
    return [curve(one, label.format(nu), "samples") for label, nu, one in both]


def accuracy(study: "DecompositionClaims", runs: Runs) -> Curves:
    """Accuracy of small and large networks over lengths of prompts."""
    panels = []
    for arm in (EXAMPLES, WIDER, WIDEST):
        data = study.arm(arm).recipe.learner.data
        title = f"{data.features} features, {data.important} important, γ = {data.gamma:g}"
        panels.append(Panel(title, _M, "share of right answers", _pair(study, runs[arm].accuracy, arm), log_x=True))
    return chart(
        "accuracy",
        "After few examples, is the small network right more often?",
        "Accuracy on important tasks over the number of examples, networks set by hand; 1/2 is chance.",
        *panels,
        claims=("small-beats-large", "small-has-less-loss", "gap-falls-with-examples"),
    )


def sizes(study: "DecompositionClaims", runs: Runs) -> Curves:
    """Loss over the size of the network."""
    panels = []
    for arm in (WIDER, WIDEST):
        run, nu = runs[arm], study.sizes(arm)[0]
        at = np.arange(1, run.sizes["size"] + 1)
        lines = [curve(run.hinge.sel(samples=m), f"M = {m:g}", "size", x=at) for m in run.samples.values]
        title = f"{2 ** at[-1]} features, {2**nu} important"
        panels.append(Panel(title, _DIGITS, "hinge loss", lines, marks=[(float(nu), "ν_1: important tasks")]))
    return chart(
        "sizes",
        "Does the best network look at as many digits as important tasks need?",
        "Hinge loss on important tasks over the size of the network, set by hand.",
        *panels,
        claims=("every-digit-more-costs", "too-few-digits-cost-more"),
    )


def left_out(study: "DecompositionClaims", runs: Runs) -> Curves:
    """|g - h| over lengths of prompts, with the predicted slope."""
    panels = []
    for arm in (EXAMPLES, WIDER, WIDEST):
        data = study.arm(arm).recipe.learner.data
        lines = _pair(study, runs[arm].gap_quantile, arm)
        guides = []
        for line in lines:
            slope = line.y[-1] * np.sqrt(line.x[-1] / line.x)
            guides.append(Curve("slope -1/2", line.x, slope, dashed=True))
        title = f"{data.features} features, {data.important} important"
        panels.append(Panel(title, _M, "90 % quantile of |g - h|", [*lines, *guides], log_x=True, log_y=True))
    return chart(
        "left-out",
        "Does what signal and projected noise leave out fall as the root of the examples?",
        "Distance of the answer to what Theorem 5.5.2 says of it; dashed, the predicted slope through the last point.",
        *panels,
        claims=("decomposition-rate-of-small", "decomposition-rate-of-large", "error-grows-faster-than-root-nu"),
    )


def trained(study: "DecompositionClaims", runs: Runs) -> Curves:
    """Losses of trained networks over heads, with the levels of uncovered patterns."""
    chances = theory.pattern_probabilities(study.gamma)
    names = {TRAINED: "few other tasks", ALONE: "important tasks only", OFTEN: "many other tasks"}
    heads = runs[TRAINED].heads.values
    levels = {"(-1,-1) uncovered": chances[3], "(1,-1) or (-1,1) uncovered": chances[1]}

    def over(name: str) -> list[Curve]:
        return [curve(runs[arm][name], label, "heads", within=(0.0, np.inf)) for arm, label in names.items()]

    cost = [curve(runs[arm].hinge - runs[arm].inner_loss, label, "heads") for arm, label in names.items()]
    predicted = [Curve(name, heads, np.full(heads.shape, level), dashed=True) for name, level in levels.items()]
    return chart(
        "trained",
        "How many heads do trained networks need, and do they learn other tasks on the way?",
        "Hinge loss over the number of heads, endless prompts: on important tasks, with the levels of one pattern left "
        "out (dashed), and on others. Right: what prompts of 256 examples add on important tasks. On the left "
        "lines with few other tasks and with none may lie on one another: both begin at the same weights.",
        Panel("Important tasks", _HEADS, "hinge loss", [*over("inner_loss"), *predicted], log_x=True),
        Panel("Other tasks", _HEADS, "hinge loss", over("outer_loss"), log_x=True),
        Panel("Cost of 256 examples", _HEADS, "hinge loss added", cost, log_x=True),
        claims=(
            "loss-is-of-uncovered-patterns",
            "many-heads-learn-important-tasks",
            "larger-networks-learn-other-tasks",
            "noise-costs-large-networks-more",
            "no-gap-without-other-tasks",
        ),
    )
