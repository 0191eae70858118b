"""The figures of the study, described for the report to draw."""

from collections.abc import Callable

import numpy as np
import xarray as xr

from featscope.claims import SHARE
from featscope.figures import Curve, Curves, Heatmaps, Panel
from featscope.language.methods import METHODS, Reading
from featscope.studies.gemfilter.cost import BYTES, FILTER, GEOMETRY, KEEP
from featscope.studies.summaries import chart, curve, curves, heatmaps
from featscope.theory import token_selection as theory

PROMPT, SCORE = "length of the text (tokens)", "share of the answer's words given"
COMPARED = ("full", "gemfilter", "question-kept", "snapkv", "h2o")
ABLATED = ("gemfilter", "one-run", "middle-row", "largest-row")
MIB = 2**20


def scores(run: xr.Dataset, known: int, reading: Reading) -> Curves:
    """Answers of all methods ``[replica, length, method]``; lengths beyond ``known`` were not trained on."""
    of, *whole = (
        {name: curve(run[found].sel({"method": name}), METHODS[name].label, "length", within=SHARE) for name in METHODS}
        for found in ("score", "exact")
        if found in run  # runs stored before have no "exact"
    )
    marks = [(float(known), "longest trained on")] if known < run["length"].values[-1] else []
    return chart(
        "scores",
        "Answers over the length of the prompt",
        f"1 is a perfect answer; {reading.keep} tokens are kept, for GemFilter chosen by layer {reading.layer}. Left, "
        f"methods{', and how often all of the answer is given' if whole else ''}; right, GemFilter where another row "
        "of scores chooses, and without its second pass (one run).",
        Panel("Methods", PROMPT, SCORE, [of[name] for name in COMPARED], marks),
        *(
            Panel("Whole answers", PROMPT, "share of prompts answered whole", [one[name] for name in COMPARED], marks)
            for one in whole
        ),
        Panel("Ablations", PROMPT, SCORE, [of[name] for name in ABLATED], marks),
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


def layers(run: xr.Dataset, untrained: xr.Dataset, reading: Reading) -> Heatmaps:
    """What each layer chooses, over lengths."""
    panels = {
        "choice touches the hidden sentence": run.covered,
        "the same, random weights": untrained.covered,
        "last token is chosen": run.last_kept,
        "answer's words given": run.score_of_layer,
    }
    return heatmaps(
        "layers",
        "Which layer finds the hidden sentence",
        f"With {reading.keep} tokens kept, by layer and length: the share of texts whose hidden sentence the layer's "
        "choice touches, the same for random weights, the share whose last token it chooses, and the share of the "
        "answer's words that GemFilter gives if that layer chooses.",
        panels,
        ("length", PROMPT),
        ("layer", "layer that chooses"),
        "share",
        (0.0, 1.0),
        claims=("early-layer-finds-needle", "first-layer-does-not", "last-token-is-chosen"),
    )


def keeps(score: xr.DataArray, reading: Reading) -> Curves:
    """GemFilter's answers ``[replica, length, keep]``."""
    lines = curves(score, "length", "{} tokens".format, "keep", within=SHARE)
    return chart(
        "keeps",
        "Answers over the tokens kept",
        f"What GemFilter answers if layer {reading.layer} chooses; a curve for each length of the text.",
        Panel("GemFilter", "kept tokens", SCORE, lines, log_x=True),
        claims=("gemfilter-is-no-worse",),
    )


def cost(run: xr.Dataset) -> Curves:
    """What reading and generating cost, and what the formulas say."""
    dense = np.linspace(run.length.values[0], run.length.values[-1], 50)

    def measured(label: str, values: xr.DataArray) -> Curve:
        return curve(values, label, "length")

    def formula(label: str, of: Callable[[int], float]) -> Curve:
        return Curve(label, dense, np.array([of(int(tokens)) for tokens in dense]), dashed=True)

    ratios = [
        measured("time", run.first_seconds / run.full_seconds),
        measured("operations", run.first_operations / run.full_operations),
        formula("operations, formula", lambda n: theory.first_pass_share(GEOMETRY, n, FILTER)),
        formula("layers run (r/m)", lambda n: FILTER / GEOMETRY.layers),
    ]
    memory = [
        measured("full attention", (run.full_bytes - run.first_bytes) / MIB),
        measured("SnapKV", (run.snapkv_bytes - run.first_bytes) / MIB),
        formula("full attention, formula", lambda n: theory.prompt_memory_full(GEOMETRY, n) * BYTES / MIB),
        formula("SnapKV, formula", lambda n: theory.cache_numbers(GEOMETRY, KEEP) * BYTES / MIB),
    ]
    new = [
        measured("full attention", 1e3 * run.full_decoding_seconds),
        measured("GemFilter", 1e3 * run.gemfilter_decoding_seconds),
    ]
    return chart(
        "cost",
        "What a prompt costs, against the formulas",
        f"{GEOMETRY.layers} layers, filter layer {FILTER}, {KEEP} tokens kept. Left, the first pass over reading the "
        "prompt in all layers; middle, memory beyond what the first pass needs; right, a new token. Dashed, formulas.",
        Panel("First pass over the whole prompt", PROMPT, "share of the whole", ratios),
        Panel("Memory beyond the first pass", PROMPT, "memory (MiB)", memory),
        Panel("Time of a new token", PROMPT, "time (ms)", new),
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
