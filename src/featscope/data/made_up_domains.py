"""A small set of images of several domains that needs no files: shapes in four styles."""

from collections.abc import Callable, Mapping
from functools import lru_cache

import torch
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
