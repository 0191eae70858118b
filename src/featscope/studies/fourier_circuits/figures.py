"""The figures of the study."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import xarray as xr

from featscope.figures import Bars, Curve, Curves, Panel, Scatters
from featscope.studies.base import Runs, Study
from featscope.studies.fourier_circuits.arms import DECAY, FOUR, HALF, LARGE_START, TIGHT, TRAINED, TWO
from featscope.studies.summaries import bars, chart, curve

_EDGES = np.linspace(0, 1, 11)


def over_time(study: Study, runs: Runs, levels: Mapping[str, float]) -> Curves:
    """Margin over γ* and cross-entropy over training, with the predicted levels."""
    drawn = (TRAINED, TWO, FOUR, TIGHT, DECAY, LARGE_START)
    margins = [curve(runs[arm].margin_everywhere.clip(min=-0.2), study.arm(arm).label) for arm in drawn]
    steps = max((runs[arm]["step"].values for arm in drawn), key=len)
    margins.append(Curve("γ*", steps, np.ones(len(steps)), dashed=True))
    losses = [curve(runs[arm].cross_entropy, study.arm(arm).label) for arm in levels]
    at = runs[TRAINED]["step"].values
    losses.append(Curve("predicted", at, np.full(len(at), levels[TRAINED]), dashed=True))
    half = runs[HALF]
    of_half = [
        curve(half.margin, "half, on these"),
        curve(half.margin_everywhere, "half, on all points"),
        Curve("γ*", half["step"].values, np.ones(half.sizes["step"]), dashed=True),
    ]
    return chart(
        "over-time",
        "Does training end at the largest margin, with the penalty of the theory?",
        "Left: least margin of all points over γ*, cut at -0.2. Middle: cross-entropy, with what a problem in one "
        "number predicts. Right: trained on half of the points, where the margin on these passes γ* and others are "
        "wrong.",
        Panel("Margin", "step", "margin over γ*", margins),
        Panel("Loss", "step", "cross-entropy (nats)", losses, log_y=True),
        Panel("Half of the points", "step", "margin over γ*", of_half),
        claims=("trained-margin", "trained-cross-entropy", "margin-never-exceeds", "lazy-start-stays"),
    )


def neurons(run: xr.Dataset, inputs: int) -> Curves:
    """One neuron of each of three frequencies: its vectors, and the cosines that fit them."""
    one = run.isel(replica=0)
    chosen = []
    for frequency in range(1, run.sizes["zeta"] + 1):
        of_it = np.flatnonzero(one.frequency.values == frequency)
        if len(of_it):
            size = np.square(one.weights.values[of_it]).sum((1, 2))
            chosen.append((frequency, int(of_it[size.argmax()])))
    residues = np.arange(run.sizes["residue"])
    fine = np.linspace(0, len(residues) - 1, 121)
    panels = []
    for frequency, neuron in chosen[:3]:
        curves = []
        for vector, name in [(0, "u₁"), (inputs, "w")]:
            weights = one.weights.values[neuron, vector].astype(float)
            part = 2 * np.fft.fft(weights)[frequency] / len(weights)
            wave = np.abs(part) * np.cos(np.angle(part) + 2 * np.pi * frequency * fine / len(weights))
            curves.append(Curve(name, residues, weights))
            curves.append(Curve(f"{name}, a cosine", fine, wave, dashed=True))
        panels.append(Panel(f"Frequency {frequency}", "residue", "weight", curves))
    return Curves(
        "neurons",
        "Is a trained neuron a cosine of one frequency in every vector?",
        "The largest neuron of each frequency, first replica: weights of an embedding and the read-out over residues "
        "(solid), and their part at that frequency (dashed), which passes through every weight.",
        panels,
        claims=("neurons-single-frequency", "neurons-share-their-frequency"),
    )


def spectra(run: xr.Dataset, decay: xr.Dataset, half: xr.Dataset) -> Bars:
    """Histogram of the largest share of power, before and after."""

    def histogram(shares: xr.DataArray) -> xr.DataArray:
        each = [np.histogram(one[np.isfinite(one)], _EDGES)[0] for one in shares.values]
        counts = np.array(each, float)
        return xr.DataArray(counts / counts.sum(1, keepdims=True).clip(min=1), dims=("replica", "bin"))

    return bars(
        "spectra",
        "Spectra before and after: does power gather at one frequency?",
        "Share of embeddings by the part of their power that their largest frequency has, of active neurons.",
        [f"{low:.1f} to {high:.1f}" for low, high in pairwise(_EDGES)],
        {
            "at the start": histogram(run.start_shares),
            "trained": histogram(run.shares),
            "weight decay, no penalty": histogram(decay.shares),
            "half of the points modulo 31": histogram(half.shares),
        },
        "share of embeddings",
        within=(0.0, 1.0),
        claims=("neurons-single-frequency",),
    )


def wheel(run: xr.Dataset) -> Scatters:
    """Neurons of one replica on rings, a ring a frequency: where their phases are, and what is left of their sum."""
    one = run.isel(replica=0)
    active = np.flatnonzero(np.isfinite(one.frequency.values))
    ring = one.frequency.values[active].astype(int)
    spectrum = np.fft.fft(one.weights.values[active])
    phases = np.angle(spectrum[np.arange(len(active)), :, ring])
    left = phases[:, :-1].sum(1) - phases[:, -1]
    at = {"phase of u₁": phases[:, 0], "phases of u₁ and u₂ less that of w": left}
    panels = {
        label: np.concatenate([np.stack([ring * np.cos(turn), ring * np.sin(turn)], 1), np.zeros((1, 2))])
        for label, turn in at.items()
    }
    frequencies = run.sizes["zeta"]
    return Scatters(
        "wheel",
        "A wheel of frequencies: do phases go all around, and their sums not?",
        "Active neurons of a network for two inputs, first replica. The ring is the frequency. Left: the angle is the "
        "phase of the first embedding. Right: the phases of both embeddings less that of the read-out, which is 0 in "
        "the best network.",
        panels,
        dict.fromkeys(panels, np.append(ring - 1, frequencies)),
        [*(f"frequency {place + 1}" for place in range(frequencies)), "centre"],
        claims=("trained-phase-rule", "all-frequencies-used", "equal-frequency-mass"),
    )
