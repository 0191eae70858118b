"""The figures of the study, described for the report to draw."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from featscope.claims import Claim
from featscope.figures import Agreement, Bars, Curve, Curves, Figure, MatrixMovie, Panel
from featscope.studies.base import Runs
from featscope.studies.decoupling.judge import along_features, energy
from featscope.studies.summaries import band, over_replicas

if TYPE_CHECKING:
    from featscope.studies.decoupling.study import Decoupling

STORY = {"augmented": "RandomMask", "plain": "no augmentation", "canonical": "control: canonical features"}


def figures(study: "Decoupling", runs: Runs, claims: Sequence[Claim]) -> Iterator[Figure]:
    """The figures, in the order of the story."""
    yield _alignment(runs)
    yield _over_time(runs)
    yield _identities(claims)
    yield _stage_one(study, runs)
    yield _amplitudes(runs)
    yield _readouts(runs)
    yield _literal_bias(runs)
    yield _dimension(study, runs)


def _alignment(runs: Runs) -> MatrixMovie:
    """|cosine| of every neuron and feature in replica 0; neurons sorted by the feature they end on."""
    steps = [int(s) for s in runs["augmented"]["step"].values]
    frames = {}
    for arm, label in STORY.items():
        run = runs[arm].isel(replica=0)
        run = run.isel(step=np.flatnonzero(run["loss"].notnull().values))
        at = np.searchsorted(run["step"].values, steps, side="right") - 1  # a shorter arm keeps its last look
        cosines = np.abs(run["alignment"].transpose("step", "neuron", "feature").values[at])
        end = cosines[-1]
        frames[label] = cosines[:, np.lexsort((-end.max(-1), end.argmax(-1)))]
    return MatrixMovie(
        "alignment",
        "Which features each neuron holds",
        "Absolute cosine of every neuron's weights with every true feature, replica 0. Neurons are sorted by the "
        "feature they end on; dark blocks down the diagonal are groups of neurons that hold one feature each. "
        "Arms shorter than the first stay at their last step.",
        steps=steps,
        frames=frames,
        row_label="neuron (sorted)",
        column_label="true feature j",
        value_label="|<w_i, M_j>| / ||w_i||",
    )


def _stages(runs: Runs) -> list[tuple[float, str]]:
    names = {"stage1_end": "T1", "stage2_end": "T2"}
    reached = {label: runs["augmented"][name] for name, label in names.items()}
    return [(float(step.mean()), label) for label, step in reached.items() if (step >= 0).all()]


def _over_time(runs: Runs) -> Curves:
    marks = _stages(runs)

    def panel(title: str, y_label: str, measure: str | None, log_y: bool = False) -> Panel:
        curves = []
        for arm, label in STORY.items():
            run = runs[arm]
            if measure is None:
                series = energy(run)
            elif "neuron" in run[measure].dims:
                series = run[measure].mean("neuron", skipna=False)
            else:
                series = run[measure]
            curves.append(band(label, series))
        return Panel(title, "training step", y_label, curves, marks, log_y=log_y)

    relative = [
        band(label, (runs[arm]["bias"] / runs[arm]["norm"]).mean("neuron", skipna=False))
        for arm, label in STORY.items()
    ]
    return Curves(
        "over-time",
        "Energy, norms, biases and firing",
        "Means over replicas with 99 % intervals; T1 and T2 are the ends of Stages I and II of the RandomMask arm "
        "(means over replicas).",
        [
            panel("Energy in the features' span", "||Mᵀw||² / ||w||²", None),
            panel("Features held by a singleton neuron", "share of features", "coverage"),
            panel("Norm of neurons", "mean ||w_i||", "norm", log_y=True),
            Panel("Threshold over norm", "training step", "mean b_i / ||w_i||", relative, marks),
            panel("Firing", "mean Pr(h_i(x) ≠ 0)", "firing_rate"),
            panel("Likeness to noise", "mean cosine of f(x) and f(ξ)", "noise_cosine"),
            panel("Loss on fresh data", "InfoNCE (nats × τ)", "loss"),
        ],
    )


def _identities(claims: Sequence[Claim]) -> Agreement:
    rows = [c for c in claims if c.relation == "=" and np.isfinite(c.measured) and np.isfinite(c.interval).all()]
    return Agreement(
        "identities",
        "Predictions against measurements",
        "Every identity and exponent, measured (dot, with its 99 % interval) against its closed form (line) and the "
        "accepted range (bar).",
        labels=[f"{c.id} ({c.arm})" for c in rows],
        predicted=np.array([c.predicted for c in rows]),
        measured=np.array([c.measured for c in rows]),
        low=np.array([c.interval[0] for c in rows]),
        high=np.array([c.interval[1] for c in rows]),
        tolerance=np.array([c.tolerance for c in rows]),
    )


def _stage_one(study: "Decoupling", runs: Runs) -> Curves:
    run = runs["stage-one"]
    steps = run["step"].values
    total = (run["norm"] ** 2).sum("neuron", skipna=False)
    inside = along_features(run)
    start = total.isel(step=0)
    panels = []
    for name, part, series in (("along the features", 0, inside), ("orthogonal to them", 1, total - inside)):
        curves = [band("measured", series / start)]
        for label, anchors in (
            ("closed form with batch noise", study.contrast.anchors),
            ("population gradients", np.inf),
        ):
            path = study.stage1(anchors).energies(int(steps[-1]))[:, part]
            curves.append(Curve(label, steps, path[steps], dashed=True))
        panels.append(Panel(f"Squared norm {name}", "training step", "Σ||·||² over its start", curves, log_y=True))
    return Curves(
        "stage-one",
        "Stage I, predicted step by step",
        "A tiny start with b = 0 throughout: the network is linear and the expected energies follow a closed form. "
        "Batches of finite size add energy by chance in all directions; the paper's population gradients do not.",
        panels,
    )


def _amplitudes(runs: Runs) -> Curves:
    taus = sorted((float(name.removeprefix("tau-")), name) for name in runs if name.startswith("tau-"))
    x = np.array([tau for tau, _ in taus])
    mean, low, high = over_replicas(xr.concat([runs[name]["amplitude"].mean("feature") for _, name in taus], "tau"))
    middle = len(x) // 2
    curves = [
        Curve("measured", x, mean, low, high),
        Curve("slope 1", x, mean[middle] * x / x[middle], dashed=True),
    ]
    return Curves(
        "amplitude",
        "Amplitudes saturate in proportion to the temperature",
        "F_j, the squared weights on feature j summed over the neurons that hold it alone, mean over features, after "
        "training at three temperatures.",
        [Panel("Amplitude", "temperature τ", "mean F_j", curves, log_x=True, log_y=True)],
    )


def _readouts(runs: Runs) -> Bars:
    groups = ["raw input", "untrained", "no augmentation", "supervised", "RandomMask", "oracle"]
    grown = runs["augmented"]
    errors = [
        grown["raw_error"],
        grown["untrained_error"],
        runs["plain"]["representation_error"],
        runs["supervised"]["representation_error"],
        grown["representation_error"],
        grown["oracle_error"],
    ]
    misses = [
        1 - grown["raw_accuracy"],
        1 - grown["untrained_accuracy"],
        1 - runs["plain"]["representation_accuracy"],
        1 - runs["supervised"]["representation_accuracy"],
        1 - grown["representation_accuracy"],
        1 - grown["oracle_accuracy"],
    ]

    def bars(samples: list[xr.DataArray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        mean, low, high = over_replicas(xr.concat([sample.drop_attrs() for sample in samples], "group"))
        return mean, low, high

    return Bars(
        "downstream",
        "What a linear head can read",
        "Linear heads on frozen representations, 6000 labels, held-out samples; whiskers are 99 % intervals over "
        "replicas. The oracle knows the features and soft-thresholds Mᵀx at 1/2.",
        groups,
        {"squared error of <w*, z> / Var(y)": bars(errors), "error rate of sign <w*, z>": bars(misses)},
        "error (lower is better)",
    )


def _literal_bias(runs: Runs) -> Curves:
    arms = {"augmented": "adapted schedule", "literal-bias": "the paper's schedule"}
    panels = [
        Panel(
            "Firing",
            "training step",
            "mean Pr(h_i(x) ≠ 0)",
            [band(label, runs[arm]["firing_rate"].mean("neuron", skipna=False)) for arm, label in arms.items()],
        ),
        Panel(
            "Threshold over norm",
            "training step",
            "mean b_i / ||w_i||",
            [
                band(label, (runs[arm]["bias"] / runs[arm]["norm"]).mean("neuron", skipna=False))
                for arm, label in arms.items()
            ],
        ),
    ]
    return Curves(
        "literal-bias",
        "The paper's own bias schedule kills every neuron at this size",
        "Thresholds reset to √(2 log d/d) ||w|| and then grow at least at η/d, which overtakes what a lucky neuron "
        "gains; training stops once no neuron fires.",
        panels,
    )


def _dimension(study: "Decoupling", runs: Runs) -> Curves:
    names = {study.data.input_dim: "plain"}
    names |= {int(name.removeprefix("plain-")): name for name in runs if name.startswith("plain-")}
    sizes = sorted(names)
    curves = [band(f"d1/d = {d1 / study.data.features:g}", 1 - energy(runs[names[d1]])) for d1 in sizes]
    return Curves(
        "dimension",
        "Without augmentation: how much of the weights is noise",
        "Share of squared norm outside the features' span. The theorem has it tend to 1; at reachable size features "
        "outgrow noise before the loss saturates, less so the larger d1/d.",
        [Panel("No augmentation", "training step", "1 - ||Mᵀw||² / ||w||²", curves)],
    )
