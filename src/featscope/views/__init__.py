"""From one sample to a positive pair."""

from featscope.views.image_augmentation import Crop, CropColor
from featscope.views.patch_split import patch_split
from featscope.views.random_mask import RandomMask
from featscope.views.same_sample import SameSample
from featscope.views.view import View

__all__ = ["Crop", "CropColor", "RandomMask", "SameSample", "View", "patch_split"]
