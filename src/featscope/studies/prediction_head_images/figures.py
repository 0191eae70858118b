"""The figures of the study, described for the report to draw. Runs are called by the labels of their arms."""

from collections.abc import Iterator

import numpy as np
import torch
import xarray as xr

from featscope.claims import COSINE, POSITIVE
from featscope.figures import Curve, Curves, Figure, Heatmaps, Panel
from featscope.probes.collapse import in_order, off_diagonal
from featscope.studies import Runs
from featscope.studies.summaries import bars, chart, curve, over_steps

FIRST = "identity-initialised head"  # the arm's label
SHOWN = (FIRST, "MLP head", "no head", "untrained")  # where all would be too many
_EDGES = np.linspace(-1, 1, 41)
_LEAST = 1e-3  # singular value shown


def figures(runs: Runs) -> Iterator[Figure]:
    """Correlations, then Figures 1, 2 and 3 of the paper, spectra, and the course of training."""
    shown = {name: runs[name] for name in SHOWN}
    matrices = {name: run["projection_correlations"].values[0] for name, run in shown.items()}
    yield Heatmaps(
        "correlation-matrices",
        "How alike any two outputs are",
        "Correlations of the projection's outputs over test images, of replica 0: where all is dark, outputs are "
        "copies of each other. They are in the order of their part in the matrix's largest eigenvector.",
        {name: in_order(torch.from_numpy(matrix)).numpy() for name, matrix in matrices.items()},
        row_label="output",
        column_label="output",
        value_label="correlation",
        ends=COSINE,
        claims=("no-head-correlation", "head-decorrelates"),
    )
    yield Curves(
        "correlations",
        "Correlations of two outputs",
        "Histogram over pairs of dimensions and replicas, on test images (the paper's Figure 1, which shows the "
        "network trained without a head). Constant dimensions are left out.",
        [_histogram(shown, "projection"), _histogram(shown, "encoder")],
        claims=("no-head-correlation", "head-decorrelates", "milder-in-encoder"),
    )
    yield bars(
        "linear-probe",
        "Accuracy of the linear probe",
        "On test images and the frozen encoder (the paper's Figure 2, of which no numbers are left). Claims compare "
        "within a replica, which takes out most of what lines show.",
        list(runs),
        {"": 100 * xr.concat([run["linear_probe"] for run in runs.values()], "arm")},
        "test images named (%)",
        within=(0, 100),
        claims=("training-helps", "identity-head-competitive", "head-beats-none", "l2-gap"),
    )
    with_head = {name: run for name, run in runs.items() if "head_difference" in run and run.sizes["step"] > 1}
    steps = next((run["step"].values for run in with_head.values()), np.array([0]))
    known = {"independent entries": 2**0.5, "antisymmetric": 2.0}
    ratio = [curve(asymmetry(run), name, within=(0, 2)) for name, run in with_head.items()]
    ratio += [Curve(label, steps, np.full(len(steps), value), dashed=True) for label, value in known.items()]
    size = [curve(run["head_off_diagonal"], name, within=POSITIVE) for name, run in with_head.items()]
    yield chart(
        "head",
        "The course of the identity-initialised head",
        "The paper's Figures 3 and 4, in Frobenius norms. A symmetric head, such as the identity itself, has ratio 0.",
        Panel("Size of the off-diagonal", "training step", "norm of what is off the diagonal (||offdiag(E)||)", size),
        Panel("Asymmetry", "training step", "asymmetry (||E - Eᵀ|| / ||offdiag(E)||)", ratio),
        claims=("rise-and-fall-on-images", "head-asymmetric-early", "head-not-symmetric"),
    )
    yield Curves(
        "spectra",
        "Singular spectra",
        "Of standardised outputs on test images, largest first; a spectrum that falls steeply is collapse. Means over "
        "replicas; values below 0.001 are left out.",
        [_spectra(runs, "projection"), _spectra(runs, "encoder")],
        claims=("head-keeps-rank",),
    )
    yield from over_steps(
        runs,
        (
            "no-head-correlation",
            "head-decorrelates",
            "milder-in-encoder",
            "head-keeps-rank",
            "l2-no-head-collapses",
            "rise-and-fall-on-images",
        ),
    )


def asymmetry(run: xr.Dataset) -> xr.DataArray:
    """||E - Eᵀ||_F/||offdiag(E)||_F ``[replica, step]``: 0 for a symmetric head, also for E = I; at most 2."""
    return (run["head_difference"] / run["head_off_diagonal"]).where(run["head_off_diagonal"] != 0, 0.0)


def _histogram(runs: Runs, name: str) -> Panel:
    curves = []
    for label, run in runs.items():
        matrices = torch.from_numpy(run[f"{name}_correlations"].values)
        pairs = torch.cat([off_diagonal(matrix) for matrix in matrices]).numpy()
        count, _ = np.histogram(pairs.clip(-1, 1), _EDGES)
        shares = 100 * count / max(1, len(pairs)) if np.isfinite(pairs).all() else np.full(count.shape, np.nan)
        curves.append(Curve(label, (_EDGES[1:] + _EDGES[:-1]) / 2, shares))
    return Panel(f"Outputs of the {name}", "correlation", "pairs (%)", curves)


def _spectra(runs: Runs, name: str) -> Panel:
    means = {label: run[f"{name}_spectrum"].mean("replica", skipna=False) for label, run in runs.items()}
    curves = [Curve(label, 1 + np.arange(mean.size), mean.where(mean > _LEAST).values) for label, mean in means.items()]
    return Panel(f"Outputs of the {name}", "axis", "singular value / √images", curves, log_y=True)
