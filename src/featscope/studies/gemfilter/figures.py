"""The figures of the study, described for the report to draw."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from featscope.figures import Curve, Curves, Heatmaps, Panel
from featscope.language.methods import METHODS, Reading
from featscope.studies.gemfilter.cost import BYTES, FILTER, GEOMETRY, KEEP
from featscope.studies.summaries import chart, curve, heatmaps
from featscope.theory import token_selection as theory

PROMPT, SCORE = "prompt (tokens)", "normalised score"
COMPARED = ("full", "gemfilter", "question-kept", "snapkv", "h2o")
ABLATED = ("gemfilter", "one-run", "middle-row", "largest-row")
MIB = 2**20


def scores(score: xr.DataArray, lengths: Sequence[int], trained: int, reading: Reading) -> Curves:
    """Answers of all methods ``[replica, length, method]``."""

    def panel(title: str, names: Sequence[str]) -> Panel:
        of = {name: score.isel(method=list(METHODS).index(name)) for name in names}
        lines = [curve(one, METHODS[name].label, "length", x=np.array(lengths)) for name, one in of.items()]
        return Panel(title, PROMPT, SCORE, lines, [(float(trained), "trained")])

    return chart(
        "scores",
        "Answers over the length of the prompt",
        f"Share of the answer's words that were given, with {reading.keep} tokens kept and filter layer "
        f"{reading.layer}. Left, methods; right, GemFilter with another row or without its second pass.",
        panel("Methods", COMPARED),
        panel("Ablations", ABLATED),
        claims=(
            "full-attention-retrieves",
            "gemfilter-is-no-worse",
            "gemfilter-beats-snapkv",
            "question-kept-is-no-worse",
            "question-kept-beats-snapkv",
            "gemfilter-reads-further",
            "middle-row-fails",
            "largest-row-fails",
            "one-run-is-close",
        ),
    )


def layers(run: xr.Dataset, untrained: xr.Dataset, lengths: Sequence[int], reading: Reading) -> Heatmaps:
    """What each layer chooses, over lengths."""
    panels = {
        "needle covered": run.covered,
        "needle covered, random weights": untrained.covered,
        "last token chosen": run.last_kept,
        "score": run.score_of_layer,
    }
    at = {"length": list(lengths), "layer": range(run.sizes["layer"])}
    return heatmaps(
        "layers",
        "Which layer finds the needle",
        f"Means over prompts, with {reading.keep} tokens kept: the share of prompts whose needle the layer's choice "
        "touches, the same for random weights, the share whose last token it chooses, and GemFilter's score with that "
        "filter layer.",
        {label: values.assign_coords(at) for label, values in panels.items()},
        ("length", PROMPT),
        ("layer", "layer"),
        "share",
        (0.0, 1.0),
        claims=("early-layer-finds-needle", "first-layer-does-not", "last-token-is-chosen"),
    )


def keeps(score: xr.DataArray, lengths: Sequence[int], kept: Sequence[int], reading: Reading) -> Curves:
    """GemFilter's answers ``[replica, length, keep]``."""
    lines = [curve(score.isel(length=i), f"{n} tokens", "keep", x=np.array(kept)) for i, n in enumerate(lengths)]
    return chart(
        "keeps",
        "Answers over the tokens kept",
        f"GemFilter's score with filter layer {reading.layer}, a curve a length of the prompt.",
        Panel("GemFilter", "kept tokens", SCORE, lines, log_x=True),
    )


def cost(run: xr.Dataset, lengths: Sequence[int]) -> Curves:
    """What reading and generating cost, and what the formulas say."""
    dense = np.linspace(lengths[0], lengths[-1], 50)
    tokens = [int(n) for n in dense]
    whole = np.array([theory.prompt_operations(GEOMETRY, n) for n in tokens])
    first = np.array([theory.first_pass_operations(GEOMETRY, n, FILTER) for n in tokens])
    full = np.array([theory.prompt_memory_full(GEOMETRY, n) for n in tokens]) * BYTES / MIB
    kept = np.full(50, theory.cache_numbers(GEOMETRY, KEEP) * BYTES / MIB)

    def measured(label: str, values: xr.DataArray) -> Curve:
        return curve(values, label, "length", x=np.array(lengths))

    def formula(label: str, values: np.ndarray) -> Curve:
        return Curve(label, dense, values, dashed=True)

    ratios = [
        measured("time", run.first_seconds / run.full_seconds),
        measured("operations", run.first_operations / run.full_operations),
        formula("operations, formula", first / whole),
        formula("r/m", np.full(50, FILTER / GEOMETRY.layers)),
    ]
    memory = [
        measured("full", (run.full_bytes - run.first_bytes) / MIB),
        measured("SnapKV", (run.snapkv_bytes - run.first_bytes) / MIB),
        formula("full, formula", full),
        formula("SnapKV, formula", kept),
    ]
    new = [
        measured("full", 1e3 * run.full_decoding_seconds),
        measured("GemFilter", 1e3 * run.gemfilter_decoding_seconds),
    ]
    return chart(
        "cost",
        "What a prompt costs, against the formulas",
        f"{GEOMETRY.layers} layers, filter layer {FILTER}, {KEEP} tokens kept. Left, the first pass over reading the "
        "prompt in all layers; middle, memory beyond what the first pass needs; right, a new token. Dashed, formulas.",
        Panel("First pass / whole prompt", PROMPT, "ratio", ratios),
        Panel("Memory beyond the first pass", PROMPT, "MiB", memory),
        Panel("Time of a new token", PROMPT, "ms", new),
        claims=(
            "operations-by-formula",
            "prompt-cost-ratio",
            "prompt-time-ratio",
            "memory-model",
            "memory-model-snapkv",
            "printed-memory",
            "generation-is-faster",
        ),
    )
