"""An encoder whose weights stay as they came."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from hashlib import blake2b
from numbers import Number

import torch
from jaxtyping import Float, Real, UInt8
from torch import Tensor, nn
from torch.nn.functional import interpolate

AT_ONCE = 16
"""Images in one pass. Feature maps of more do not fit in a core's cache: at 256 a core does half as many a second."""

_SAYS_NOTHING = {*vars(nn.Module()), "name_or_path"}
"""Attributes that do not tell what a network computes: those of any module, and where a model of the Hub lay."""


class FrozenEncoder(nn.Module):
    """Maps bytes of pixels to features. It is in evaluation mode for good, and no weight has a gradient.

    What is in training mode normalises with the statistics of the batch, and moves those that it came with.

    Args:
        body: maps scaled images to feature maps; features are their means over the image.
        features: channels of the feature maps.
        side: height and width that images are brought to first, in pixels.
        shift: what is taken from a pixel x in 0 to 255, which enters as (x - shift) / scale; one number, or one for
            each of the three channels.
        scale: the other one of these.
        about: what features depend on besides, such as the config of ``body``, or a version of the code of its classes:
            `fingerprint` sees their names alone.
    """

    def __init__(
        self,
        body: nn.Module,
        features: int,
        side: int,
        shift: float | Sequence[float],
        scale: float | Sequence[float],
        about: str = "",
    ) -> None:
        super().__init__()
        self.body, self.features, self.side, self.shift, self.scale = body, features, side, shift, scale
        self.about = about
        self.requires_grad_(False)
        self.eval()

    def train(self, mode: bool = True) -> "FrozenEncoder":
        """Evaluation mode, whatever is asked for."""
        return super().train(False)

    def forward(self, pixels: Real[Tensor, "image 3 height width"]) -> Float[Tensor, "image feature"]:
        """The features of images, of bytes or the same numbers in another type.

        Raises:
            ValueError: pixels that are no bytes are from 0 to 1, or negative or above 255 among others.
        """
        if pixels.dtype != torch.uint8 and pixels.numel():
            low, high = (float(end) for end in pixels.detach().float().aminmax())
            if low < -0.5 or 0 < high <= 1 or high > 255.5:
                raise ValueError(
                    f"pixels are from {low:.3g} to {high:.3g}: allowed are bytes, 0 to 255. Take (255 * x).byte() of "
                    "what is from 0 to 1, and (x // 257).byte() of 16 bits."
                )
        return self.of_numbers(pixels)

    def of_numbers(self, pixels: Real[Tensor, "image 3 height width"]) -> Float[Tensor, "image feature"]:
        """The same without a look at what pixels are: views may be nearly black."""
        x = pixels.float()
        if x.shape[-2:] != (self.side, self.side):
            x = interpolate(x, (self.side, self.side), mode="bilinear", antialias=True)
        return self.body((x - _of_channels(self.shift, x)) / _of_channels(self.scale, x)).mean((-2, -1))

    def fingerprint(self) -> bytes:
        """A hash of all that features depend on besides the pixels, but for the code of classes and functions.

        Tensors by name, modules by place with their classes and options, how pixels enter, `about`.
        """
        said = [f"{self.features} {self.side} {self.shift!r} {self.scale!r}{self.about}"]
        tensors = dict(self.named_buffers()) | self.state_dict()  # some buffers are in no state
        for place, module in self.named_modules(remove_duplicate=False):
            said.append(f"{place} {_called(type(module))} {module.extra_repr()}")
            for name, value in sorted(vars(module).items()):
                if isinstance(value, Tensor):
                    tensors[f"{place}.{name}"] = value
                elif name not in _SAYS_NOTHING:
                    said.append(f"{name} {_said(value)}")
        return hash_of_weights(tensors, "\0".join(said))


def _said(option: object) -> str:
    """An option of a module, the same in every process: of an object of any other kind its class alone."""
    if option is None or isinstance(option, Number | str | bytes | Enum | torch.dtype):
        return repr(option)
    if isinstance(option, Mapping):
        return _said(option.items())
    if isinstance(option, Set):
        return f"{{{' '.join(sorted(map(_said, option)))}}}"
    if isinstance(option, Sequence):
        return f"[{' '.join(map(_said, option))}]"
    if isinstance(option, partial):
        return _said((option.func, option.args, option.keywords))
    if is_dataclass(option) and not isinstance(option, type):
        return f"{_called(type(option))} {_said({each.name: getattr(option, each.name) for each in fields(option)})}"
    return _called(option if hasattr(option, "__qualname__") else type(option))


def _called(kind: object) -> str:
    """The full name of a class or function."""
    return f"{getattr(kind, '__module__', None)}.{getattr(kind, '__qualname__', None)}"


def hash_of_weights(weights: Mapping[str, Tensor], entry: str = "") -> bytes:
    """A hash of weights, by name, type, shape and value, and of ``entry``."""
    state = blake2b(entry.encode(), digest_size=32)
    for name, value in sorted(weights.items()):
        state.update(f"\0{name}\0{value.dtype}\0{tuple(value.shape)}\0".encode())
        state.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return state.digest()


def _of_channels(value: float | Sequence[float], x: Tensor) -> float | Tensor:
    """One number, or one for each channel of ``x``."""
    return value if isinstance(value, int | float) else x.new_tensor(value)[:, None, None]


@torch.no_grad()
def embedded(
    encoder: FrozenEncoder, pixels: UInt8[Tensor, "image 3 height width"], at_once: int = AT_ONCE
) -> Float[Tensor, "image feature"]:
    """Features of images, ``at_once`` of them in one pass."""
    return torch.cat([encoder(part) for part in pixels.split(at_once)])
