"""Images of several domains, and as much of an encoder's work on them as is done once."""

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from featscope.data.digit_domains import DIGITS, digit_domains
from featscope.data.domain_images import DomainImages, open_domains
from featscope.data.file_stamps import stamp
from featscope.data.made_up_domains import made_up_domains
from featscope.encoders import EfficientNetLite0, HubEncoder, cached_features
from featscope.studies.domain_generalisation.adapter import Adapters
from featscope.studies.domain_generalisation.networks import Inputs, Networks
from featscope.studies.domain_generalisation.tuned import OfViews, Tuned

Trained = Literal["adapter", "head", "whole"]
EFFICIENTNET, PIXELS = "efficientnet-lite0", "pixels"
MADE_UP = "made-up"
_SIDE = 8  # height and width that "pixels" leaves


@dataclass(frozen=True)
class Decoded:
    """Images that are decoded whenever they are asked for.

    Attributes:
        images: where they are.
        device: where they go.
    """

    images: DomainImages
    device: torch.device

    def __getitem__(self, index: Int[Tensor, " chosen"]) -> UInt8[Tensor, "chosen 3 height width"]:
        """The images at ``index``."""
        pixels: Tensor = self.images.pixels(index).to(self.device)
        return pixels


class Domains(NamedTuple):
    """What is known of each image.

    Attributes:
        inputs: frozen features, with a mean square of 1; maps; or pixels.
        labels: its class; where inputs are.
        domains: its domain; on the CPU, as all indices are.
        class_names, domain_names: their names.
    """

    inputs: Inputs
    labels: Int[Tensor, " image"]
    domains: Int[Tensor, " image"]
    class_names: tuple[str, ...]
    domain_names: tuple[str, ...]


class Task(NamedTuple):
    """What is known of images, and what is trained on them."""

    domains: Domains
    networks: Networks


def images_of(data: str, digits: str, side: int = 0) -> DomainImages:
    """The images, not decoded.

    Args:
        data: "made-up", one of `DIGITS`, or a folder.
        digits: which, if they are; see `digit_domains`.
        side: what images of a folder are brought to, in pixels; 0 leaves them, and they must be of one size.

    Raises:
        ConfigError: ``data`` or ``digits`` cannot be read.
        MissingExtraError: what reads it is not installed.
    """
    if data == MADE_UP:
        return made_up_domains()
    return digit_domains(data, digits) if data in DIGITS else open_domains(data, side)


def domains_of(data: str, digits: str, encoder: str, trained: Trained, units: int, device: str) -> Task:
    """Images of `images_of`, and the networks that are trained on them.

    What an encoder's frozen part makes of them is computed once, then read from the cache. A folder that has changed is
    read again.

    Args:
        data, digits: see `images_of`.
        encoder: "efficientnet-lite0", "pixels" for 8 x 8 of them, a model of the Hub or its folder.
        trained: "adapter", a small network on features; "head", the last convolution of "efficientnet-lite0"; "whole",
            all of the encoder.
        units: of the small network.
        device: where inputs are.

    Raises:
        ConfigError: ``data``, ``digits`` or ``encoder`` cannot be read.
        MissingExtraError: what reads them, or the encoder, is not installed.
    """
    folders = [Path(os.path.expanduser(name)) for name in (data, digits, encoder)]
    state = "".join(stamp(folder, folder.rglob("*")) for folder in folders)
    return _read(data, digits, encoder, trained, units, device, state)


@lru_cache(maxsize=2)
def _read(data: str, digits: str, encoder: str, trained: Trained, units: int, device: str, _state: str) -> Task:
    if encoder == PIXELS:
        images = images_of(data, digits, _SIDE)
        pixels = images.pixels(torch.arange(len(images)))
        features = adaptive_avg_pool2d(pixels.float(), _SIDE).flatten(1)
        return _on_features(images, features, units, device)
    if trained == "head":
        before, last = EfficientNetLite0().load_in_two()
        images = images_of(data, digits, before.side)
        maps = cached_features(before, images).to(device)
        return Task(_domains(images, maps, device), Tuned(last.to(device), EfficientNetLite0.features, False, 1_000))
    loaded = EfficientNetLite0().load() if encoder == EFFICIENTNET else HubEncoder(encoder).load()
    images = images_of(data, digits, loaded.side)
    if trained == "whole":
        decoded = Decoded(images, torch.device(device))
        return Task(_domains(images, decoded, device), Tuned(OfViews(loaded).to(device), loaded.features, True, 1))
    return _on_features(images, cached_features(loaded, images), units, device)


def _on_features(images: DomainImages, features: Float[Tensor, "image feature"], units: int, device: str) -> Task:
    scaled = (features / features.square().mean().sqrt()).to(device)
    return Task(_domains(images, scaled, device), Adapters(features.shape[1], units))


def _domains(images: DomainImages, inputs: Inputs, device: str) -> Domains:
    return Domains(inputs, images.labels.to(device), images.domains, images.class_names, images.domain_names)
