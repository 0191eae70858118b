"""Small sets of images of several domains that need no files: shapes in four styles, and coloured digits."""

from collections.abc import Callable, Mapping
from functools import lru_cache

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from featscope.data.domain_images import DomainImages, of_pixels
from featscope.data.shapes import SHAPES, draw_shapes
from featscope.streams import Streams

_EACH = 120  # made-up images of a domain
_STYLES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "colour": lambda x: x,
    "grey": lambda x: x.mean(1, keepdim=True).expand_as(x),
    "negative": lambda x: 255 - x,
    "dim": lambda x: x / 3,
}
COLOURED: Mapping[str, tuple[float, float, float]] = {
    "coloured-digits": (0.7, 0.7, 0.3),
    "coloured-digits-strong": (0.9, 0.7, 0.1),
}
"""How often colour and label agree in each domain. In the first colour says no more than shape does, in the second it
says more in one of the domains."""
_SHAPE_AGREES = 0.75  # labels agree with what the digit is


@lru_cache(maxsize=1)
def made_up_domains() -> DomainImages:
    """480 images of eight shapes in four styles; the same at every call."""
    parts, labels = [], []
    for name, style in _STYLES.items():
        pixels, shapes, _ = draw_shapes(_EACH, Streams(0, [0]).at(f"made-up domain {name}"))
        parts.append(style(pixels.float()).round().to(torch.uint8))
        labels.append(shapes)
    domains = torch.arange(len(_STYLES)).repeat_interleave(_EACH)
    return of_pixels(torch.cat(parts), torch.cat(labels), domains, SHAPES, tuple(_STYLES))


@lru_cache(maxsize=2)
def coloured_digits(name: str) -> DomainImages:
    """Red and green digits below 5 and from 5 on, from scikit-learn's 1797 of 8 x 8 pixels; ``name`` is of `COLOURED`.

    As in ColoredMNIST (Arjovsky et al. 2019) a quarter of the labels are wrong, and colour agrees with the label as
    often as the domain says.
    """
    from sklearn.datasets import load_digits

    found = load_digits()
    draws = Streams(0, [0]).at(name)
    order = draws.choice(len(found.target), len(found.target))[0]
    grey: Float[Tensor, "image 8 8"] = torch.from_numpy(found.images).float()[order] / 16
    above = torch.from_numpy(found.target)[order] >= 5
    domains = torch.arange(len(order)) * 3 // len(order)
    labels = above ^ (draws.uniform(len(order))[0] >= _SHAPE_AGREES)
    agree = draws.uniform(len(order))[0] < torch.tensor(COLOURED[name])[domains]
    red = labels ^ ~agree
    pixels: UInt8[Tensor, "image 3 8 8"] = torch.zeros(len(order), 3, 8, 8, dtype=torch.uint8)
    shown = (255 * grey).round().to(torch.uint8)
    pixels[red, 0], pixels[~red, 1] = shown[red], shown[~red]
    names = tuple(f"{letter} ({share:g})" for letter, share in zip("ABC", COLOURED[name], strict=True))
    return of_pixels(pixels, labels.long(), domains, ("below 5", "5 or more"), names)
