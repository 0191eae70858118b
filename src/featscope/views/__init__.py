"""From one sample to a positive pair."""

from featscope.views.random_mask import RandomMask
from featscope.views.same_sample import SameSample

__all__ = ["RandomMask", "SameSample"]
