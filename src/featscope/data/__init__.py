"""Distributions whose true features are known, and real data sets behind the same face."""

from featscope.data.sparse_coding import SparseCoding, SparseCodingSource, SparseSample

__all__ = ["SparseCoding", "SparseCodingSource", "SparseSample"]
