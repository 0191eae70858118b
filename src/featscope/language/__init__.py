"""Token selection in the prompts of Hugging Face models, and what can be seen of it. Needs the extra 'language'."""

from featscope.options import require_extra

with require_extra("featscope.language", "language"):
    import transformers as _transformers  # noqa: F401

from featscope.language.caches import AllQueries, Full, HeadBudgets, LastQueries, LayerBudgets, Press, Selected
from featscope.language.keep import Cost
from featscope.language.layers import LayerChoice, choose_layer
from featscope.language.load import load_model
from featscope.language.method import Method
from featscope.language.prefill import Prefill
from featscope.language.presets import (
    H2O,
    AdaKV,
    FastKV,
    FullCache,
    GemFilter,
    GemFilterOneRun,
    PromptDistill,
    SnapKV,
    SpeculativePrefill,
)
from featscope.language.propagation import KeepHidden, ReadAgain, WholePrompt
from featscope.language.selectors import AttentionWindow, Draft, FilterLayer

__all__ = [
    "H2O",
    "AdaKV",
    "AllQueries",
    "AttentionWindow",
    "Cost",
    "Draft",
    "FastKV",
    "FilterLayer",
    "Full",
    "FullCache",
    "GemFilter",
    "GemFilterOneRun",
    "HeadBudgets",
    "KeepHidden",
    "LastQueries",
    "LayerBudgets",
    "LayerChoice",
    "Method",
    "Prefill",
    "Press",
    "PromptDistill",
    "ReadAgain",
    "Selected",
    "SnapKV",
    "SpeculativePrefill",
    "WholePrompt",
    "choose_layer",
    "load_model",
]
