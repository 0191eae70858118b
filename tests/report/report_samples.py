"""A made-up study's claims and figures, one figure of every type, as large as a real one's."""

from dataclasses import replace
from typing import Any

import numpy as np

from featscope.claims import Claim
from featscope.figures import (
    Agreement,
    Bars,
    Curve,
    Curves,
    Figure,
    Heatmaps,
    ImageGrids,
    MatrixMovie,
    Panel,
    Scatters,
    VerdictPanel,
    Verdicts,
)
from featscope.report import Content
from featscope.report.arm_table import ArmTable, Row

CONTROLS = frozenset({"canonical"})
STEPS = list(range(0, 700, 24))


def _random() -> np.random.Generator:
    return np.random.default_rng(7)


def replicated(frames: np.ndarray, replicas: int = 3) -> np.ndarray:
    """``frames`` as replicas have them, each a little weaker."""
    return np.stack([np.clip(frames * 0.95**r, 0, 1) for r in range(replicas)])


def movie(neurons: int = 256, features: int = 32, frames: int = len(STEPS), replicas: int = 3) -> MatrixMovie:
    """Neurons that end on one feature with augmentation, and on noise without."""
    random = _random()
    noise = np.abs(random.normal(0, 0.12, (neurons, features)))
    goal = np.eye(features)[np.sort(random.integers(0, features, neurons))] * 0.95
    growth = (1 / (1 + np.exp(-np.linspace(-5, 5, frames))))[:, None, None]
    return MatrixMovie(
        id="alignment",
        title="Which feature each neuron learns, and when",
        caption="Each row is a neuron, each column a feature; dark means the weight points along it. "
        "With RandomMask each neuron ends on one feature. Rows are sorted by the feature they end on.",
        steps=STEPS[:frames],
        frames={
            "augmented (RandomMask)": replicated(noise * (1 - growth) + goal * growth, replicas),
            "plain (no augmentation)": replicated(noise + 0.05 * growth, replicas),
            "canonical dictionary (control)": replicated(noise + 0.3 * goal * growth, replicas),
        },
        row_label="neuron (sorted)",
        column_label="feature",
        value_label="|cosine| of weight and feature",
    )


def curves() -> Curves:
    """Two panels with bands, predictions and stage boundaries, one of them logarithmic."""
    x = np.array(STEPS)
    rise = 1 / (1 + np.exp(-(x - 320) / 50))
    marks = [(120.0, "bias starts to grow"), (300.0, "stage II"), (330.0, "first singleton"), (600.0, "stage III")]
    spread = 0.03 + 0.05 * rise * (1 - rise)
    tail = np.exp(-x / 130)
    coverage = Panel(
        "Features with at least one singleton neuron",
        "step",
        "share of features",
        [
            Curve(
                "augmented", x, rise, rise - spread, rise + spread, samples=np.stack([rise - 0.01, rise, rise + 0.01])
            ),
            Curve("plain", x, 0.05 + 0 * x, 0 * x, 0.1 + 0 * x),
            Curve("theory, Theorem 3.4", x, np.clip((x - 200) / 250, 0, 1), dashed=True),
        ],
        marks,
    )
    loss = Panel(
        "Distance to the optimum",
        "step",
        "loss − final loss (nats)",
        [Curve("augmented", x, tail, tail - 0.02, tail + 0.02), Curve("plain", x, 0.2 * tail + 0.3)],
        marks[1:2],
        log_y=True,
    )
    return Curves(
        "coverage",
        "Features appear in stages",
        "Lines are means over 8 replicas, bands 99 % intervals.",
        [coverage, loss],
    )


def scaling() -> Curves:
    """One panel, both axes logarithmic, few points, intervals unknown at some."""
    x = np.array([32.0, 64, 128, 256, 512])
    y = 3 * x**-0.5
    low = np.where(x > 100, -np.inf, y * 0.85)
    high = np.where(x > 100, np.inf, y * 1.15)
    panel = Panel(
        "Noise in a weight",
        "input dimension d₁",
        "noise share",
        [Curve("measured", x, y * 1.03, low, high), Curve("d₁^(−1/2)", x, y, dashed=True)],
        log_x=True,
        log_y=True,
        marks=[(64.0, "d₁ = 2d")],
    )
    return Curves("scaling", "Noise falls with the dimension", "Both axes are logarithmic.", [panel])


def agreement() -> Agreement:
    """Rows that hold, fail, are undecided, and one without interval."""
    predicted = np.array([0.5, 1.25, 0.031, 2.0, 0.7, 1.0])
    tolerance = np.array([0.01, 0.02, 0.001, 0.05, 0.01, 0.0])
    measured = predicted + tolerance * np.array([0.2, -0.5, 1.0, 18.0, 0.1, 0.0])
    half = tolerance * np.array([0.3, 0.2, 0.5, 1.0, np.inf, 0.0])
    half[5] = 0
    labels = [
        "E⟨z, z⁺⟩ under the mask (Lemma C.2)",
        "variance of a pre-activation (Lemma A.1)",
        "noise after masking (Lemma C.4)",
        "fourth moment of the sparse code",
        "share of firing neurons, one replica",
        "norm of a feature",
    ]
    return Agreement(
        "agreement",
        "Identities: theory against measurement",
        "The shaded band is the tolerance around the prediction; the axis is logarithmic beyond it.",
        labels,
        predicted,
        measured,
        measured - half,
        measured + half,
        tolerance,
    )


def bars() -> Bars:
    """Three series over four groups, a gap, and two reference lines."""
    value = np.array([[0.93, 0.91, 0.88, 0.86], [0.41, 0.38, 0.35, np.nan], [0.12, 0.1, 0.11, 0.1]])
    names = ("augmented", "plain", "random features")
    series = {name: (row, row - 0.03, row + 0.03) for name, row in zip(names, value, strict=True)}
    return Bars(
        "probe",
        "Linear probe",
        "Accuracy of a linear classifier on the features; whiskers are 99 % intervals.",
        ["d = 16", "d = 32", "d = 64", "d = 64, twice the noise"],
        series,
        "accuracy",
        [(0.1, "chance"), (0.95, "true features")],
        {name: np.stack([row - 0.01, row, row + 0.01]) for name, row in zip(names, value, strict=True)},
        claims=("probe-gap",),
    )


def images() -> ImageGrids:
    """Filters as small colour images."""
    random = _random()
    smooth = np.linspace(0, 1, 8)[:, None, None] * random.random((64, 1, 8, 3))
    panels = {"first layer, augmented": smooth, "first layer, plain": random.random((64, 8, 8, 3))}
    return ImageGrids("filters", "What filters look like", "64 filters, each scaled to its own range.", panels)


def heatmaps() -> Heatmaps:
    """Two-sided matrices, one not square."""
    random = _random()
    return Heatmaps(
        "correlation",
        "Correlation of neurons and features",
        "Blue is positive, brown negative.",
        {"augmented": np.eye(24) + random.normal(0, 0.1, (24, 24)), "plain": random.normal(0, 0.3, (24, 24))},
        "neuron",
        "feature",
        "correlation",
    )


def scatters() -> Scatters:
    """Ten classes in two panels."""
    random = _random()
    kinds = random.integers(0, 10, 600)
    angle = 2 * np.pi * kinds / 10
    centres = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    names = ["plane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    panels = {
        "augmented": 4 * centres + random.normal(0, 0.6, (600, 2)),
        "plain": random.normal(0, 2, (600, 2)),
    }
    return Scatters(
        "tsne",
        "Where images land (t-SNE)",
        "One point an image.",
        panels,
        dict.fromkeys(panels, kinds),
        names,
    )


def verdicts(areas: bool = True) -> Verdicts:
    """Over two axes, or over one with what was measured and its bound."""
    x, y = (side.ravel() for side in np.meshgrid([0.1, 1.0, 10.0, 31.6], [2.0, 4.0, 8.0]))
    told = ["holds" if a * b < 8 else "fails" if a * b > 60 else "undecided" for a, b in zip(x, y, strict=True)]
    said = [f"noise={a:g}, size={b:g}: {verdict}" for a, b, verdict in zip(x, y, told, strict=True)]
    panels = [VerdictPanel("augmented", x, y, told, said), VerdictPanel("plain", x[:4], y[:4], told[:4], said[:4])]
    if not areas:
        y = 1 / x[:4]
        low, high = 0.8 * y, np.where(y > 5, np.inf, 1.2 * y)
        panels = [VerdictPanel("augmented", x[:4], y, told[:4], said[:4], low, high, [np.full(4, 0.5)])]
    name = "where-plane" if areas else "where-line"
    return Verdicts(name, "Where it holds", "Marks.", panels, "noise", "size", log_x=True, log_y=areas, areas=areas)


def figures(replicas: int = 3) -> list[Figure]:
    """All of them, the alignment first."""
    return [
        movie(replicas=replicas),
        curves(),
        agreement(),
        bars(),
        scaling(),
        heatmaps(),
        images(),
        scatters(),
        verdicts(),
        verdicts(areas=False),
    ]


def claims() -> list[Claim]:
    """25 claims with every kind of outcome."""
    random = _random()

    def around(mean: float, spread: float) -> np.ndarray:
        return mean + spread * random.normal(size=8)

    def about(id: str, source: str, statement: str, kind: str, **more: Any) -> dict[str, Any]:
        return {"id": id, "source": source, "statement": statement, "kind": kind, "arm": "augmented"} | more

    said = Claim.from_samples
    emerge = about(
        "singletons-emerge",
        "Theorem 3.4",
        "Every feature is learned by at least one neuron that is aligned with it and with no other.",
        "bound",
        title="Every feature gets a neuron of its own",
        measures="share of features with such a neuron.",
        range=(0.0, 1.0),
    )
    masked = about(
        "mask-cancels-noise",
        "Lemma C.2",
        "Under RandomMask the dense noise of the two views is independent: its part of the positive "
        "term has mean zero and the term equals d/d₁ · E‖z‖².",
        "identity",
        note="The tolerance is the error term O(1/√d₁) of the lemma at d₁ = 512.",
    )
    positive = about(
        "positive-term",
        "Equation 2.4",
        "The positive term equals its closed form.",
        "identity",
        note="Floating point: float32 sums over 512 terms.",
    )
    noise = about(
        "noise-share", "Theorem 3.4 (b)", "The share of a weight's norm outside the features vanishes.", "bound"
    )
    must_not = "Theorem 3.2 says it must not happen."
    exponent = about(
        "exponent",
        "Corollary 3.6",
        "Noise falls with the dimension as $d_1^{-1/2}$.",
        "scaling",
        title="The wider the input, the less noise is in a weight",
        note="The tolerance is a choice.",
    )
    probe = about("probe-gap", "Figure 3", "A linear probe gains from augmentation.", "ordering")
    dead = about("dead-neurons", "Section 4", "At most a tenth of the neurons dies.", "bound")
    alone = about("one-seed", "Section 4", "One replica cannot decide.", "bound", arm="plain")
    broken = about("diverged", "Section 4", "A measurement that is not a number.", "bound", arm="plain")
    rows = [
        said(around(0.5003, 0.0004), "=", 0.5, 0.01, **masked),
        said(np.array(1.2500001), "=", 1.25, 1e-5, law="exact", **positive),
        said(around(0.97, 0.01), ">=", 0.9, **emerge),
        said(around(3.2e-5, 4e-6), "<=", 1e-3, **noise),
        said(around(0.02, 0.004), ">=", 0.9, **emerge | {"arm": "plain", "expected": False, "note": must_not}),
        said(around(0.2, 0.01), ">=", 0.9, **emerge | {"arm": "canonical", "expected": False}),
        said(around(0.05, 0.05), ">=", 0.04, **probe),
        said(around(-0.58, 0.01), "=", -0.5, 0.05, **exponent),
        said(around(0.01, 0.002), "<=", 0.1, **dead | {"arm": "canonical", "expected": False}),
        said(np.array([0.3]), "<=", 0.5, **alone),
        said(np.array([np.nan, 1.0]), "<=", 0.5, **broken),
    ]
    for i in range(25 - len(rows)):
        text = f"Moment {i + 1} of a pre-activation equals its closed form at initialisation."
        moment = about(f"moment-{i + 1}", f"Lemma A.{i + 1}", text, "identity", note="Three standard errors.")
        rows.append(said(around(1 + i, 0.01), "=", 1.0 + i, 0.05, **moment))
    return rows


ARMS = ArmTable(
    ["view"],
    ["RandomMask"],
    [
        Row("augmented", "with masking", "two halves of each sample", "arm", [""]),
        Row("plain", "without", "the sample twice", "arm", ["SameSample"]),
        Row("canonical", "masked away", "masking destroys the features", "control", ["canonical"]),
    ],
    {"steps": "700"},
)


def content(**changes: Any) -> Content:
    """What the page of the made-up study says."""
    whole = Content(
        title="made-up",
        source="Wen & Li 2021, arXiv 2105.15134",
        question="Why does hiding half of the input help?",
        found="With masking 97 % of the features get a neuron of their own; without it, none.",
        lede="A one-layer network learns from sparse codes in dense noise.",
        headlines={"singletons-emerge@augmented": "31 of 32.", "noise-share": "", "exponent": "", "probe-gap": ""},
        summary="A network learns from pairs.",
        claims=claims(),
        arms=[ARMS],
        figures=figures(),
        replicas=3,
        command="featscope run made-up --seed 0 --replicas 3 --device cpu",
        facts={"Took": "108 s", "Machine": "2 cores, x86_64, Linux"},
    )
    return replace(whole, **changes)
