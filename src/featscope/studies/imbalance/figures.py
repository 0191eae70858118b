"""The figures of the study, described for the report to draw."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from featscope.claims import LEVEL, Claim
from featscope.figures import Agreement, Curve, Curves, Figure, MatrixMovie, Panel
from featscope.studies.base import Runs, last
from featscope.studies.imbalance.judge import growth, growth_ratio, linear_ratio
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
        f"P, Figures 1 and 2, {_when(study)}. {INTERVALS}",
        runs["figures-1-2"],
        {
            "minority_count": ("Neurons that hold the minority feature", "neurons of |cosine| ≥ 0.3"),
            "minority_cosine": ("The neuron closest to the minority feature", "largest |cosine|"),
        },
    )
    yield _over_eps(
        "figures-3-4",
        "What the representation is good for, over the minority's frequency",
        f"P, Figures 3 and 4, {_when(study)}, on test data with all features alike frequent and on data like those of "
        f"training. {INTERVALS}",
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
    yield _late(study, runs)


def _when(study: "Imbalance") -> str:
    config = study.arm("figures-1-2")
    return f"after {config.steps} steps {'at b = 0' if config.bias is None else 'with the bias schedule'}"


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
    run, arm = runs["stage-one"], study.arm("stage-one")
    theory, split = arm.stage1, arm.data.features - arm.data.minority
    grown, steps = growth(run), run["step"].values
    path, energies = theory.amplitudes(int(steps[-1]))[steps], theory.energies(int(steps[-1]))[steps]
    t1 = [(float(run["t1"].mean()), "T1")] if (run["t1"] >= 0).all() else []

    shares = "Σ||Mᵀw||² / Σ||w||²"

    def panel(title: str, y_label: str, series: xr.DataArray, closed: np.ndarray, *others: Curve) -> Panel:
        curves = [band("measured", series), Curve("closed form", steps, closed, dashed=True), *others]
        return Panel(title, "training step", y_label, curves, t1, log_y=y_label != shares)

    linear = Curve("linear in time, P (47)", steps, linear_ratio(theory, steps), dashed=True)
    limit = Curve("ε_max/ε_min", steps, np.full(len(steps), theory.stated_growth_ratio), dashed=True)
    common, rare = (grown.isel(feature=which).mean("feature") for which in (slice(split), slice(split, None)))
    return Curves(
        "stage-one",
        "Stage 1: exponential growth, at a rate of each feature's own",
        f"Projections on features along their start, ε_min = {arm.data.eps_min:g}; by how much majority features have "
        "outgrown minority ones, with the papers' linear law and its limit; and the share of the squared norm that "
        f"features hold. {INTERVALS}",
        [
            panel("Growth along majority features", "A_j(t) / A_j(0)", common, path[:, 0]),
            panel("Growth along minority features", "A_j(t) / A_j(0)", rare, path[:, -1]),
            panel(
                "Majority over minority",
                "ratio of growths",
                growth_ratio(arm, run),
                path[:, 0] / path[:, -1],
                linear,
                limit,
            ),
            panel(
                "Energy in the features' span", shares, run["feature_share"], energies[:, :-1].sum(1) / energies.sum(1)
            ),
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


def _late(study: "Imbalance", runs: Runs) -> Curves:
    titles = {
        "late": "Long training, b = 0",
        "heat-map": "V's network with biases",
        "heat-map-unbiased": "V's network, b = 0",
    }
    panels = []
    for arm, title in titles.items():
        curves = [band(name, runs[arm][f"{name}_energy"]) for name in ("majority", "minority")]
        panels.append(Panel(title, "training step", "Σ_i <w_i, M_j>²", curves, log_y=True))
    eps = [study.arm(arm).data.eps_min for arm in ("late", "heat-map")]
    return Curves(
        "late",
        "Rare features catch up without biases, and stay behind with them",
        f"Energy of a feature over all neurons, mean over features; ε_min = {eps[0]:g} in long training, {eps[1]:g} in "
        f"V's network. {INTERVALS}",
        panels,
    )
