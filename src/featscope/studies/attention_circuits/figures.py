"""The figures of the study."""

import numpy as np
import torch
import xarray as xr

from featscope.figures import Bars, Curves, Heatmaps, Panel
from featscope.probes.fourier import matrix_power_spectrum
from featscope.studies.attention_circuits.arms import EQUALS, FIVE, FOUR, SHUFFLED, THREE
from featscope.studies.attention_circuits.probes import TOP
from featscope.studies.base import Runs, Study
from featscope.studies.summaries import bars, chart, curve

_SHOWN = 2
_TRAINED = (THREE, FOUR, FIVE, EQUALS, SHUFFLED)


def _largest(run: xr.Dataset) -> np.ndarray:
    """The heads with the largest matrices at the end, in the first replica."""
    matrices = run.matrices.isel(replica=0).values
    sizes = np.square(matrices - matrices.mean((1, 2), keepdims=True)).sum((1, 2))
    return np.argsort(-sizes)[:_SHOWN]


def _each(run: xr.Dataset) -> dict[str, np.ndarray]:
    """Label -> matrix of a head before and after, over its largest entry, its mean taken off."""
    found = {}
    for place, head in enumerate(_largest(run), 1):
        for when, values in (("before", run.start_matrices), ("after", run.matrices)):
            matrix = values.isel(replica=0, head=head).values.astype(float)
            centred = matrix - matrix.mean()
            found[f"head {place}, {when}"] = centred / np.abs(centred).max()
    return found


def heads(run: xr.Dataset) -> Heatmaps:
    """Attention matrices before and after."""
    return Heatmaps(
        "heads",
        "Are attention matrices of trained heads waves in two dimensions?",
        "The two largest heads of the first replica, three numbers: Eᵀ W^K W^Qᵀ E over pairs of numbers, less its "
        "mean, over its largest entry; before and after training.",
        _each(run),
        "key",
        "query",
        "score over the largest",
        ends=(-1.0, 1.0),
        claims=("attention-is-sparse-in-frequency", "two-frequencies-a-dimension"),
    )


def spectra(run: xr.Dataset) -> Heatmaps:
    """Their 2-D power spectra."""
    panels = {}
    for label, matrix in _each(run).items():
        power = matrix_power_spectrum(torch.from_numpy(matrix)).numpy()
        panels[label] = power / power.sum()
    rows, columns = next(iter(panels.values())).shape
    return Heatmaps(
        "spectra",
        "Does their power lie in a few bins of frequency?",
        "Share of the power of the same matrices at each pair of frequencies; a half plane, as the other half is the "
        "same, without what is constant along a row or column. A product of two cosines has two bins, (i, j) and "
        "(-i, j).",
        panels,
        "frequency of keys",
        "frequency of queries",
        "share of power",
        [str(frequency if frequency <= columns else frequency - rows - 1) for frequency in range(1, rows + 1)],
        [str(frequency) for frequency in range(1, columns + 1)],
        claims=("few-bins-hold-most", "attention-is-sparse-in-frequency"),
    )


def shares(study: Study, runs: Runs, predicted: float) -> Bars:
    """Share of the largest bins at the start, at the end and with random heads."""
    trained = [runs[arm] for arm in _TRAINED]

    def of_each(name: str) -> xr.DataArray:
        each = [run[name].mean("head").drop_vars("replica") for run in trained]
        return xr.concat(each, "arm").transpose("replica", "arm")

    return bars(
        "shares",
        "Does training move power to a few bins, more than trained embeddings alone would?",
        f"Share of the power in the {TOP} largest bins, mean over heads: before, after, and with random heads on the "
        "trained embeddings. The line is what exponentially distributed power has on average at the modulus of "
        "three numbers; four and five numbers have smaller moduli, fewer bins and so larger shares at the start.",
        [study.arm(arm).label for arm in _TRAINED],
        {
            "before": of_each("start_share"),
            "after": of_each("share"),
            "random heads, trained E": of_each("share_of_embeddings"),
        },
        "share of power",
        within=(0.0, 1.0),
        references=[(predicted, "closed form, three numbers")],
        claims=("sparser-than-its-embeddings", "initial-share-is-exponential", "initial-share-of-narrow-heads"),
    )


def over_time(study: Study, runs: Runs) -> Curves:
    """Accuracy on both parts, and the share of the largest bins."""
    return chart(
        "over-time",
        "Does one layer of attention learn to add three, four and five numbers?",
        f"Accuracy on points to train on, on others, and the share of the {TOP} largest bins, over training.",
        *(
            Panel(
                title,
                "step",
                label,
                [curve(runs[arm][name], study.arm(arm).label, within=(0.0, 1.0)) for arm in _TRAINED],
            )
            for title, label, name in (
                ("Points to train on", "accuracy", "accuracy"),
                ("Other points", "accuracy", "test_accuracy"),
                ("Largest bins", "share of power", "share_on_the_way"),
            )
        ),
        claims=("learns-the-sum", "attention-is-sparse-in-frequency"),
    )
