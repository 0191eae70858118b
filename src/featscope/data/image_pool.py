"""All images of a split by index, whatever the source, for studies that take several selections of them."""

from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featscope.data.encoded_images import require_same_names, require_trained_on
from featscope.data.images import ImageSet, as_float, drawn
from featscope.data.shapes import SHAPES
from featscope.data.splits import open_split
from featscope.streams import Streams

MADE_UP = "shapes"
"""The source of procedural images."""
_DRAWN = {"train": 4000, "test": 1000}


class ImagePool:
    """Images that are decoded when they are asked for.

    Args:
        source: "shapes" for procedural images, the same ones always; "digits" for scikit-learn's; a folder; or a data
            set of the Hub.
        split: "train" or "test".
        side: pixels that images are brought to; 0 for images as they are.

    Attributes:
        labels: class of each.
        classes: how many classes there are.

    Raises:
        ConfigError: the images cannot be had, or a class has another name in "train", or is not in it.
        MissingExtraError: the extra 'images' is not installed.
    """

    labels: Int[Tensor, " image"]

    def __init__(self, source: str, split: str, side: int = 0) -> None:
        self._made: Tensor | None = None
        if source == MADE_UP:
            made = _shapes(split, side)
            self._made, self.labels, self.classes = made.pixels, made.labels, len(SHAPES)
        else:
            trained_on, self._split = (open_split(source, name, side) for name in ("train", split))
            require_trained_on(source, trained_on.labels, self._split.labels)
            require_same_names(source, {"train": trained_on.class_names, split: self._split.class_names})
            self.labels, self.classes = self._split.labels, len(self._split.class_names)

    def pixels(
        self, index: Int[Tensor, "replica image"], grey: bool = False
    ) -> Float[Tensor, "replica image channel height width"]:
        """Pixels in [0, 1] of the images at ``index``; one channel if ``grey``."""
        flat = index.flatten()
        found = as_float(self._made[flat] if self._made is not None else self._split.pixels(flat))
        found = found.mean(1, keepdim=True) if grey else found
        return found.unflatten(0, tuple(index.shape))


@lru_cache(maxsize=4)
def _shapes(split: str, side: int) -> ImageSet:
    """Drawn once: they are the same for all arms."""
    return drawn(_DRAWN[split], side, Streams(0, [0]).at(f"shapes, {split}"))


def level(
    images: Float[Tensor, "replica image channel height width"],
) -> tuple[Float[Tensor, "replica 1 1 1 1"], Float[Tensor, "replica 1 1 1 1"]]:
    """Mean and standard deviation over all pixels of a replica."""
    axes = (1, 2, 3, 4)
    return images.mean(axes, keepdim=True), torch.std(images, axes, keepdim=True)
