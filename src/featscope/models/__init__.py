"""Learners, encoders, projection and prediction heads."""

from featscope.models.symmetric_relu import SymmetricReLU, SymmetricReLUNetwork, soft_threshold

__all__ = ["SymmetricReLU", "SymmetricReLUNetwork", "soft_threshold"]
