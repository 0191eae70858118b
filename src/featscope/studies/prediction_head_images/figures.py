"""The figures of the study."""

from collections.abc import Iterator

import numpy as np
import xarray as xr
from jaxtyping import Float

from featscope.figures import Bars, Curve, Curves, Figure, Heatmaps, Panel
from featscope.studies.base import Runs
from featscope.studies.prediction_head_images import judge
from featscope.studies.summaries import band, over_replicas, over_steps

_NAMES = {
    "identity": "identity-initialised head",
    "none": "no head",
    "linear": "linear head",
    "mlp": "MLP head",
    "identity-ema": "identity, moving average",
    "none-ema": "no head, moving average",
    "identity-l2": "identity, l2",
    "none-l2": "no head, l2",
    "untrained": "untrained",
}
_SHOWN = ("identity", "mlp", "none", "untrained")
_BINS = 40
_LEAST = 1e-3  # singular value shown
_BANDS = "Means over replicas with 99 % bands."


def figures(runs: Runs) -> Iterator[Figure]:
    """Figures 2, 1 and 3 of the paper, then spectra, then the course of training."""
    yield Bars(
        id="linear-probe",
        title="Accuracy of the linear probe",
        caption="On test images and the frozen encoder (the paper's Figure 2, of which no numbers are left). Lines are "
        "99 % intervals of means over replicas; claims compare within a replica, which takes out most of what they "
        "show.",
        groups=[_NAMES[arm] for arm in runs],
        series={"": over_replicas(100 * xr.concat([run["linear_probe"] for run in runs.values()], "arm"))},
        y_label="accuracy (%)",
    )
    shown = {arm: runs[arm] for arm in _SHOWN}
    yield Curves(
        id="correlations",
        title="Correlations of two outputs",
        caption="Histogram over pairs of dimensions and replicas, on test images (the paper's Figure 1, which shows "
        "the network trained without a head). Constant dimensions are left out.",
        panels=[
            _histogram(shown, "projection", "Outputs of the projection"),
            _histogram(shown, "encoder", "Outputs of the encoder"),
        ],
    )
    yield Heatmaps(
        id="correlation-matrices",
        title="Correlation matrices of the projection's outputs",
        caption="Of replica 0, on test images. Outputs are in the order of their part in the matrix's largest "
        "eigenvector.",
        panels={_NAMES[arm]: _sorted(run["projection_correlations"]) for arm, run in shown.items()},
        row_label="output",
        column_label="output",
        value_label="correlation",
    )
    yield _head(runs)
    yield Curves(
        id="spectra",
        title="Singular spectra",
        caption="Of standardised outputs on test images, largest first; a spectrum that falls steeply is collapse. "
        "Means over replicas; values below 0.001 are left out.",
        panels=[_spectra(runs, "projection"), _spectra(runs, "encoder")],
    )
    yield over_steps({_NAMES[arm]: run for arm, run in runs.items()})


def _histogram(runs: Runs, name: str, title: str) -> Panel:
    edges = np.linspace(-1, 1, _BINS + 1)
    curves = []
    for arm, run in runs.items():
        pairs = np.concatenate([off_diagonal(matrix) for matrix in run[f"{name}_correlations"].values])
        count, _ = np.histogram(pairs.clip(-1, 1), edges)
        curves.append(Curve(_NAMES[arm], (edges[1:] + edges[:-1]) / 2, 100 * count / max(1, len(pairs))))
    return Panel(title, "correlation", "pairs (%)", curves)


def off_diagonal(correlations: Float[np.ndarray, "output other"]) -> Float[np.ndarray, " pair"]:
    """Correlations of pairs of two outputs that vary; those that do not have no correlation with themselves."""
    varies = correlations.diagonal() > 0.5
    matrix = correlations[varies][:, varies]
    return matrix[np.triu_indices(len(matrix), 1)]


def _sorted(correlations: xr.DataArray) -> Float[np.ndarray, "output other"]:
    matrix = correlations.isel(replica=0).values
    order = np.argsort(np.linalg.eigh(matrix)[1][:, -1])
    return matrix[order][:, order]


def _head(runs: Runs) -> Curves:
    with_head = {arm: run for arm, run in runs.items() if "head_difference" in run and run.sizes["step"] > 1}
    steps = next(iter(with_head.values()))["step"].values if with_head else np.array([0])
    references = [
        Curve(label, steps, np.full(len(steps), value), dashed=True)
        for value, label in ((2**0.5, "independent entries"), (2.0, "antisymmetric"))
    ]
    return Curves(
        id="head",
        title="The course of the identity-initialised head",
        caption="The paper's Figures 3 and 4, in Frobenius norms. A symmetric head, such as the identity itself, has "
        f"ratio 0. {_BANDS}",
        panels=[
            Panel(
                "Size of the off-diagonal",
                "training step",
                "||offdiag(E)||",
                [band(_NAMES[arm], run["head_off_diagonal"]) for arm, run in with_head.items()],
            ),
            Panel(
                "Asymmetry",
                "training step",
                "||E - Eᵀ|| / ||offdiag(E)||",
                [*(band(_NAMES[arm], judge.asymmetry(run)) for arm, run in with_head.items()), *references],
            ),
        ],
    )


def _spectra(runs: Runs, name: str) -> Panel:
    curves = []
    for arm, run in runs.items():
        mean = run[f"{name}_spectrum"].mean("replica").values
        curves.append(Curve(_NAMES[arm], np.arange(1, len(mean) + 1), np.where(mean > _LEAST, mean, np.nan)))
    return Panel(f"Outputs of the {name}", "axis", "singular value / √images", curves, log_y=True)
