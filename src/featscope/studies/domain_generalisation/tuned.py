"""Encoders whose own weights are trained, and a linear head on what they make of images."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Real
from torch import Tensor, nn
from torch.func import functional_call

from featscope.encoders import FrozenEncoder
from featscope.streams import Draws, Streams
from featscope.studies.domain_generalisation.networks import Weights
from featscope.views.image_augmentation import Crop, CropColor

AUGMENTATION = CropColor(Crop(0.7), strength=0.375, jitter=1.0, grayscale=0.1)
"""DomainBed's: crops of 0.7 and more of the image, flips, colours by up to 0.3 (hue by less: 0.075 of a turn)."""


class OfViews(nn.Module):
    """An encoder of images in views, whose pixels are numbers from 0 to 255.

    Args:
        encoder: whose weights are trained.
    """

    def __init__(self, encoder: FrozenEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, pixels: Real[Tensor, "image 3 height width"]) -> Float[Tensor, "image feature"]:
        """The features of images."""
        return self.encoder.of_numbers(pixels)


@dataclass(frozen=True)
class Tuned:
    """A network that is fine-tuned, and a linear head. Its normalisation stays as it came, as in DomainBed.

    Attributes:
        network: maps inputs to features Φ; in evaluation mode.
        features: how many.
        augments: whether inputs are images, which are trained on in random views.
        together: networks that are trained at a time.
    """

    network: nn.Module
    features: int
    augments: bool
    together: int

    at_once = 128

    def start(self, penalties: int, classes: int, streams: Streams, target: int) -> Weights:
        """Weights as they came, a head that says little."""
        head = streams.at("adapter", target).normal(classes, self.features)[0] * (1 / self.features) ** 0.5
        came = [value.detach().to(head.device) for _, value in self.network.named_parameters()]
        parts = *came, head, head.new_zeros(classes)
        return [part.expand(penalties, *part.shape).clone().requires_grad_() for part in parts]

    def view(self, x: Tensor, draws: Draws) -> Tensor:
        """Images in random views, from 0 to 255; maps as they are."""
        return 255 * AUGMENTATION.augment(x[None].float() / 255, draws)[0] if self.augments else x

    def outputs(
        self, weights: Weights, x: Tensor
    ) -> tuple[Float[Tensor, "penalty sample unit"], Float[Tensor, "penalty sample class"]]:
        """Features Φ and logits, of one network after the other."""
        *trained, head, bias = weights
        names = [name for name, _ in self.network.named_parameters()]
        each = [dict(zip(names, parts, strict=True)) for parts in zip(*trained, strict=True)]
        phi = torch.stack([functional_call(self.network, parts, (x,)) for parts in each])
        return phi, phi @ head.mT + bias[:, None]
