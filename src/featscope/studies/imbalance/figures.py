"""The figures of the study, described for the report to draw."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from featscope.claims import LEVEL, Claim
from featscope.figures import Agreement, Curve, Curves, Figure, MatrixMovie, Panel
from featscope.studies.base import Runs, last
from featscope.studies.imbalance.judge import growth
from featscope.studies.summaries import band, over_replicas

if TYPE_CHECKING:
    from featscope.studies.imbalance.study import Imbalance

HEAT_MAPS = {
    "heat-map": "with the bias schedule",
    "heat-map-unbiased": "b = 0",
    "heat-map-balanced": "control: equal frequencies",
}
INTERVALS = f"Means over replicas with {100 * LEVEL:.3g} % intervals."


def figures(study: "Imbalance", runs: Runs, claims: Sequence[Claim]) -> Iterator[Figure]:
    """The figures, in the order of the story."""
    yield _heat_maps(runs)
    yield _growth(study, runs)
    yield _over_eps(
        "figures-1-2",
        "The minority feature over its frequency",
        f"P, Figures 1 and 2, after {study.steps} steps at b = 0; later the minority catches up. {INTERVALS}",
        runs["figures-1-2"],
        {
            "minority_count": ("Neurons that hold the minority feature", "neurons of |cosine| ≥ 0.3"),
            "minority_cosine": ("The neuron closest to the minority feature", "largest |cosine|"),
        },
    )
    yield _over_eps(
        "figures-3-4",
        "What the representation is good for, over the minority's frequency",
        f"P, Figures 3 and 4, after {study.steps} steps at b = 0, on test data with all features alike frequent "
        f"and on data like those of training. {INTERVALS}",
        runs["figures-3-4"],
        {
            "cosine": ("Similarity of positive pairs, balanced test", "cos(f(X), f(Y)), non-empty pairs"),
            "cosine_imbalanced": ("Similarity of positive pairs, test like training", "cos(f(X), f(Y))"),
            "mse": ("Linear head on <v, z>, balanced test", "squared error / variance"),
            "mse_imbalanced": ("Linear head on <v, z>, test like training", "squared error / variance"),
            "mse_minority": ("Linear head on the minority's signal, balanced test", "squared error / variance"),
        },
    )
    yield _identities(claims)
    yield _late(runs)


def _heat_maps(runs: Runs) -> MatrixMovie:
    steps = [int(step) for step in runs["heat-map"]["step"].values]
    frames = {}
    for arm, label in HEAT_MAPS.items():
        squared = runs[arm]["alignment"].isel(replica=0).transpose("step", "neuron", "feature").values ** 2
        end = squared[-1]
        frames[label] = squared[:, np.lexsort((-end.max(-1), end.argmax(-1)))]
    return MatrixMovie(
        "heat-map",
        "Which features each neuron holds: the last four are rare",
        "Squared cosine of every neuron with every true feature, replica 0, neurons sorted by the feature they end on "
        "(V, Figure 1). Features 0 to 4 are frequent, 5 to 8 rare, except in the control.",
        steps=steps,
        frames=frames,
        row_label="neuron (sorted)",
        column_label="true feature j",
        value_label="<w_i, M_j>² / ||w_i||²",
    )


def _growth(study: "Imbalance", runs: Runs) -> Curves:
    run = runs["stage-one"]
    arm = next(arm.config for arm in study.arms() if arm.name == "stage-one")
    theory, data = arm.stage1, arm.data
    grown = growth(run)
    split = data.features - data.minority
    steps = run["step"].values
    path = theory.amplitudes(int(steps[-1]))[steps]
    t1 = [(float(run["t1"].mean()), "T1")] if (run["t1"] >= 0).all() else []
    curves = [
        band("majority, measured", grown.isel(feature=slice(0, split)).mean("feature")),
        Curve("majority, closed form", steps, path[:, 0], dashed=True),
        band("minority, measured", grown.isel(feature=slice(split, None)).mean("feature")),
        Curve("minority, closed form", steps, path[:, -1], dashed=True),
    ]
    energies = theory.energies(int(steps[-1]))[steps]
    share = [
        band("measured", run["feature_share"]),
        Curve("closed form", steps, energies[:, :-1].sum(1) / energies.sum(1), dashed=True),
    ]
    return Curves(
        "stage-one",
        "Stage 1: exponential growth, at a rate of each feature's own",
        f"Projections on features along their start, and the share of the squared norm that features hold. {INTERVALS}",
        [
            Panel("Growth of projections", "training step", "A_j(t) / A_j(0)", curves, t1, log_y=True),
            Panel("Energy in the features' span", "training step", "Σ||Mᵀw||² / Σ||w||²", share, t1),
        ],
    )


def _over_eps(name: str, title: str, caption: str, run: xr.Dataset, measures: dict[str, tuple[str, str]]) -> Curves:
    panels = []
    for measure, (panel_title, y_label) in measures.items():
        values = last(run, run[measure]) if "step" in run[measure].dims else run[measure]
        curves = []
        for noise in values["noise_std"].values:
            mean, low, high = over_replicas(values.sel(noise_std=noise).transpose("replica", "eps_min"))
            curves.append(Curve(f"σ = {noise:g}", values["eps_min"].values, mean, low, high))
        panels.append(Panel(panel_title, "ε_min / ε_max", y_label, curves))
    return Curves(name, title, caption, panels)


def _identities(claims: Sequence[Claim]) -> Agreement:
    rows = [
        claim
        for claim in claims
        if claim.relation == "=" and claim.expected and np.isfinite([claim.measured, *claim.interval]).all()
    ]
    return Agreement(
        "identities",
        "Predictions against measurements",
        "Every identity that is expected to hold, measured (dot, 99 % interval) against its closed form (line) "
        "and the accepted range (bar).",
        labels=[f"{claim.id} ({claim.arm})" for claim in rows],
        predicted=np.array([claim.predicted for claim in rows]),
        measured=np.array([claim.measured for claim in rows]),
        low=np.array([claim.interval[0] for claim in rows]),
        high=np.array([claim.interval[1] for claim in rows]),
        tolerance=np.array([claim.tolerance for claim in rows]),
    )


def _late(runs: Runs) -> Curves:
    def panel(arm: str, title: str) -> Panel:
        run = runs[arm]
        curves = [band(name, run[f"{name}_energy"]) for name in ("majority", "minority")]
        return Panel(title, "training step", "Σ_i <w_i, M_j>², mean over features", curves, log_y=True)

    return Curves(
        "late",
        "Rare features catch up without biases, and freeze with them",
        f"Energy of a feature over all neurons. {INTERVALS}",
        [
            panel("late", "b = 0, small network, ε_min = 0.25"),
            panel("heat-map", "bias schedule, ε_min = 0.3"),
            panel("heat-map-unbiased", "the same network at b = 0"),
        ],
    )
