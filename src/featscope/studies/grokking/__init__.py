"""Adding two to five numbers modulo p by a small transformer: when it learns by heart first, and the rule later."""

from featscope.studies.grokking.study import Grokking

__all__ = ["Grokking"]
