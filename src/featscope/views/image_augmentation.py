"""Augmentations of images, for whole batches: crop-resize, and crop-resize with colour distortion."""

from dataclasses import dataclass, field
from math import log

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from featscope.numbers import as_written, wide
from featscope.options import MissingExtraError, require
from featscope.streams import Draws

Pixels = Float[Tensor, "replica batch channel height width"]
_OVERSHOT = 0.45  # by which torch's bicubic resizing may leave the range of pixels


@dataclass(frozen=True)
class Crop:
    """Crop-resize with horizontal flips, each view on its own.

    A window of random area, aspect ratio and place is stretched to the size of the image (bilinear), and
    mirrored with probability 1/2.

    Attributes:
        smallest: the window's area is uniform between this fraction and 1 of the image's. SimCLR uses 0.08 on
            large images; 0.2 is usual at 32 x 32.
        stretch: the window's aspect ratio is log-uniform between 1/stretch and stretch. What lies outside the image
            then is cut off, so that windows nearly as large as the image come out smaller.
    """

    smallest: float = 0.2
    stretch: float = 4 / 3

    def __post_init__(self) -> None:
        require(self, "smallest", 0 < self.smallest <= 1, "> 0 and <= 1")
        require(self, "stretch", self.stretch >= 1, ">= 1")

    def __call__(self, x: Pixels, draws: Draws) -> tuple[Pixels, Pixels]:
        """Two independent views of each image."""
        return self.augment(x, draws), self.augment(x, draws)

    def augment(self, x: Pixels, draws: Draws) -> Pixels:
        """One view of each image.

        Raises:
            ValueError: images have not the replica axis of ``draws`` in front, or are whole numbers.
        """
        draws.require_axis(x)
        if not x.is_floating_point():
            raise ValueError(f"images are {x.dtype}: allowed are floating-point numbers. Divide bytes by 255.")
        replicas, batch = x.shape[:2]
        area, aspect, across, down, mirror = draws.uniform(5, batch).unbind(1)
        side = (self.smallest + (1 - self.smallest) * area).sqrt()
        half_stretch = torch.exp(0.5 * log(self.stretch) * (2 * aspect - 1))
        width, height = (side * half_stretch).clamp_max(1), (side / half_stretch).clamp_max(1)
        # In the units of affine_grid the image spans [-1, 1], so a window of width w has its centre in ±(1 -
        # w).
        theta = wide(x.new_zeros(replicas, batch, 2, 3))
        theta[..., 0, 0] = torch.where(mirror < 0.5, -width, width)
        theta[..., 0, 2] = (2 * across - 1) * (1 - width)
        theta[..., 1, 1] = height
        theta[..., 1, 2] = (2 * down - 1) * (1 - height)
        images = wide(x.flatten(0, 1))
        with as_written(x.device):  # places in half precision are half a pixel off
            grid = affine_grid(theta.flatten(0, 1), list(images.shape), align_corners=False)
            # The outermost half pixel of a window at the border has no neighbour: repeat the edge instead of
            # black.
            cut = grid_sample(images, grid, padding_mode="border", align_corners=False)
        return cut.to(x.dtype).unflatten(0, (replicas, batch))


@dataclass(frozen=True)
class CropColor:
    """Crop-resize with flips, then colour jitter and random grayscale (Wen & Li 2021, Figure 2).

    The paper gives no strengths; these are SimCLR's for CIFAR-10. Brightness, contrast, saturation and hue
    are jittered in this order, where SimCLR shuffles the order. Pixels are from 0 to 1: colours beyond are cut off.

    Attributes:
        crop: the crop.
        strength: s; brightness, contrast and saturation change by factors in 1 ± 0.8 s, hue by up to 0.2 s of
            a turn.
        jitter: probability that a view's colours are jittered.
        grayscale: probability that a view loses its colours.
    """

    crop: Crop = field(default_factory=Crop)
    strength: float = 0.5
    jitter: float = 0.8
    grayscale: float = 0.2

    def __post_init__(self) -> None:
        require(self, "strength", 0 <= self.strength <= 1, "between 0 and 1")
        require(self, "jitter", 0 <= self.jitter <= 1, "between 0 and 1")
        require(self, "grayscale", 0 <= self.grayscale <= 1, "between 0 and 1")

    def __call__(self, x: Pixels, draws: Draws) -> tuple[Pixels, Pixels]:
        """Two independent views of each image."""
        self._require_range(x)
        return self._augmented(x, draws), self._augmented(x, draws)

    def augment(self, x: Pixels, draws: Draws) -> Pixels:
        """One view of each image.

        Raises:
            ValueError: colours are jittered, and pixels are not from 0 to 1, but for what resizing may overshoot.
            MissingExtraError: the extra 'images' is not installed.
        """
        self._require_range(x)
        return self._augmented(x, draws)

    def _require_range(self, x: Pixels) -> None:
        """Refuse pixels that the jitter would cut off."""
        if not x.numel() or self.jitter == 0:
            return
        low, high = torch.stack(tuple(x.detach().aminmax())).tolist()  # both at once: a GPU is waited for
        if low < -_OVERSHOT or high > 1 + _OVERSHOT:
            raise ValueError(
                f"pixels are from {low:.3g} to {high:.3g}: allowed is from 0 to 1, as colours beyond are cut off. "
                "Divide bytes by 255, and normalise after the view."
            )

    def _augmented(self, x: Pixels, draws: Draws) -> Pixels:
        """One view of each image, whatever its range is."""
        try:
            from kornia import color, enhance
        except ImportError:
            raise MissingExtraError("Colour distortion", "images") from None
        cropped = self.crop.augment(x, draws)
        images = cropped.flatten(0, 1)
        u = draws.uniform(6, x.shape[1]).transpose(0, 1).flatten(1)
        brightness, contrast, saturation = 1 + 0.8 * self.strength * (2 * u[:3] - 1)
        hue = 0.2 * self.strength * (2 * u[3] - 1)
        # kornia's functions take their parameters, one an image; its random classes would draw from torch's
        # global generator, which worker threads share.
        jittered = enhance.adjust_brightness_accumulative(images, brightness)
        jittered = enhance.adjust_contrast_with_mean_subtraction(jittered, contrast)
        jittered = enhance.adjust_saturation_with_gray_subtraction(jittered, saturation)
        jittered = enhance.adjust_hue(jittered, 2 * torch.pi * hue)
        coloured = torch.where((u[4] < self.jitter)[:, None, None, None], jittered, images)
        gray = color.rgb_to_grayscale(coloured).expand_as(coloured)
        return torch.where((u[5] < self.grayscale)[:, None, None, None], gray, coloured).view_as(cropped)
