"""The figures of the study, described for the report to draw."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from featscope.claims import COSINE, POSITIVE, SHARE
from featscope.figures import Bars, Curve, Curves, Figure, MatrixMovie, Panel
from featscope.probes.stored import along_features, energy, sorted_by_feature
from featscope.studies import Runs
from featscope.studies.decoupling.arms import DecouplingArms
from featscope.studies.summaries import bars, chart, curve
from featscope.theory.decoupling import Stage1

_STORY = {
    "augmented": "with masking",
    "plain": "without masking, thresholds at 0",
    "canonical": "control: features that masking destroys",
}
_STEP = "training step"


def figures(study: DecouplingArms, runs: Runs) -> Iterator[Figure]:
    """What neurons hold, how training goes, Stage I, then what follows, and what the paper's own schedule does."""
    yield alignment(runs)
    yield over_time(runs)
    yield stage_one(runs["stage-one"], study.stage1)
    yield amplitudes(runs)
    yield readouts(runs)
    arms = {"augmented": "adapted schedule", "literal-bias": "the paper's schedule"}
    yield chart(
        "literal-bias",
        "Thresholds as the paper raises them, and as the study does",
        "The paper resets thresholds to √(2 log d/d) ||w||; they then grow at least at η/d, which can overtake what a "
        "lucky neuron gains. Training stops once no neuron fires.",
        _panel(runs, arms, *_FIRING),
        _panel(runs, arms, *_THRESHOLD),
        claims=("thresholds-follow-the-schedule", "singletons-emerge"),
    )
    yield chart(
        "louder",
        "What the mask is for, and what thresholds are for",
        "Features that a neuron holds alone, at half size, with thresholds that rise: with masking at the study's "
        "noise from when features lead, else from when all weights have grown. There thresholds sort features out "
        "without a mask, too; under noise of twice the variance, where the mask alone is different, only with it.",
        _panel(
            runs,
            {"tau-1": "with masking", "thresholds-only": "without"},
            "Noise as in the other arms",
            "share of features with a neuron of their own",
            lambda run: run.coverage,
            SHARE,
        ),
        _panel(
            runs,
            {"louder": "with masking", "louder-unmasked": "without"},
            "Noise of twice the variance",
            "share of features with a neuron of their own",
            lambda run: run.coverage,
            SHARE,
        ),
        claims=("no-singletons-without-augmentation", "masking-finds-what-noise-hides"),
    )
    at = {**numbered(runs, "plain-"), study.data.input_dim: runs["plain"]}
    lines = [curve(1 - energy(run), f"d1/d = {d1 / study.data.features:g}", within=SHARE) for d1, run in at.items()]
    yield chart(
        "dimension",
        "Without masking: how much of the weights is noise",
        "Share of the weights' squared length outside the features' span, with d1 input dimensions and d features. The "
        "theorem has it tend to 1; at reachable size features outgrow noise before the loss saturates.",
        Panel("Without masking", _STEP, "share that is noise (1 - ||Mᵀw||² / ||w||²)", lines),
        claims=("plain-overwhelmed-by-noise", "plain-noise-trend"),
    )


def alignment(runs: Runs) -> MatrixMovie:
    """|cosine| of every neuron and feature; neurons sorted by the feature they end on."""
    steps = runs["augmented"]["step"].values
    ends = {label: int(runs[arm]["step"].values[-1]) for arm, label in _STORY.items()}
    return MatrixMovie(
        "alignment",
        "Which features each neuron holds",
        "Absolute cosine of every neuron's weights with every true feature in one replica. Neurons are sorted by the "
        "feature they end on; dark blocks down the diagonal are groups of neurons that hold one feature each. "
        "Arms shorter than the first stay at their last step.",
        steps=[int(step) for step in steps],
        frames={label: sorted_by_feature(abs(runs[arm].alignment), steps) for arm, label in _STORY.items()},
        row_label="neurons, sorted by the feature they end on",
        column_label="true features",
        value_label="how closely a neuron points along a feature (|cosine|)",
        last_steps={label: end for label, end in ends.items() if end < steps[-1]},
        claims=("singletons-emerge", "no-singletons-without-augmentation"),
    )


def _panel(
    runs: Runs,
    arms: Mapping[str, str],
    title: str,
    y_label: str,
    of: Callable[[xr.Dataset], xr.DataArray],
    within: tuple[float, float] = (-np.inf, np.inf),
    **more: Any,
) -> Panel:
    """A line for each of ``arms``, which are labelled; the mean over neurons where ``of`` gives one of each."""
    series = {label: of(runs[arm]) for arm, label in arms.items()}
    means = {label: s.mean("neuron", skipna=False) if "neuron" in s.dims else s for label, s in series.items()}
    return Panel(title, _STEP, y_label, [curve(mean, label, within=within) for label, mean in means.items()], **more)


_THRESHOLD = ("Threshold over norm", "mean threshold over norm (b_i / ||w_i||)", lambda run: run.bias / run.norm)
_FIRING = ("Firing", "mean share of inputs that a neuron fires on", lambda run: run.firing_rate, SHARE)


def over_time(runs: Runs) -> Curves:
    """What happens to weights, thresholds and outputs with the mask, without, and on the control."""
    ends = {"T1": runs["augmented"].stage1_end, "T2": runs["augmented"].stage2_end}
    marks = [(float(step.mean()), label) for label, step in ends.items() if (step >= 0).all()]
    panel = partial(_panel, runs, _STORY, marks=marks)
    return chart(
        "over-time",
        "Energy, norms, biases and firing",
        "T1 and T2 are the ends of Stages I and II with masking (means over replicas).",
        panel("Energy in the features' span", "share of the weights (||Mᵀw||² / ||w||²)", energy, SHARE),
        panel("Features with a neuron of their own", "share of features", lambda run: run.coverage, SHARE),
        panel("Norm of neurons", "mean norm (||w_i||)", lambda run: run.norm, log_y=True),
        panel(*_THRESHOLD),
        panel(*_FIRING),
        panel("Likeness to noise", "mean cosine of f(x) and f(ξ)", lambda run: run.noise_cosine, COSINE),
        panel("Loss on fresh data", "InfoNCE (nats × τ)", lambda run: run.loss),
        claims=("sparse-energy", "training-has-settled", "loss-inversion", "firing-matches-feature", "noise-removed"),
    )


def stage_one(run: xr.Dataset, form: Stage1) -> Curves:
    """Energies in Stage I against their closed ``form``, with the noise of batches and without."""
    forms = {"closed form with batch noise": form, "population gradients": form.of_population}
    steps = run["step"].values
    total, inside = (run.norm**2).sum("neuron", skipna=False), along_features(run)
    panels = []
    for name, part, series in (("along the features", 0, inside), ("orthogonal to them", 1, total - inside)):
        paths = {label: form.energies(int(steps[-1]))[steps, part] for label, form in forms.items()}
        lines = [curve(series / total.isel(step=0), "measured")]
        lines += [Curve(label, steps, path, dashed=True) for label, path in paths.items()]
        panels.append(Panel(f"Squared norm {name}", _STEP, "energy over the start (Σ||·||²)", lines, log_y=True))
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
        "How strongly features are held, over the temperature",
        "F_j, the squared weights on feature j summed over the neurons that hold it alone, mean over features, after "
        "training at three temperatures. In theory the points lie on a line of slope 1.",
        Panel("Amplitude", "temperature τ", "mean amplitude (F_j)", [measured, slope], log_x=True, log_y=True),
        claims=("amplitude-saturation", "amplitude-of-ideal"),
    )


def readouts(runs: Runs) -> Bars:
    """Errors of linear heads on everything that they were trained on."""
    groups = {
        "raw input": ("augmented", "raw"),
        "untrained": ("augmented", "untrained"),
        "without masking": ("plain", "representation"),
        "trained on labels": ("supervised", "representation"),
        "with masking": ("augmented", "representation"),
        "oracle": ("augmented", "oracle"),
    }
    errors, accuracies = (
        xr.concat([runs[arm][f"{name}_{what}"].drop_attrs() for arm, name in groups.values()], "group")
        for what in ("error", "accuracy")
    )
    return bars(
        "downstream",
        "What a linear head can read",
        "Linear heads on frozen representations, 6000 labels, held-out samples. The oracle knows the features and "
        "soft-thresholds Mᵀx at 1/2.",
        list(groups),
        {"share of the signal <w*, z> missed": errors, "error rate for its sign": 1 - accuracies},
        "error (lower is better)",
        within=POSITIVE,
        claims=("downstream-regression", "regression-as-ideal", "downstream-classification"),
    )


def numbered(runs: Runs, prefix: str) -> dict[float, xr.Dataset]:
    """Number -> run of the arms called ``prefix`` and a number, in the order of numbers."""
    found = {float(name.removeprefix(prefix)): runs[name] for name in runs if name.startswith(prefix)}
    return dict(sorted(found.items()))
