"""The figures of the study."""

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from featscope.figures import Curve, Curves, Panel
from featscope.studies.base import Runs
from featscope.studies.icl_regression.arms import COVERED, DESCENT, EVALUATION, ONLINE, SQUARES
from featscope.studies.summaries import chart, curve
from featscope.theory import icl_regression as theory

if TYPE_CHECKING:
    from featscope.studies.icl_regression.evaluation import EvaluationClaims

_RANK = "rank of the model"
_ERROR = "mean squared error"


def errors(study: "EvaluationClaims", runs: Runs) -> Curves:
    """Error over rank for each noise: formula, Monte Carlo, and trained models."""
    shown = {
        "Set by hand": (EVALUATION, runs[EVALUATION].loss),
        "Trained on prompts": (EVALUATION, runs[ONLINE].evaluation_loss),
        f"A task in {study.covered} directions": (COVERED, runs[COVERED].loss),
    }
    panels, ranks = [], np.arange(study.dimension + 1)
    for title, (arm, loss) in shown.items():
        formula, lines = study.formula(arm), []
        for at, noise in enumerate(study.noises):
            lines += [
                curve(loss.isel(noise=at), f"σ² = {noise:g}", "rank", x=ranks),
                Curve(f"σ² = {noise:g}, formula", ranks, formula.isel(noise=at).values, dashed=True),
            ]
        panels.append(Panel(title, _RANK, _ERROR, lines, log_y=True))
    return chart(
        "errors",
        "Is the best model smaller, the noisier the labels are?",
        "Error on prompts with noisy labels over the rank of the model: measured (points) and by the formula (dashed), "
        "for models that are set by hand, for trained ones, and for a task within a few directions.",
        *panels,
        claims=("evaluation-loss", "best-rank-falls-with-noise", "gap-of-ranks", "trained-models-err-as-predicted"),
    )


def parts(study: "EvaluationClaims", runs: Runs) -> Curves:
    """The four parts over rank, and what each direction adds."""
    run, ranks = runs[EVALUATION], np.arange(study.dimension + 1)
    o, v = study.options(EVALUATION), study.coefficients(EVALUATION)
    formulas = {
        "residual bias": (run.residual_bias, theory.residual_bias(v, o.data.spectrum, o.task)),
        "shrinkage bias": (run.shrinkage_bias, theory.shrinkage_bias(v, o.data.spectrum, o.task)),
        "input noise": (run.input_noise, theory.input_noise(v, o.data.spectrum, o.task, o.examples)),
        "label noise, σ² = 1": (run.label_noise, theory.label_noise(v, o.data.spectrum, o.examples, 1.0)),
    }
    lines = []
    for name, (found, formula) in formulas.items():
        lines += [curve(found, name, "rank", x=ranks), Curve(f"{name}, formula", ranks, formula, dashed=True)]
    steps = []
    for at, noise in enumerate(o.noises):
        wanted = theory.marginal_values(o.data.spectrum, o.task, o.data.samples, o.examples, noise)
        steps += [
            curve(run.loss.diff("rank").isel(noise=at), f"σ² = {noise:g}", "rank", x=ranks[1:]),
            Curve(f"σ² = {noise:g}, formula", ranks[1:], wanted, dashed=True),
        ]
    return chart(
        "parts",
        "Does bias fall with rank, and does noise grow?",
        "Left: the four parts of the error. Right: what a direction more adds to it; below zero it helps.",
        Panel("Parts of the error", _RANK, "part of the mean squared error", lines),
        Panel("What a direction adds", "direction", "error with it less error without", steps),
        claims=("input-noise", "label-noise", "residual-bias", "shrinkage-bias", "marginal-value"),
    )


def ways(runs: Runs) -> Curves:
    """Distance to the best model of each rank over iterations."""
    panels = []
    for arm, title in ((SQUARES, "Alternating least squares"), (DESCENT, "Gradient descent")):
        off: xr.DataArray = runs[arm].off.clip(min=1e-16)
        lines = [curve(xr.apply_ufunc(np.log10, off.isel(rank=at)), f"rank {at}") for at in range(1, off.sizes["rank"])]
        panels.append(Panel(title, "step", "log10 of the distance", lines))
    return chart(
        "ways",
        "Does every way down end at the closed form?",
        "Distance of u U to the best model of its rank over the norm of that, on all prompts at once. Where a low rank "
        "waits, it has a direction to give up.",
        *panels,
        claims=("best-of-each-rank", "least-loss-of-each-rank"),
    )
