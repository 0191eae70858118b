"""Polynomials of few directions: what the first gradient knows of them, and what it is good for."""

from featscope.studies.multi_index.study import MultiIndexStudy

__all__ = ["MultiIndexStudy"]
