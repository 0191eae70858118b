"""The figures of the study, described for the report to draw."""

from collections.abc import Iterator

import numpy as np
import xarray as xr

from featscope.claims import COSINE, POSITIVE, SHARE
from featscope.figures import Curve, Curves, Figure, MatrixMovie, Panel
from featscope.probes.stored import sorted_by_feature
from featscope.studies import Runs, last
from featscope.studies.imbalance.stage_one import StageOne
from featscope.studies.imbalance.stages import Stages
from featscope.studies.summaries import chart, curve, curves

HEAT_MAPS = {
    "heat-map": "neurons grow picky",
    "heat-map-unbiased": "neurons do not",
    "heat-map-balanced": "control: all alike frequent",
}

SHARES = "share of the weights (Σ||Mᵀw||² / Σ||w||²)"


def figures(study: Stages, runs: Runs) -> Iterator[Figure]:
    """Which features neurons hold, Stage 1, the papers' curves (the paper, Figures 1 to 4), and energies in the end."""
    yield heat_maps(runs)
    yield stage_one(study, runs["stage-one"])
    yield stage_two(study, runs["lottery"])
    recipe, late, heat_map = (study.arm(arm).recipe for arm in ("figures-1-2", "late", "heat-map"))
    when = f"after {recipe.steps} steps {'with the bias schedule' if recipe.rules['bias'] else 'at b = 0'}"
    run = runs["figures-1-2"]
    yield chart(
        "figures-1-2",
        "What neurons have of a rare feature, over its frequency",
        f"The paper, Figures 1 and 2, {when}. To the right the rare feature is as frequent as the others.",
        _over_eps(run, "minority_count", "Neurons that hold the rare feature", "neurons of |cosine| ≥ 0.3", POSITIVE),
        _over_eps(run, "minority_cosine", "The neuron closest to the rare feature", "largest |cosine|", SHARE),
        claims=(
            "minority-count-rises",
            "minority-alignment-rises",
            "minority-count-curve",
            "minority-alignment-curve",
            "noise-and-alignment",
        ),
    )
    run, error, alike = runs["figures-3-4"], "squared error / variance", "Similarity of positive pairs"
    yield chart(
        "figures-3-4",
        "What the representation is good for, over the frequency of a rare feature",
        f"The paper, Figures 3 and 4, {when}, on test data with all features alike frequent and on data like those of "
        "training.",
        _over_eps(run, "cosine", f"{alike}, balanced test", "cosine of f(X) and f(Y), non-empty pairs", COSINE),
        _over_eps(run, "cosine_imbalanced", f"{alike}, test like training", "cosine of f(X) and f(Y)", COSINE),
        _over_eps(run, "mse", "Linear head on <v, z>, balanced test", error, POSITIVE),
        _over_eps(run, "mse_imbalanced", "Linear head on <v, z>, test like training", error, POSITIVE),
        _over_eps(run, "mse_minority", "Linear head on the rare signal, balanced test", error, POSITIVE),
        claims=(
            "cosine-rises",
            "mse-falls",
            "minority-mse-falls",
            "cosine-curve",
            "cosine-curve-imbalanced",
            "minority-mse-curve",
            "noise-lowers-cosine",
            "noise-raises-error",
        ),
    )
    yield chart(
        "late",
        "The strength of rare and common features, with thresholds and without",
        "Strength is the squared weight that all neurons have on a feature, mean over features; "
        f"ε_min = {late.data.eps_min:g} in long training, {heat_map.data.eps_min:g} in the workshop version's network.",
        _energies(runs["late"], "Long training, no thresholds"),
        _energies(runs["heat-map"], "the workshop version's network, thresholds rise"),
        _energies(runs["heat-map-unbiased"], "the workshop version's network, no thresholds"),
        claims=("amplitude-law", "stage3-offfeature-small"),
    )


def heat_maps(runs: Runs) -> MatrixMovie:
    """Which features neurons hold, over time."""
    steps = runs["heat-map"]["step"].values
    return MatrixMovie(
        "heat-map",
        "Which features each neuron holds: the last four are rare",
        "Squared cosine of every neuron with every true feature in one replica (the workshop version, Figure 1). "
        "The first five features are frequent, the last four rare, except in the control. A dark cell is a neuron that "
        "holds a feature.",
        steps=[int(step) for step in steps],
        frames={label: sorted_by_feature(runs[arm].alignment ** 2, steps) for arm, label in HEAT_MAPS.items()},
        row_label="neurons, sorted by the feature they end on",
        column_label="true features",
        value_label="share of a neuron that belongs to a feature (cosine²)",
        claims=("heatmap-majority-first", "heatmap-dominating-neuron", "heatmap-every-neuron"),
    )


def stage_one(study: StageOne, run: xr.Dataset) -> Curves:
    """Growth of majority and minority features, their ratio, and the features' share, with closed forms."""
    steps, theory, eps_min = run["step"].values, study.stage1, study.arm("stage-one").recipe.data.eps_min
    path, energies = theory.amplitudes(int(steps[-1]))[steps], theory.energies(int(steps[-1]))[steps]
    t1 = [(float(run.t1.mean()), "T1")] if (run.t1 >= 0).all() else []

    def panel(title: str, y_label: str, series: xr.DataArray, closed: np.ndarray, *others: Curve) -> Panel:
        lines = [
            curve(series, "measured", within=SHARE if y_label == SHARES else (-np.inf, np.inf)),
            Curve("closed form", steps, closed, dashed=True),
            *others,
        ]
        return Panel(title, "training step", y_label, lines, t1, log_y=y_label != SHARES)

    linear = Curve("linear in time, the paper's (47)", steps, theory.linear_growth_ratio(steps), dashed=True)
    limit = Curve("ε_max/ε_min", steps, np.full(len(steps), theory.stated_growth_ratio), dashed=True)
    shares = energies[:, :-1].sum(1) / energies.sum(1)
    along, ratio, (common, rare) = (
        "growth since the start (A_j(t) / A_j(0))",
        path[:, 0] / path[:, -1],
        study.grown(run),
    )
    return chart(
        "stage-one",
        "Stage 1: how fast common and rare features grow",
        f"What neurons have of features, along their start, ε_min = {eps_min:g}; by how much common features have "
        "outgrown rare ones, with the papers' linear law and its limit; and the share of the squared norm that "
        "features hold.",
        panel("Growth along common features", along, common, path[:, 0]),
        panel("Growth along rare features", along, rare, path[:, -1]),
        panel("Common over rare", "ratio of growths", common / rare, ratio, linear, limit),
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


def stage_two(study: Stages, run: xr.Dataset) -> Curves:
    """What neurons have of features for which they were lucky, ordinary or neither, and thresholds, with events."""
    who = study.luck(run)
    share = abs(run.alignment)
    events = (("T1", run.stage1_end), ("T2", run.stage2_end))
    marks = [(float(event.mean()), name) for name, event in events if (event >= 0).all()]
    each = ("neuron", "feature")
    held = [curve(share.where(pairs).mean(each), name, within=SHARE) for name, pairs in who.items()]
    threshold = curve((run.bias / run.norm).mean("neuron"), "threshold", within=SHARE)
    size = np.log10(share * run.norm)
    sizes = [curve(10 ** size.where(pairs).mean(each), name, within=POSITIVE) for name, pairs in who.items()]
    ends = [curve((share.where(pairs) ** 2 > 0.5).where(pairs).mean(each), name) for name, pairs in who.items()]
    norms = "of the norm (|A_ij| / ||w_i||, b_i / ||w_i||)"
    return chart(
        "stage-two",
        "Stage 2: who crosses the thresholds",
        "Pairs of a neuron and a feature, by what the neuron had of it at the start: lucky, ordinary but not lucky, or "
        "neither. Thresholds are set at T1 and rise; T2 is where some neuron has grown d-fold.",
        Panel("What neurons have of features, and thresholds", "training step", norms, [*held, threshold], marks),
        Panel("The same in absolute terms", "training step", "geometric mean of |A_ij|", sizes, marks, log_y=True),
        Panel("Pairs that are singleton and feature", "training step", "share of pairs", ends, marks),
        claims=(
            "lucky-above-thresholds",
            "others-below-thresholds",
            "stage2-growth",
            "stage2-duration",
            "lucky-win",
            "luck-decides",
        ),
    )


def _over_eps(run: xr.Dataset, name: str, title: str, y_label: str, within: tuple[float, float]) -> Panel:
    values = last(run, run[name]) if "step" in run[name].dims else run[name]
    lines = curves(values, "noise_std", lambda noise: f"noise σ = {noise:g}", "eps_min", within=within)
    return Panel(title, "frequency over that of others (ε_min / ε_max)", y_label, lines)


def _energies(run: xr.Dataset, title: str) -> Panel:
    each = {"common": run.majority_energy, "rare": run.minority_energy}
    lines = [curve(energy, name) for name, energy in each.items()]
    return Panel(title, "training step", "strength of a feature (Σ_i <w_i, M_j>²)", lines, log_y=True)
