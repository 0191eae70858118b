"""One layer of attention that adds numbers modulo p: are its attention matrices cosines?"""

from featscope.studies.attention_circuits.study import AttentionCircuits

__all__ = ["AttentionCircuits"]
