"""How much a label attends to its own sentence and to an irrelevant one beside it."""

from featscope.studies.icl_attention.study import IclAttention

__all__ = ["IclAttention"]
