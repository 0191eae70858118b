"""A transformer that solves least squares in its prompt, loop by loop."""

from featscope.studies.looped_transformer.study import LoopedTransformer

__all__ = ["LoopedTransformer"]
