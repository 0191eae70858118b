"""Domain generalisation by a nuclear norm on features: the plane and the linear theory."""

from featscope.studies.nuclear_norm.study import NuclearNormStudy

__all__ = ["NuclearNormStudy"]
