"""Who chooses tokens of a prompt."""

from featscope.language.selectors.attention_window import AttentionWindow
from featscope.language.selectors.draft import Draft
from featscope.language.selectors.filter_layer import FilterLayer

__all__ = ["AttentionWindow", "Draft", "FilterLayer"]
