"""Encoders that were trained elsewhere, and what they make of images, kept on disk."""

from featscope.encoders.cache import Pictures, cached_features, default_folder
from featscope.encoders.efficientnet import EfficientNetLite0
from featscope.encoders.frozen import FrozenEncoder, embedded

__all__ = [
    "EfficientNetLite0",
    "FrozenEncoder",
    "Pictures",
    "cached_features",
    "default_folder",
    "embedded",
]
