"""The figures of the study."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from featscope.figures import Curve, Curves, Panel
from featscope.studies.base import Runs, Study
from featscope.studies.summaries import chart, curve, curves
from featscope.theory import looped_transformer as theory

ROUNDED = -theory.FLOOR + 10
"""Log squared errors below it are at the floor of float64, or near."""
_END = -theory.FLOOR - 5
_LOG = "log squared error (natural)"


def figure_8_1(study: Study, runs: Runs, lengths: Sequence[str]) -> Curves:
    """Mean log error over loops for each length, with the printed bound, and slopes over lengths."""
    falls = [
        curve(runs[name].log_error.clip(min=_END).mean("prompt"), f"{study.arm(name).label}, measured")
        for name in lengths
    ]
    for name in (lengths[0], lengths[-1]):
        loops = runs[name]["step"].values
        bound = float(theory.printed_slope(runs[name].kappa.values).mean()) * loops
        falls.append(Curve(f"{study.arm(name).label}, bound", loops, bound, dashed=True))
    kappa = np.concatenate([runs[name].kappa.values.ravel() for name in lengths])
    speed = np.concatenate([_speed(runs[name]) for name in lengths])
    order, grid = np.argsort(kappa), np.geomspace(kappa.min(), kappa.max(), 60)
    theory_lines = [
        Curve("exact: -2 log(1 - 1/κ)", grid, -theory.slope(grid), dashed=True),
        Curve("printed: 1/κ", grid, -theory.printed_slope(grid), dashed=True),
    ]
    return chart(
        "figure-8-1",
        "Does the error fall by a factor a loop, and faster the more examples there are?",
        "Left: log of the squared error of the estimate over that at the start, mean over prompts; dashed, the printed "
        "bound -t/κ. Flat ends are the limit of float64. Right: how fast each prompt falls over all loops, against its "
        "condition number, with the printed and the exact slope.",
        Panel("Error over loops", "loop", _LOG, falls),
        Panel(
            "Speed of each prompt",
            "condition number κ",
            "fall of log squared error a loop",
            [Curve("every prompt", kappa[order], speed[order]), *theory_lines],
            log_x=True,
            log_y=True,
        ),
        claims=(
            "below-the-line",
            "slope-is-2log",
            "figure-8-1-kappa",
            "longer-prompts-are-faster",
            "gap-narrows-with-n",
            "gap-widens-with-n",
            "rounding-floor-crossing",
            "equals-gradient-descent",
        ),
    )


def _speed(run: xr.Dataset) -> np.ndarray:
    """Fall of each prompt's log squared error a loop, over all loops before rounding ends it ``[replica * prompt]``."""
    falling = run.log_error > ROUNDED
    last = run["step"].where(falling).max("step")
    return (-run.log_error.where(falling).min("step") / last).values.ravel()


def elsewhere(real: xr.Dataset, sizes: xr.Dataset, beyond: float) -> Curves:
    """Prompts of patients with both bounds, and step sizes up to and beyond 2/L."""
    loops = real["step"].values
    kappa = float(real.kappa.mean())
    bounds = {"printed": theory.error_bound, "sharper": theory.sharper_bound}
    patients = [
        curve(np.log(real.error.clip(min=1e-16)).mean("prompt"), "measured"),
        *(Curve(f"{name} bound", loops, np.log(bound(kappa, loops)), dashed=True) for name, bound in bounds.items()),
    ]
    return chart(
        "elsewhere",
        "Real examples, and step sizes",
        f"Left: prompts of 300 patients, ten measures and the progress of a disease; condition number {kappa:.0f}. "
        f"Right: step sizes in units of 1/L; {beyond:g} is beyond 2, where descent diverges.",
        Panel("Patients", "loop", "log error (natural)", patients),
        Panel(
            "Step sizes",
            "loop",
            _LOG,
            curves(sizes.log_error.mean("prompt"), "step_size", lambda size: f"{size:g}/L"),
        ),
        claims=("error-bound", "sharper-bound", "step-size-range", "diverges-beyond-two"),
    )


def trained(run: xr.Dataset, tuned: xr.Dataset, loops: int, prompts: int) -> Curves:
    """The trained layer beside the construction, loop by loop."""
    at = np.arange(1, run.sizes["loop"] + 1)
    lines = {
        "trained from random matrices": run.trained_error,
        "trained from the hand-set ones": tuned.trained_error,
        "hand-set, best common step": run.best_step_error,
        "hand-set, each prompt's 1/L": run.own_step_error,
    }
    return chart(
        "trained",
        "Free matrices, trained: are they better than one step size for all?",
        f"Mean squared error of <answer, θ*> - α over {prompts} fresh prompts, over loops; trained through the loops "
        "up to the line.",
        Panel(
            "Error over loops",
            "loop",
            "mean squared error",
            [curve(values, name, "loop", x=at) for name, values in lines.items()],
            marks=[(float(loops), "end of training's loops")],
            log_y=True,
        ),
        claims=(
            "training-beats-the-best-step",
            "training-extrapolates-in-loops",
            "training-ends-near-the-construction",
        ),
    )
