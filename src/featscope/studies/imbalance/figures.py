"""The figures of the study, described for the report to draw."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from featscope.figures import Curve, Curves, MatrixMovie, Panel
from featscope.studies import Runs, last
from featscope.studies.summaries import chart, curve, curves
from featscope.theory.imbalance import PairStage1

HEAT_MAPS = {
    "heat-map": "with the bias schedule",
    "heat-map-unbiased": "b = 0",
    "heat-map-balanced": "control: equal frequencies",
}

SHARES = "Σ||Mᵀw||² / Σ||w||²"


def heat_maps(runs: Runs) -> MatrixMovie:
    """Which features neurons hold, over time."""
    frames = {}
    for arm, label in HEAT_MAPS.items():
        squared = runs[arm].alignment.isel(replica=0).transpose("step", "neuron", "feature").values ** 2
        end = squared[-1]
        frames[label] = squared[:, np.lexsort((-end.max(-1), end.argmax(-1)))]
    return MatrixMovie(
        "heat-map",
        "Which features each neuron holds: the last four are rare",
        "Squared cosine of every neuron with every true feature, replica 0, neurons sorted by the feature they end on "
        "(V, Figure 1). Features 0 to 4 are frequent, 5 to 8 rare, except in the control.",
        steps=[int(step) for step in runs["heat-map"]["step"].values],
        frames=frames,
        row_label="neuron (sorted)",
        column_label="true feature j",
        value_label="<w_i, M_j>² / ||w_i||²",
        claims=("heatmap-majority-first", "heatmap-dominating-neuron", "heatmap-every-neuron"),
    )


def stage_one(run: xr.Dataset, grown: Sequence[xr.DataArray], theory: PairStage1, eps_min: float) -> Curves:
    """Growth of majority and minority features, their ratio, and the features' share, with closed forms."""
    steps = run["step"].values
    path, energies = theory.amplitudes(int(steps[-1]))[steps], theory.energies(int(steps[-1]))[steps]
    t1 = [(float(run.t1.mean()), "T1")] if (run.t1 >= 0).all() else []

    def panel(title: str, y_label: str, series: xr.DataArray, closed: np.ndarray, *others: Curve) -> Panel:
        lines = [curve(series, "measured"), Curve("closed form", steps, closed, dashed=True), *others]
        return Panel(title, "training step", y_label, lines, t1, log_y=y_label != SHARES)

    linear = Curve("linear in time, P (47)", steps, theory.linear_growth_ratio(steps), dashed=True)
    limit = Curve("ε_max/ε_min", steps, np.full(len(steps), theory.stated_growth_ratio), dashed=True)
    shares = energies[:, :-1].sum(1) / energies.sum(1)
    along, ratio, (common, rare) = "A_j(t) / A_j(0)", path[:, 0] / path[:, -1], grown
    return chart(
        "stage-one",
        "Stage 1: exponential growth, at a rate of each feature's own",
        f"Projections on features along their start, ε_min = {eps_min:g}; by how much majority features have outgrown "
        "minority ones, with the papers' linear law and its limit; and the share of the squared norm that features "
        "hold.",
        panel("Growth along majority features", along, common, path[:, 0]),
        panel("Growth along minority features", along, rare, path[:, -1]),
        panel("Majority over minority", "ratio of growths", common / rare, ratio, linear, limit),
        panel("Energy in the features' span", SHARES, run.feature_share, shares),
        claims=(
            "stage1-growth-majority",
            "stage1-growth-minority",
            "growth-ratio-exponential",
            "growth-ratio-linear",
            "growth-ratio-bounded",
            "stage1-duration",
        ),
    )


def of_the_minority(run: xr.Dataset, when: str) -> Curves:
    """P, Figures 1 and 2."""
    return chart(
        "figures-1-2",
        "The minority feature over its frequency",
        f"P, Figures 1 and 2, {when}.",
        _over_eps(run, "minority_count", "Neurons that hold the minority feature", "neurons of |cosine| ≥ 0.3"),
        _over_eps(run, "minority_cosine", "The neuron closest to the minority feature", "largest |cosine|"),
        claims=("minority-count-rises", "minority-alignment-rises"),
    )


def of_the_representation(run: xr.Dataset, when: str) -> Curves:
    """P, Figures 3 and 4, on two kinds of test data."""
    error = "squared error / variance"
    return chart(
        "figures-3-4",
        "What the representation is good for, over the minority's frequency",
        f"P, Figures 3 and 4, {when}, on test data with all features alike frequent and on data like those of "
        "training.",
        _over_eps(run, "cosine", "Similarity of positive pairs, balanced test", "cos(f(X), f(Y)), non-empty pairs"),
        _over_eps(run, "cosine_imbalanced", "Similarity of positive pairs, test like training", "cos(f(X), f(Y))"),
        _over_eps(run, "mse", "Linear head on <v, z>, balanced test", error),
        _over_eps(run, "mse_imbalanced", "Linear head on <v, z>, test like training", error),
        _over_eps(run, "mse_minority", "Linear head on the minority's signal, balanced test", error),
        claims=("cosine-rises", "mse-falls", "minority-mse-falls"),
    )


def _over_eps(run: xr.Dataset, name: str, title: str, y_label: str) -> Panel:
    values = last(run, run[name]) if "step" in run[name].dims else run[name]
    lines = curves(values, "noise_std", lambda noise: f"σ = {noise:g}", "eps_min")
    return Panel(title, "ε_min / ε_max", y_label, lines)


def late(runs: Runs, eps_late: float, eps_heat_map: float) -> Curves:
    """Energies of common and rare features, with and without biases."""
    titles = {
        "late": "Long training, b = 0",
        "heat-map": "V's network with biases",
        "heat-map-unbiased": "V's network, b = 0",
    }

    def panel(arm: str) -> Panel:
        lines = [curve(runs[arm][f"{name}_energy"], name) for name in ("majority", "minority")]
        return Panel(titles[arm], "training step", "Σ_i <w_i, M_j>²", lines, log_y=True)

    return chart(
        "late",
        "Rare features catch up without biases, and stay behind with them",
        f"Energy of a feature over all neurons, mean over features; ε_min = {eps_late:g} in long training, "
        f"{eps_heat_map:g} in V's network.",
        *map(panel, titles),
        claims=("amplitude-law", "stage3-offfeature-small"),
    )
