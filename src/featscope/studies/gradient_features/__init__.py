"""Features are where the first gradients of random neurons point."""

from featscope.studies.gradient_features.study import GradientFeatures

__all__ = ["GradientFeatures"]
