"""The figures of the study."""

import numpy as np
import xarray as xr

from featscope.figures import Bars, Curve, Curves, Heatmaps, Panel
from featscope.studies.base import Runs, last
from featscope.studies.summaries import bars, chart, counted, curve
from featscope.studies.universality.arms import (
    EIGHT,
    JOINT,
    KEPT,
    LABELS,
    SEARCHED,
    SPECIFIC,
    TUNED,
    TURNED,
    UniversalityArms,
)
from featscope.studies.universality.labelled import NOISE, RANK, ROW, SAMPLES, SHARED, TASKS, betas
from featscope.studies.universality.tables import NORMS, RARE
from featscope.theory import universality as theory

_SHOWN = {
    SPECIFIC: "one task",
    JOINT: "four tasks",
    TUNED: "four, then tuned on the one",
    TURNED: "the same in fewer outputs",
}
_KINDS = ("shared by all", "the task's own", "other tasks'", "spurious")


def kept(runs: Runs) -> Bars:
    """Squared weights of each kind of feature after each kind of pre-training."""
    series = {}
    for arm, label in _SHOWN.items():
        run = runs[arm]
        private = last(run, run.private)
        each = [
            last(run, run.shared),
            private.isel(task=0),
            private.isel(task=slice(1, None)).mean("task"),
            last(run, run.spurious),
        ]
        series[label] = xr.concat([one.drop_vars("step", errors="ignore") for one in each], "kind")
    return bars(
        "kept",
        "What does pre-training on four tasks keep of each kind of feature?",
        "Mean squared weight of features in the representation.",
        _KINDS,
        series,
        "squared weight",
        within=(0, np.inf),
        references=[(0.25, "1/T")],
        claims=("shared-one-private-1-over-t", "task-specific-all-ones", "finetune-near-wstar", "superposed-is-turned"),
    )


def errors(runs: Runs) -> Curves:
    """Errors over labels."""
    run, panels = runs[LABELS], []
    for at, noise in enumerate(NOISE):
        lines = [
            curve(run.error.isel(noise=at, weight=t), counted(tasks, "task"), "samples", x=_labels())
            for t, tasks in enumerate(TASKS)
        ]
        lines.append(curve(run.error.isel(noise=at, weight=len(TASKS)), "16, then tuned", "samples", x=_labels()))
        title = "Labels without noise" if noise == 0 else f"Noise of {noise:g}"
        panels.append(Panel(title, "labels", "mean absolute error", lines, marks=[(RANK, "r features")], log_x=True))
    return chart(
        "errors",
        "What do more tasks in pre-training cost, and up to how many labels?",
        "Error of linear predictors on one task over labels, by the tasks of pre-training.",
        *panels,
        claims=("few-labels-show-the-gap", "noiseless-gap-vanishes", "many-labels-close-the-gap"),
    )


def _labels() -> np.ndarray:
    return np.array(SAMPLES, float)


def matrices(study: UniversalityArms, runs: Runs) -> Heatmaps:
    """Gram matrices of all features."""
    data = study.data(JOINT)
    starts = {0: "shared", data.invariant: "spurious"} | {data.own(t).start: f"task {t + 1}" for t in range(data.tasks)}
    names = [starts.get(place, "") for place in range(data.features)]
    return Heatmaps(
        "matrices",
        "Do features of different tasks share outputs?",
        "Gram matrix of the representation in the features, mean over replicas.",
        {
            label: runs[arm].gram.transpose("replica", "feature", "other").values.mean(0)
            for arm, label in _SHOWN.items()
        },
        "feature",
        "feature",
        "entry of the Gram matrix",
        names,
        names,
        claims=("kinds-do-not-mix", "features-of-a-kind-are-equal", "superposed-solution-equal-loss"),
    )


def on_the_way(study: UniversalityArms, runs: Runs) -> Curves:
    """Weights over steps."""
    panels = []
    for arm in (SPECIFIC, JOINT, EIGHT, KEPT):
        run, tasks = runs[arm], study.data(arm).tasks
        lines = [
            curve(run.shared, "shared"),
            curve(run.private.isel(task=0), "first task's"),
            curve(run.private.isel(task=slice(1, None)).mean("task"), "other tasks'"),
            curve(run.spurious, "spurious"),
        ]
        steps = run["step"].values[[0, -1]]
        lines.append(Curve(f"1/{tasks}", steps, np.full(2, 1 / tasks), dashed=True))
        panels.append(Panel(study.arm(arm).label, "step", "squared weight", lines))
    return chart(
        "on-the-way",
        "Do spurious features go first, and do they stay without augmentation?",
        "Mean squared weight of features while training.",
        *panels,
        claims=("spurious-are-dropped", "without-augmentation-they-count-as-shared"),
    )


def complexity(runs: Runs) -> Curves:
    """Complexity and similarity over tasks."""
    run, tasks = runs[LABELS], np.array(TASKS, float)
    ratio = run.complexity / run.complexity.isel(weight=0)
    few = run.error.isel(samples=SAMPLES.index(10), noise=0)
    formula = theory.complexity_ratio(np.array(betas()[: len(TASKS)]))
    of_tasks = slice(0, len(TASKS))
    left = [
        curve(ratio.isel(weight=of_tasks), "complexity", "weight", x=tasks),
        curve((few / few.isel(weight=0)).isel(weight=of_tasks), "error, 10 labels", "weight", x=tasks),
        Curve("(T + 1)/(2√T)", tasks, formula, dashed=True),
        Curve("√T", tasks, np.sqrt(tasks), dashed=True),
    ]
    row = np.array([theory.cka(SHARED, RANK, 1.0, 1 / t) for t in ROW])
    right = [
        curve(run.row, "measured", "tasks", x=np.array(ROW, float)),
        Curve("closed form", np.array(ROW, float), row, dashed=True),
    ]
    return chart(
        "complexity",
        "Do errors grow with the number of tasks as fast as their bounds?",
        "Left: over that of one task. Right: linear CKA with the representation of one task, on its data.",
        Panel("What a task pays", "tasks of pre-training", "over that of one task", left, log_x=True, log_y=True),
        Panel("Similarity", "tasks of pre-training", "linear CKA", right, log_x=True),
        claims=("complexity-ratio", "gap-is-milder-than-the-bounds", "errors-are-root-t-apart", "cka-closed-form"),
    )


def norms(runs: Runs) -> Curves:
    """What free tables keep over the norm."""
    run, norm = runs[SEARCHED], np.array(NORMS)
    lines = [
        curve(run.distance.isel(rarity=at), f"value with probability {rare:g}", "norm", x=norm)
        for at, rare in enumerate(RARE)
    ]
    marks = [(float(run.threshold.isel(rarity=at)[0]), f"threshold, {rare:g}") for at, rare in enumerate(RARE)]
    return chart(
        "norms",
        "From which norm on is a feature kept, and where is the threshold of Theorem 7.2's proof?",
        "Mean distance over B of a feature's two values in tables of least loss.",
        Panel("Free representations", "norm B", "distance over B", lines, marks=marks),
        claims=("kept-at-every-norm", "left-out-below-the-threshold", "theorem-7-2-threshold"),
    )
