"""The figures of the study."""

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float

from featscope.figures import Bars, Curve, Curves, Panel, Scatters
from featscope.probes.cosine_map import placed
from featscope.studies.base import Runs, last
from featscope.studies.fixed_features import arms as at
from featscope.studies.fixed_features.mixtures import EXPERIMENTS
from featscope.studies.fixed_features.probes import STAGES
from featscope.studies.fixed_features.trained import TURNS
from featscope.studies.summaries import bars, chart, curve

_SHOWN = 60
_NEAR = 0.9
_STEP, _RIGHT = "training step, after the first two where those are taken", "share of right answers"


def accuracy(study: at.FixedFeaturesArms, runs: Runs) -> Curves:
    """Accuracy over steps with and without structure."""
    within = {
        at.NETWORK: "network",
        at.TWO: "two steps, frozen",
        at.ONE: "one step, frozen",
        at.TANGENT: "tangent features",
        at.RANDOM: "random features",
    }
    without = {
        at.NOTHING_TO_FIND: "network",
        at.TANGENT_WITHOUT: "tangent features",
        at.RANDOM_WITHOUT: "random features",
    }
    panels = []
    for title, arms, machine in (
        ("Structured inputs", within, at.MACHINES),
        ("Without structure", without, at.MACHINES_WITHOUT),
    ):
        lines = [curve(runs[arm].accuracy, label, within=(0, 1)) for arm, label in arms.items()]
        ends = np.array([0.0, float(runs[at.NETWORK].step[-1])])
        level = float(runs[machine].accuracy.isel(machine=-1).mean())
        lines.append(Curve("feature machine (no steps)", ends, np.full(2, level), dashed=True))
        if machine == at.MACHINES:
            lines.append(Curve("best linear rule", ends, np.full(2, study.ceiling), dashed=True))
        panels.append(Panel(title, _STEP, _RIGHT, lines))
    return chart(
        "accuracy",
        "Do two gradient steps find what fixed features cannot use?",
        f"Test accuracy on parities of {study.relevant} hidden patterns over training steps; dashed, the best linear "
        f"rule and the recursive feature machine, fitted at once on {study.machine_samples} samples.",
        *panels,
        claims=("network-learns", "network-beats-fixed", "tangent-features-sit-at-the-ceiling", "no-structure-chance"),
    )


def maps(study: at.FixedFeaturesArms, runs: Runs) -> Scatters:
    """Where neurons of the network go in the first two steps."""
    target = np.zeros(runs[at.NETWORK].sizes["d"])
    target[: study.relevant] = study.relevant**-0.5
    return _map(
        "maps",
        "Do neurons gather at the relevant patterns and at their opposite?",
        "the sum of the relevant patterns",
        runs[at.NETWORK],
        target,
        ("two-steps-find-the-patterns", "alignment-formula"),
    )


def maps_of_hidden(runs: Runs) -> Scatters:
    """The same where labels are those of hidden vectors (Figure A.11)."""
    return _map(
        "maps-hidden",
        "Where labels weigh patterns, do neurons gather at the sum that they weigh?",
        "the patterns' sum, weighed as labels do",
        runs[at.HIDDEN],
        runs[at.HIDDEN].target.isel(replica=0).values,
        ("hidden-vectors-are-found-as-labels-weigh-them",),
    )


def _map(
    id: str, title: str, where: str, run: xr.Dataset, target: Float[np.ndarray, " d"], claims: tuple[str, ...]
) -> Scatters:
    """Weights of one replica at the start and after both steps, by their cosines; the same neurons coloured."""
    neurons = run.sizes["neuron"]
    directions = run.weights.isel(replica=0).values[:, :: max(1, neurons // _SHOWN)]
    final = directions[-1] @ target
    classes = np.concatenate([np.where(final > _NEAR, 1, np.where(final < -_NEAR, 2, 0)), [3, 4]])
    panels = {
        name: placed(torch.from_numpy(points @ points.T)).numpy()
        for name, points in (
            (name, np.concatenate([weights, [target, -target]]).astype(float))
            for name, weights in zip(STAGES, directions, strict=True)
        )
    }
    return Scatters(
        id,
        title,
        f"{directions.shape[1]} of {neurons} neurons of one replica, placed so that distances are near to 1 - cosine "
        "(multidimensional scaling, each panel by itself). Colours say where a neuron is after two steps: cosine above "
        f"{_NEAR} with {where}, below -{_NEAR}, or neither.",
        panels,
        dict.fromkeys(panels, classes),
        ["neither", "to the patterns", "to their opposite", "the patterns", "their opposite"],
        claims=claims,
    )


def machines(study: at.FixedFeaturesArms, runs: Runs) -> Curves:
    """Accuracy and trace of M over turns."""
    turns = np.arange(TURNS + 1.0)
    ends = turns[[0, -1]]
    panels = []
    right = [
        curve(runs[arm].accuracy.isel(machine=slice(-TURNS - 1, None)), label, "machine", x=turns, within=(0, 1))
        for arm, label in ((at.MACHINES, "structured inputs"), (at.MACHINES_WITHOUT, "without structure"))
    ]
    for place, name in enumerate(("random", "tangent")):
        level = float(runs[at.MACHINES].accuracy.isel(machine=place).mean())
        right.append(Curve(f"ridge, {name} features", ends, np.full(2, level), dashed=True))
    right.append(Curve("best linear rule", ends, np.full(2, study.ceiling), dashed=True))
    panels.append(Panel("Accuracy", "turn", _RIGHT, right))
    found = [
        curve(runs[arm].found, label, "turn", x=turns, within=(0, 1))
        for arm, label in ((at.MACHINES, "structured inputs"), (at.MACHINES_WITHOUT, "without structure"))
    ]
    panels.append(Panel("Relevant patterns in M", "turn", "share of the trace", found))
    return chart(
        "machines",
        "Does a kernel machine that learns features pass the ceiling as well?",
        "The recursive feature machine over its turns; before the first it is ridge classification with a Laplace "
        f"kernel. {study.machine_samples} training samples; dashed, ridge on fixed features of as many (structured).",
        *panels,
        claims=("machine-learns-features", "machine-beats-fixed", "machine-finds-the-patterns"),
    )


def first_steps(runs: Runs) -> Bars:
    """Largest cosines at the start and after both steps."""
    shown = {at.NETWORK: "structured", at.NOTHING_TO_FIND: "without structure", at.HIDDEN: "hidden vectors"}
    series = {label: runs[arm].cosine.max("neuron", skipna=False) for arm, label in shown.items()}
    return bars(
        "first-steps",
        "Does one step point at the patterns already?",
        "Largest cosine of a neuron with the relevant patterns (hidden vectors: as labels weigh them).",
        list(STAGES),
        series,
        "largest cosine",
        within=(-1, 1),
        claims=("two-steps-find-the-patterns", "one-step-is-not-aligned", "start-is-as-aligned-as-chance"),
    )


def others(runs: Runs) -> Curves:
    """Balanced accuracy over steps with other labels and classes."""
    interval = {
        at.INTERVAL: "network",
        at.INTERVAL_TWO: "two steps, frozen",
        at.INTERVAL_TANGENT: "tangent features",
        at.INTERVAL_WITHOUT: "two steps, without structure",
        at.INTERVAL_TANGENT_WITHOUT: "tangent features, without",
    }
    rare = {
        name: f"{share:.0%} of class -1, {label}"
        for names, label in ((at.RARE, "two steps"), (at.RARE_RANDOM, "random features"))
        for share, name in names.items()
    }
    panels = []
    for title, each in (("Interval labels", interval), ("Unbalanced classes", rare)):
        lines = [curve(runs[arm].balanced, label, within=(0, 1)) for arm, label in each.items()]
        panels.append(Panel(title, _STEP, "balanced accuracy", lines))
    return chart(
        "others",
        "Other labels: intervals, which are a linear rule, and a rare class",
        "Mean over classes of the test accuracy. Left, counts in an interval, a linear rule; right, parities with a "
        "rare class.",
        *panels,
        claims=("interval-easy", "rare-class-is-learned"),
    )


def general(study: at.FixedFeaturesArms, runs: Runs) -> Curves:
    """Balanced accuracy over steps in the general setting, and accuracy over dimensions."""
    lines = [
        curve(runs[arm].balanced, label, within=(0, 1))
        for arm, label in ((at.GENERAL, "network"), (at.GENERAL_RANDOM, "random features"))
    ]
    two = runs[at.COHERENT]
    over = curve(last(two, two.accuracy), "two steps, frozen", "dimension", within=(0, 1))
    best = Curve("best rule for the blurred count", two.dimension.values, study.blurred(two), dashed=True)
    return chart(
        "general",
        "Where patterns are hardly orthogonal, are two steps enough, and is training?",
        f"Dictionaries of random directions, noise of {at.NOISE:g}. Left, a rare class, mean over classes of the test "
        "accuracy; right, balanced classes, a second layer on the features of two steps.",
        Panel("Trained in 4 D dimensions", _STEP, "balanced accuracy", lines),
        Panel("After two steps", "dimension d", _RIGHT, [over, best], log_x=True),
        claims=("general-setting-is-learned", "two-steps-need-incoherence", "coherence-blurs-the-count"),
    )


def mixtures(runs: Runs) -> Scatters:
    """Some neurons and all centres of one replica, before and after training, by their cosines."""
    panels, classes = {}, {}
    for number, name in enumerate(EXPERIMENTS, 1):
        run = runs[name].isel(replica=0)
        centres = run.centres.values.astype(float)
        labels = np.where(run.labels.values > 0, 1, 2)
        centres /= np.linalg.norm(centres, axis=1, keepdims=True)
        ends = run.last_weights.values.astype(float) @ centres.T
        nearest = np.where(ends.max(1) > _NEAR, labels[ends.argmax(1)], 0)
        for when, weights in (("start", run.first_weights), ("end", run.last_weights)):
            points = np.concatenate([weights.values.astype(float), centres])
            title = f"Experiment {number}, {when}"
            panels[title] = placed(torch.from_numpy(points @ points.T)).numpy()
            classes[title] = np.concatenate([nearest, labels + 2])
    return Scatters(
        "mixtures",
        "Do neurons turn to the centres of their clusters?",
        "Gaussians at the corners of a cube with the parity of its signs for labels (Table A.6), some neurons of one "
        "replica and all centres, placed so that distances are near to 1 - cosine (each panel by itself). Colours say "
        f"where a neuron is at the end: cosine above {_NEAR} with a centre, or with none.",
        panels,
        classes,
        ["at no centre", "at one of class 1", "at one of class -1", "centre of class 1", "centre of class -1"],
        claims=("every-centre-gets-a-neuron",),
    )
