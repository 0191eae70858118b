"""Linear self-attention of every rank on linear regression in its prompt."""

from featscope.studies.icl_regression.study import IclRegression

__all__ = ["IclRegression"]
