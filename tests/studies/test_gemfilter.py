"""The study GemFilter, small; and faults that change its verdicts."""

import importlib
import re
import sys
from dataclasses import replace
from functools import partial

import pytest
import torch

from featscope.language import checks, eviction, gemfilter, selection
from featscope.language.method import FullCache
from featscope.language.prompt import Prompt
from featscope.language.selection import last_row_scores, select
from featscope.options import ConfigError, MissingExtraError
from featscope.report.run_report import report_run
from featscope.runs import Settings, run
from featscope.studies.gemfilter import GemFilterStudy, retrieval
from featscope.testing import Fault, Trial, by_name, measure

SMALL = GemFilterStudy(lengths=(96, 128), prompts=2, keeps=(32, 64), cost_lengths=(300,), trained=128)
TRIAL = Trial(SMALL, replicas=2)
EXACT = [
    "keep-all-is-identity",
    "keep-all-same-logits",
    "grouped-query-identity",
    "lone-spike",
    "scale-invariance",
    "cache-length-is-keep",
    "positions-are-compact",
    "layers-run",
    "projections-run",
    "one-run-equal-selection",
]
COST = ["operations-by-formula", "prompt-cost-ratio", "memory-model", "memory-model-snapkv", "generation-cost"]


def shifted(self, input_ids, attention_mask=None, **options):
    """Kept tokens at positions from 7 on."""
    positions = 7 + torch.arange(input_ids.shape[1])[None]
    return self.model.generate(input_ids, attention_mask=attention_mask, position_ids=positions, **options)


def slow(self, input_ids, attention_mask=None):
    """All layers run before the first pass."""
    self.model(input_ids, use_cache=True)
    return choose(self, input_ids, attention_mask)


choose = gemfilter.GemFilter.select
deeper = type("Deeper", (gemfilter._Until,), {"__init__": lambda self, layer: setattr(self, "layer", layer + 1)})
other_groups = lambda query, heads: query.unflatten(1, (-1, heads)).sum(1)  # noqa: E731
weights = lambda query, key: (key @ query[..., None])[..., 0].softmax(-1).sum(1)  # noqa: E731
first_places = lambda model, prompt, keep: dict.fromkeys(range(4), torch.arange(8)[None])  # noqa: E731

FAULTS = {
    "a lost token": [
        (gemfilter, "select", lambda *a, **k: select(*a, **k)[:, 1:], "keep-all-same-logits"),
        (gemfilter, "select", lambda *a, **k: select(*a, **k)[:, 1:], "cache-length-is-keep"),
    ],
    "heads of other groups": [(selection, "summed_queries", other_groups, "grouped-query-identity")],
    "another kernel": [(checks, "select", partial(select, kernel=3), "lone-spike")],
    "attention weights": [(selection, "scores", weights, "scale-invariance")],
    "a deeper pass": [(gemfilter, "_Until", deeper, name) for name in ("layers-run", "projections-run")],
    "a second pass on everything": [(Prompt, "take", lambda self, kept, padding: self, "cache-length-is-keep")],
    "old positions": [(FullCache, "generate", shifted, "positions-are-compact")],
    "another choice of one run": [
        (eviction, "last_row_scores", lambda query, key: -last_row_scores(query, key), "one-run-equal-selection")
    ],
}
