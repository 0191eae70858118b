"""Frozen features of images of several domains."""

from functools import lru_cache
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from featscope.data.digit_domains import DIGITS, digit_domains
from featscope.data.domain_images import DomainImages, open_domains
from featscope.data.made_up_domains import made_up_domains
from featscope.encoders import EfficientNetLite0, cached_features

EncoderName = Literal["efficientnet-lite0", "pixels"]
MADE_UP = "made-up"
_PIXELS = 8  # height and width that "pixels" leaves


class Domains(NamedTuple):
    """What is known of each image.

    Attributes:
        features: of each image, with a mean square of 1.
        labels: its class.
        domains: its domain.
        class_names, domain_names: their names.
    """

    features: Float[Tensor, "image feature"]
    labels: Int[Tensor, " image"]
    domains: Int[Tensor, " image"]
    class_names: tuple[str, ...]
    domain_names: tuple[str, ...]


def images_of(data: str, digits: str) -> DomainImages:
    """The images, not decoded.

    Args:
        data: "made-up", one of `DIGITS`, or a folder.
        digits: which, if they are; see `digit_domains`.

    Raises:
        ConfigError: ``data`` or ``digits`` cannot be read.
        MissingExtraError: what reads it is not installed.
    """
    if data == MADE_UP:
        return made_up_domains()
    return digit_domains(data, digits) if data in DIGITS else open_domains(data)


@lru_cache(maxsize=1)
def features_of_domains(data: str, digits: str, encoder: EncoderName) -> Domains:
    """Features of all images of `images_of`: computed once, then read from the cache.

    Raises:
        ConfigError: ``data`` or ``digits`` cannot be read.
        MissingExtraError: what reads them, or the encoder, is not installed.
    """
    images = images_of(data, digits)
    if encoder == "pixels":
        pixels = images.pixels(torch.arange(len(images)))
        features = adaptive_avg_pool2d(pixels.float(), _PIXELS).flatten(1)
    else:
        features = cached_features(EfficientNetLite0().load(), images)
    features = features / features.square().mean().sqrt()
    return Domains(features, images.labels, images.domains, images.class_names, images.domain_names)
