"""The figures of the study, described for the report to draw."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from featscope.figures import Bars, Curve, Curves, MatrixMovie, Panel
from featscope.studies.decoupling.series import along_features, energy, numbered
from featscope.studies.summaries import INTERVALS, chart, curve, over_replicas
from featscope.theory.decoupling import Stage1

Runs = Mapping[str, xr.Dataset]
_STORY = {"augmented": "RandomMask", "plain": "no augmentation", "canonical": "control: canonical features"}
_STEP = "training step"


def alignment(runs: Runs) -> MatrixMovie:
    """|cosine| of every neuron and feature in replica 0; neurons sorted by the feature they end on."""
    steps = runs["augmented"]["step"].values
    frames = {}
    for arm, label in _STORY.items():
        cosines = np.abs(runs[arm].alignment.isel(replica=0).transpose("step", "neuron", "feature"))
        found = cosines.dropna("step").sel(step=steps, method="ffill").values  # a shorter arm keeps its last look
        frames[label] = found[:, np.lexsort((-found[-1].max(-1), found[-1].argmax(-1)))]
    return MatrixMovie(
        "alignment",
        "Which features each neuron holds",
        "Absolute cosine of every neuron's weights with every true feature, replica 0. Neurons are sorted by the "
        "feature they end on; dark blocks down the diagonal are groups of neurons that hold one feature each. "
        "Arms shorter than the first stay at their last step.",
        steps=[int(step) for step in steps],
        frames=frames,
        row_label="neuron (sorted)",
        column_label="true feature j",
        value_label="|<w_i, M_j>| / ||w_i||",
        claims=("singletons-emerge", "no-singletons-without-augmentation", "supervised-finds-the-same"),
    )


def _panel(
    runs: Runs, arms: Mapping[str, str], title: str, y_label: str, of: Callable[[xr.Dataset], xr.DataArray], **more: Any
) -> Panel:
    """A line for each of ``arms``, which are labelled; the mean over neurons where ``of`` gives one of each."""
    series = {label: of(runs[arm]) for arm, label in arms.items()}
    means = {label: s.mean("neuron", skipna=False) if "neuron" in s.dims else s for label, s in series.items()}
    return Panel(title, _STEP, y_label, [curve(mean, label) for label, mean in means.items()], **more)


_THRESHOLD = ("Threshold over norm", "mean b_i / ||w_i||", lambda run: run.bias / run.norm)
_FIRING = ("Firing", "mean Pr(h_i(x) ≠ 0)", lambda run: run.firing_rate)


def over_time(runs: Runs) -> Curves:
    """What happens to weights, thresholds and outputs with the mask, without, and on the control."""
    ends = {"T1": runs["augmented"].stage1_end, "T2": runs["augmented"].stage2_end}
    marks = [(float(step.mean()), label) for label, step in ends.items() if (step >= 0).all()]
    panel = partial(_panel, runs, _STORY, marks=marks)
    return chart(
        "over-time",
        "Energy, norms, biases and firing",
        "T1 and T2 are the ends of Stages I and II of the RandomMask arm (means over replicas).",
        panel("Energy in the features' span", "||Mᵀw||² / ||w||²", energy),
        panel("Features held by a singleton neuron", "share of features", lambda run: run.coverage),
        panel("Norm of neurons", "mean ||w_i||", lambda run: run.norm, log_y=True),
        panel(*_THRESHOLD),
        panel(*_FIRING),
        panel("Likeness to noise", "mean cosine of f(x) and f(ξ)", lambda run: run.noise_cosine),
        panel("Loss on fresh data", "InfoNCE (nats × τ)", lambda run: run.loss),
        claims=("sparse-energy", "loss-inversion", "firing-matches-feature", "noise-removed"),
    )


def stage_one(run: xr.Dataset, forms: Mapping[str, Stage1]) -> Curves:
    """Energies in Stage I against each of ``forms``."""
    steps = run["step"].values
    total, inside = (run.norm**2).sum("neuron", skipna=False), along_features(run)
    panels = []
    for name, part, series in (("along the features", 0, inside), ("orthogonal to them", 1, total - inside)):
        paths = {label: form.energies(int(steps[-1]))[steps, part] for label, form in forms.items()}
        lines = [curve(series / total.isel(step=0), "measured")]
        lines += [Curve(label, steps, path, dashed=True) for label, path in paths.items()]
        panels.append(Panel(f"Squared norm {name}", _STEP, "Σ||·||² over its start", lines, log_y=True))
    about = ("stage1-trajectory", "stage1-duration", "energy-ceiling", "positive-pair-covariance")
    return chart(
        "stage-one",
        "Stage I, predicted step by step",
        "A tiny start with b = 0 throughout: the network is linear and the expected energies follow a closed form. "
        "Batches of finite size add energy by chance in all directions; the paper's population gradients do not.",
        *panels,
        claims=(*about, "order-kept-in-stage1"),
    )


def amplitudes(runs: Runs) -> Curves:
    """The amplitude of features over the temperature."""
    at = numbered(runs, "tau-")
    taus = np.array(list(at))
    found = xr.concat([run.amplitude.mean("feature") for run in at.values()], "tau")
    measured, middle = curve(found, "measured", "tau", x=taus), len(taus) // 2
    slope = Curve("slope 1", taus, measured.y[middle] * taus / taus[middle], dashed=True)
    return chart(
        "amplitude",
        "Amplitudes saturate in proportion to the temperature",
        "F_j, the squared weights on feature j summed over the neurons that hold it alone, mean over features, after "
        "training at three temperatures.",
        Panel("Amplitude", "temperature τ", "mean F_j", [measured, slope], log_x=True, log_y=True),
        claims=("amplitude-saturation",),
    )


def readouts(runs: Runs) -> Bars:
    """Errors of linear heads on everything that they were trained on."""
    groups = {
        "raw input": ("augmented", "raw"),
        "untrained": ("augmented", "untrained"),
        "no augmentation": ("plain", "representation"),
        "supervised": ("supervised", "representation"),
        "RandomMask": ("augmented", "representation"),
        "oracle": ("augmented", "oracle"),
    }
    errors, accuracies = (
        xr.concat([runs[arm][f"{name}_{what}"].drop_attrs() for arm, name in groups.values()], "group")
        for what in ("error", "accuracy")
    )
    return Bars(
        "downstream",
        "What a linear head can read",
        "Linear heads on frozen representations, 6000 labels, held-out samples. The oracle knows the features and "
        f"soft-thresholds Mᵀx at 1/2. {INTERVALS}",
        list(groups),
        {
            "squared error of <w*, z> / Var(y)": over_replicas(errors),
            "error rate of sign <w*, z>": over_replicas(1 - accuracies),
        },
        "error (lower is better)",
        claims=("downstream-regression", "downstream-classification"),
    )


def literal_bias(runs: Runs) -> Curves:
    """Firing under the paper's own schedule."""
    arms = {"augmented": "adapted schedule", "literal-bias": "the paper's schedule"}
    return chart(
        "literal-bias",
        "The paper's own bias schedule kills every neuron at this size",
        "Thresholds reset to √(2 log d/d) ||w|| and then grow at least at η/d, which overtakes what a lucky neuron "
        "gains; training stops once no neuron fires.",
        _panel(runs, arms, *_FIRING),
        _panel(runs, arms, *_THRESHOLD),
        claims=("singletons-emerge", "bias-would-grow", "bias-would-shrink"),
    )


def dimension(runs: Runs, features: int, input_dim: int) -> Curves:
    """How much of the weights is noise at several input dimensions."""
    at = {**numbered(runs, "plain-"), input_dim: runs["plain"]}
    lines = [curve(1 - energy(run), f"d1/d = {d1 / features:g}") for d1, run in at.items()]
    return chart(
        "dimension",
        "Without augmentation: how much of the weights is noise",
        "Share of squared norm outside the features' span. The theorem has it tend to 1; at reachable size features "
        "outgrow noise before the loss saturates, less so the larger d1/d.",
        Panel("No augmentation", _STEP, "1 - ||Mᵀw||² / ||w||²", lines),
        claims=("plain-overwhelmed-by-noise", "plain-noise-trend"),
    )
