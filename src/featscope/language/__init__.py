"""Token selection in the prompts of Hugging Face models, and what can be seen of it. Needs the extra 'language'."""

from featscope.options import require_extra

with require_extra("featscope.language", "language"):
    import transformers as _transformers  # noqa: F401

from featscope.language.eviction import H2O, GemFilterOneRun, SnapKV
from featscope.language.gemfilter import GemFilter
from featscope.language.layers import LayerChoice, choose_layer
from featscope.language.load import load_model
from featscope.language.method import FullCache, Method

__all__ = [
    "H2O",
    "FullCache",
    "GemFilter",
    "GemFilterOneRun",
    "LayerChoice",
    "Method",
    "SnapKV",
    "choose_layer",
    "load_model",
]
