"""The figures of the study, described for the report to draw."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from featscope.claims import LEVEL
from featscope.figures import Curve, Curves, Figure, Heatmaps, Panel
from featscope.studies.base import Runs
from featscope.studies.gemfilter.cost import BYTES, FILTER, GEOMETRY, KEEP
from featscope.studies.gemfilter.retrieval import METHODS
from featscope.studies.summaries import banded
from featscope.theory import token_selection as theory

if TYPE_CHECKING:
    from featscope.studies.gemfilter.study import GemFilterStudy

INTERVALS = f"Bands are {100 * LEVEL:.3g} % intervals over replicas."
_NAMES = {
    "full": "full attention",
    "gemfilter": "GemFilter",
    "question-kept": "GemFilter, question kept",
    "snapkv": "SnapKV",
    "h2o": "H2O",
}


def figures(study: "GemFilterStudy", runs: Runs) -> Iterator[Figure]:
    """Scores, layers, kept tokens; then cost."""
    yield _scores(study, runs["retrieval"])
    yield _layers(study, runs)
    yield _keeps(study, runs["retrieval"])
    yield _cost(runs["cost"])


def _scores(study: "GemFilterStudy", run: xr.Dataset) -> Curves:
    lengths = np.asarray(study.lengths, dtype=float)
    compared = [banded(_NAMES[m], lengths, run["score"].isel(method=METHODS.index(m))) for m in _NAMES]
    ablated = [
        banded(_NAMES.get(m, m.replace("-", " ")), lengths, run["score"].isel(method=METHODS.index(m)))
        for m in METHODS
        if m == "gemfilter" or m not in _NAMES
    ]
    edge = [(float(study.trained), "trained")]
    return Curves(
        "scores",
        "Answers over the length of the prompt",
        f"Share of the answer's words that were given, with {study.keep} tokens kept and filter layer "
        f"{study.filter_layer}. Left, methods; right, GemFilter with another row or without its second pass. "
        f"{INTERVALS}",
        [
            Panel("Methods", "prompt (tokens)", "normalised score", compared, edge),
            Panel("Ablations", "prompt (tokens)", "normalised score", ablated, edge),
        ],
    )


def _layers(study: "GemFilterStudy", runs: Runs) -> Heatmaps:
    run = runs["retrieval"].mean("replica")
    layers = [str(layer) for layer in range(run.sizes["layer"])]
    return Heatmaps(
        "layers",
        "Which layer finds the needle",
        f"Means over prompts, with {study.keep} tokens kept: the share of prompts whose needle the layer's choice "
        "touches, the same for random weights, the share whose last token it chooses, and GemFilter's score with that "
        "filter layer.",
        {
            "needle covered": run["covered"].values,
            "needle covered, random weights": runs["untrained"]["covered"].mean("replica").values,
            "last token chosen": run["last_kept"].values,
            "score": run["score_of_layer"].values,
        },
        "prompt (tokens)",
        "layer",
        "share",
        [str(length) for length in study.lengths],
        layers,
        (0.0, 1.0),
    )


def _keeps(study: "GemFilterStudy", run: xr.Dataset) -> Curves:
    kept = np.asarray(study.keeps, dtype=float)
    curves = [banded(f"{n} tokens", kept, run["score_of_keep"].isel(length=i)) for i, n in enumerate(study.lengths)]
    return Curves(
        "keeps",
        "Answers over the tokens kept",
        f"GemFilter's score with filter layer {study.filter_layer}, a curve a length of the prompt. {INTERVALS}",
        [Panel("GemFilter", "kept tokens", "normalised score", curves, log_x=True)],
    )


def _cost(run: xr.Dataset) -> Curves:
    lengths = run["prompt_length"].isel(replica=0).values
    ratio = FILTER / GEOMETRY.layers
    dense = np.linspace(lengths[0], lengths[-1], 50)
    exact = [
        theory.first_pass_operations(GEOMETRY, int(n), FILTER) / theory.prompt_operations(GEOMETRY, int(n))
        for n in dense
    ]
    more = [(run[name] - run["first_bytes"]) / 2**20 for name in ("full_bytes", "snapkv_bytes")]
    full = np.array([theory.prompt_memory_full(GEOMETRY, int(n)) for n in dense]) * BYTES / 2**20
    kept = np.full_like(dense, theory.cache_numbers(GEOMETRY, KEEP) * BYTES / 2**20)
    return Curves(
        "cost",
        "What a prompt costs, against the formulas",
        f"{GEOMETRY.layers} layers, filter layer {FILTER}, {KEEP} tokens kept. Left, the first pass over reading the "
        "prompt in all layers; middle, memory beyond what the first pass needs; right, a new token. Dashed, "
        f"formulas. {INTERVALS}",
        [
            Panel(
                "First pass / whole prompt",
                "prompt (tokens)",
                "ratio",
                [
                    banded("time", lengths, run["first_seconds"] / run["full_seconds"]),
                    banded("operations", lengths, run["first_operations"] / run["full_operations"]),
                    Curve("operations, formula", dense, np.array(exact), dashed=True),
                    Curve("r/m", dense, np.full_like(dense, ratio), dashed=True),
                ],
            ),
            Panel(
                "Memory beyond the first pass",
                "prompt (tokens)",
                "MiB",
                [
                    banded("full", lengths, more[0]),
                    banded("SnapKV", lengths, more[1]),
                    Curve("full, formula", dense, full, dashed=True),
                    Curve("SnapKV, formula", dense, kept, dashed=True),
                ],
            ),
            Panel(
                "Time of a new token",
                "prompt (tokens)",
                "ms",
                [
                    banded("full", lengths, 1e3 * run["full_decoding_seconds"]),
                    banded("GemFilter", lengths, 1e3 * run["gemfilter_decoding_seconds"]),
                ],
            ),
        ],
    )
