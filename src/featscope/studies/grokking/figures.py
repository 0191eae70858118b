"""The figures of the study."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from featscope.figures import Bars, Curves, Panel
from featscope.studies.base import Runs, Study, last
from featscope.studies.grokking import times
from featscope.studies.grokking.arms import (
    FEWER,
    INPUTS,
    LARGER,
    MORE,
    NO_DECAY,
    PRINTED,
    SAME_BOTH,
    SAME_P,
)
from featscope.studies.summaries import bars, chart, curve

_RIGHT = (0.0, 1.0)


def _drawn(run: xr.Dataset, values: xr.DataArray) -> xr.DataArray:
    """``values`` after the start; a replica whose run has ended stays as it was then."""
    held = values.where(run["step"] <= run["last_step"], last(run, values))
    return held.sel(step=held["step"] > 0)


def accuracies(runs: Runs, moduli: Sequence[int]) -> Curves:
    """Accuracy on both parts over the log of steps for each k."""
    panels = []
    for name, k, p in zip(PRINTED, INPUTS, moduli, strict=True):
        drawn = [
            curve(_drawn(runs[name], runs[name].accuracy), "train", within=_RIGHT),
            curve(_drawn(runs[name], runs[name].test_accuracy), "test", within=_RIGHT),
        ]
        if (plain := f"{name}-no-decay") in NO_DECAY:
            rest = _drawn(runs[plain], runs[plain].test_accuracy)
            drawn.append(curve(rest, "test, no weight decay", within=_RIGHT, dashed=True))
        panels.append(Panel(f"{k} numbers modulo {p}", "step", "accuracy", drawn, log_x=True))
    return chart(
        "accuracies",
        "Are sums of two numbers, and of more, learned by heart first and then by the rule?",
        "Accuracy on the half of the points to train on, and on the others; dashed, on the others without weight "
        "decay. A run ends when all its replicas have learned; lines have them as they were then from there on.",
        *panels,
        claims=("grokking-weakens-with-k", "two-steps-of-learning", "weight-decay-brings-the-rule"),
    )


def ratios(study: Study, runs: Runs, same_points: Sequence[str]) -> Bars:
    """Time to generalise over time to fit, for each comparison and k; ``same_points`` are arms with as many points."""
    comparisons = {
        "p falls with k, as printed": PRINTED,
        "same number of points": same_points,
        "same p": SAME_P,
        "same p and points": SAME_BOTH,
    }
    arms = list(dict.fromkeys(arm for compared in comparisons.values() for arm in compared))
    each = {}
    for label, compared in comparisons.items():
        columns = [_log2(runs[arm]).where(arm in compared) for arm in arms]
        each[label] = xr.concat(columns, "arm")
    return bars(
        "ratios",
        "How much later does the rule come, as k grows, and what else differs?",
        "Log2 of the steps until 95 % of other points are right over those until 95 % of the points to train on are: "
        "1 is twice as long. Replicas that had not generalised when their run ended count with that step, which is a "
        "lower bound.",
        [_group(study, runs, arm) for arm in arms],
        each,
        "log2 of the ratio of steps",
        references=[(0.0, "at once")],
        claims=("grokking-weakens-with-k", "weakens-at-the-same-modulus", "weakens-with-the-same-points"),
    )


def _log2(run: xr.Dataset) -> xr.DataArray:
    return times.log_ratio(run).low.drop_vars("replica") / float(np.log(2))


def _group(study: Study, runs: Runs, arm: str) -> str:
    return f"{study.arm(arm).label} ({times.reached(runs[arm], 'generalised')})"


def others(study: Study, runs: Runs) -> Bars:
    """The same at one k, where only p or the number of points differs."""
    arms = [FEWER, "k=3", MORE, SAME_P[0], "k=2", LARGER]
    values = [_log2(runs[arm]) for arm in arms]
    return bars(
        "points",
        "At one k, do more points do the same?",
        "Log2 of the same ratio. Left three: three numbers and one modulus, three, five and nine tenths of the points. "
        "Right three: two numbers, half of the points, larger moduli.",
        [_group(study, runs, arm) for arm in arms],
        {"log2 of the ratio": xr.concat(values, "arm")},
        "log2 of the ratio of steps",
        references=[(0.0, "at once")],
        claims=("more-points-weaken-it", "larger-modulus-weakens-it"),
    )


def measures(study: Study, runs: Runs) -> Curves:
    """What changes on the way: spread of spectra, norm, and the distance of both accuracies."""
    drawn = ("k=2", "k=2-no-decay", "k=3", "k=4")
    series = {
        "Frequencies of embeddings": ("share of frequencies in use", lambda run: run.spread),
        "Norm": ("norm of all weights", lambda run: run.norm),
        "Learned by heart": ("train less test accuracy", lambda run: run.accuracy - run.test_accuracy),
    }
    return chart(
        "progress",
        "While test accuracy rises, does the norm fall, and do embeddings lose frequencies?",
        "Left: 1/Σq² over the number of frequencies, q the share of the power of each. Middle: norm of all weights. "
        "Right: accuracy on points to train on less that on others. Lines have replicas whose run has ended as they "
        "were then.",
        *(
            Panel(
                title,
                "step",
                label,
                [curve(_drawn(runs[arm], of(runs[arm])), study.arm(arm).label) for arm in drawn],
                log_x=True,
            )
            for title, (label, of) in series.items()
        ),
        claims=("embeddings-lose-frequencies", "norm-falls"),
    )
