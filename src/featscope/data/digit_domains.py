"""Digits of several domains: coloured by a rule that turns, or rotated by angles."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from featscope.data.decoded_images import BUNDLED
from featscope.data.domain_images import DomainImages, of_pixels
from featscope.data.encoded_images import EncodedImages
from featscope.data.splits import open_split
from featscope.options import ConfigError
from featscope.streams import Streams

COLOURED: Mapping[str, tuple[float, float, float]] = {
    "coloured-digits": (0.7, 0.7, 0.3),
    "coloured-digits-strong": (0.9, 0.7, 0.1),
}
"""How often colour and label agree in each domain. In the first colour says no more than shape does, in the second it
says more in two of the domains, and in one of these the other way round."""
ROTATED = "rotated-digits"
ANGLES = (0, 15, 30, 45, 60, 75)
"""Degrees, counter-clockwise; those of RotatedMNIST (Ghifary et al. 2015)."""
DIGITS = (*COLOURED, ROTATED)
_SHAPE_AGREES = 0.75  # labels agree with what the digit is
_FEWEST = 100


def digit_domains(name: str, digits: str = BUNDLED) -> DomainImages:
    """Domains of ``name``, one of `DIGITS`, each of other digits.

    Args:
        name: "coloured-digits", "coloured-digits-strong" or "rotated-digits".
        digits: "digits" for the 1797 of 8 x 8 pixels that come with scikit-learn, or a folder with MNIST's files.

    Raises:
        ConfigError: ``digits`` cannot be read, holds other classes than ten, or fewer than 100 images.
    """
    return _drawn(name, digits, *(open_split(digits, split) for split in ("train", "test")))


@lru_cache(maxsize=2)
def _drawn(name: str, digits: str, *parts: EncodedImages) -> DomainImages:
    pixels, targets = _grey(digits, parts)
    draws = Streams(0, [0]).at(name)
    order = draws.choice(len(targets), len(targets))[0]
    grey, targets = pixels[order].float() / 255, targets[order]
    if name == ROTATED:
        return _rotated(grey, targets)
    domains = torch.arange(len(order)) * 3 // len(order)
    labels = (targets >= 5) ^ (draws.uniform(len(order))[0] >= _SHAPE_AGREES)
    agree = draws.uniform(len(order))[0] < torch.tensor(COLOURED[name])[domains]
    names = tuple(f"{letter} ({share:g})" for letter, share in zip("ABC", COLOURED[name], strict=True))
    return of_pixels(_coloured(grey, labels ^ ~agree), labels.long(), domains, ("below 5", "5 or more"), names)


def _grey(
    digits: str, parts: Sequence[EncodedImages]
) -> tuple[UInt8[Tensor, "image height width"], Int[Tensor, " image"]]:
    targets = torch.cat([part.labels for part in parts])
    if len(targets) < _FEWEST or set(targets.tolist()) != set(range(10)):
        found = f"{len(targets)} images of {len(targets.unique())} classes"
        raise ConfigError(
            f"digits = {digits[:200]!r} is out of range: allowed are 'digits' and folders with MNIST's "
            f"files. There are {found}."
        )
    pixels = torch.cat([part.pixels(torch.arange(len(part.labels))) for part in parts])
    return pixels.float().mean(1).round().to(torch.uint8), targets


def _coloured(
    grey: Float[Tensor, "image height width"], red: Bool[Tensor, " image"]
) -> UInt8[Tensor, "image 3 height width"]:
    """Red or green, as in ColoredMNIST (Arjovsky et al. 2019)."""
    pixels = torch.zeros(len(grey), 3, *grey.shape[1:], dtype=torch.uint8)
    shown = (255 * grey).round().to(torch.uint8)
    pixels[red, 0], pixels[~red, 1] = shown[red], shown[~red]
    return pixels


def _rotated(grey: Float[Tensor, "image height width"], targets: Int[Tensor, " image"]) -> DomainImages:
    domains = torch.arange(len(grey)) * len(ANGLES) // len(grey)
    angles = torch.deg2rad(torch.tensor(ANGLES, dtype=torch.float32))[domains]
    cos, sin = angles.cos(), angles.sin()
    still = torch.zeros_like(cos)
    turn = torch.stack([torch.stack([cos, -sin, still], -1), torch.stack([sin, cos, still], -1)], 1)
    where = affine_grid(turn, [len(grey), 1, *grey.shape[1:]], align_corners=False)
    turned = grid_sample(grey[:, None], where, align_corners=False).mul(255).round().to(torch.uint8)
    names = tuple(f"{angle}°" for angle in ANGLES)
    return of_pixels(turned.expand(-1, 3, -1, -1).contiguous(), targets, domains, tuple("0123456789"), names)
