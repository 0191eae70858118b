"""Colour-and-shape images: the class is the shape, the colour is a nuisance, and both are known.

A stand-in for photographs where none are at hand, and a truth to compare with: augmentation that distorts
colour should remove the colour from what a network represents, and keep the shape.
"""

from collections.abc import Callable
from math import pi

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from featscope.options import ConfigError
from featscope.streams import Draws

SIZE = 32
"""Height and width of the images, in pixels."""

# Each shape is a signed distance-like function of the coordinates in its own frame, where its radius is about
# 1: negative inside, positive outside.
_SHAPES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "disc": lambda u, v: torch.hypot(u, v) - 0.9,
    "ring": lambda u, v: (torch.hypot(u, v) - 0.7).abs() - 0.25,
    "square": lambda u, v: torch.maximum(u.abs(), v.abs()) - 0.8,
    "frame": lambda u, v: (torch.maximum(u.abs(), v.abs()) - 0.65).abs() - 0.22,
    "triangle": lambda u, v: torch.maximum(v - 0.55, 0.87 * u.abs() - 0.5 * v - 0.55),
    "cross": lambda u, v: torch.minimum(
        torch.maximum(u.abs() - 0.27, v.abs() - 0.95), torch.maximum(u.abs() - 0.95, v.abs() - 0.27)
    ),
    "bar": lambda u, v: torch.maximum(u.abs() - 1.0, v.abs() - 0.3),
    "half-disc": lambda u, v: torch.maximum(torch.hypot(u, v) - 0.95, -v),
}

SHAPES = tuple(_SHAPES)
"""Names of the classes."""

COLOURS = ("red", "orange", "green", "cyan", "blue", "magenta")
"""Names of the nuisance colours."""

_PALETTE = torch.tensor(
    [
        [0.85, 0.15, 0.15],
        [0.95, 0.6, 0.1],
        [0.2, 0.7, 0.2],
        [0.15, 0.75, 0.8],
        [0.2, 0.3, 0.85],
        [0.8, 0.2, 0.75],
    ]
)
_SHARPNESS = 12.0  # of a shape's edge: it fades over about a tenth of its radius, one pixel


def draw_shapes(
    count: int, draws: Draws, labels: Int[Tensor, " count"] | None = None
) -> tuple[UInt8[Tensor, "count channel height width"], Int[Tensor, " count"], Int[Tensor, " count"]]:
    """``count`` images, one shape in each, for the one replica of ``draws``.

    Shape, colour, place, size (radius 8 to 12 pixels) and angle are independent. The background is a random
    colour that shades into another across the image. Pixel noise has a standard deviation of 0.03.

    Args:
        count: how many.
        draws: random numbers.
        labels: the shape of each image; at random if None.

    Returns:
        the images, the class of each (an index into `SHAPES`), its colour (an index into `COLOURS`).

    Raises:
        ConfigError: labels are not one for each image, or one is no index into `SHAPES`.
    """
    if labels is not None and (labels.shape != (count,) or not ((labels >= 0) & (labels < len(SHAPES))).all()):
        raise ConfigError(
            f"labels have shape {list(labels.shape)} and values {labels.unique().tolist()}: allowed are [{count}], one "
            f"for each image, and 0 to {len(SHAPES) - 1}."
        )
    u = draws.uniform(count, 14)[0]
    if labels is None:
        labels = (u[:, 0] * len(SHAPES)).long()
    colours = (u[:, 1] * len(COLOURS)).long()
    mask = _masks(labels, centre=0.35 * (2 * u[:, 2:4] - 1), radius=0.5 + 0.25 * u[:, 4], angle=2 * pi * u[:, 5])
    palette = _PALETTE.to(draws.device)
    foreground = palette[colours] + 0.15 * (2 * u[:, 6:9] - 1)
    first, second = palette[(u[:, 9] * len(COLOURS)).long()], palette[(u[:, 10] * len(COLOURS)).long()]
    background = _shading(first, second, angle=2 * pi * u[:, 11]) * (0.4 + 0.4 * u[:, 12, None, None, None])
    images = mask[:, None] * foreground[:, :, None, None] + (1 - mask[:, None]) * background
    noisy = images + 0.03 * draws.normal(count, 3, SIZE, SIZE)[0]
    return (noisy.clamp(0, 1) * 255).round().to(torch.uint8), labels, colours


def _grid(device: torch.device) -> tuple[Float[Tensor, "height width"], Float[Tensor, "height width"]]:
    axis = (torch.arange(SIZE, device=device) + 0.5) / SIZE * 2 - 1
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    return x, y


def _masks(
    labels: Int[Tensor, " count"],
    centre: Float[Tensor, "count 2"],
    radius: Float[Tensor, " count"],
    angle: Float[Tensor, " count"],
) -> Float[Tensor, "count height width"]:
    x, y = _grid(labels.device)
    x, y = x - centre[:, 0, None, None], y - centre[:, 1, None, None]
    cos, sin, scale = (t[:, None, None] for t in (angle.cos(), angle.sin(), radius))
    u, v = (cos * x + sin * y) / scale, (cos * y - sin * x) / scale
    mask = torch.empty_like(u)
    for index, distance in enumerate(_SHAPES.values()):
        chosen = labels == index
        mask[chosen] = torch.sigmoid(-_SHARPNESS * distance(u[chosen], v[chosen]))
    return mask


def _shading(
    first: Float[Tensor, "count 3"], second: Float[Tensor, "count 3"], angle: Float[Tensor, " count"]
) -> Float[Tensor, "count 3 height width"]:
    x, y = _grid(first.device)
    along = angle.cos()[:, None, None] * x + angle.sin()[:, None, None] * y
    weight = torch.sigmoid(2 * along)[:, None]
    return weight * first[:, :, None, None] + (1 - weight) * second[:, :, None, None]
