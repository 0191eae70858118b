"""The largest of four neighbours, which torch looks for one by one, place in memory and all."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from featscope.kernels.loops import Array, Code, Number, Whole, function
from featscope.kernels.machine import floats


def largest(
    x: Float[Tensor, "image channel height width"],
) -> Float[Tensor, "image channel half_height half_width"]:
    """The largest number in each square of two by two, NaN where one is; to the bit `torch.nn.MaxPool2d`.

    Gradients go to the first of equals, as there. For contiguous tensors of float32 on the processor.
    """
    return _Largest.apply(x)


class _Largest(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        images, channels, height, width = x.shape
        out = floats(images, channels, height // 2, width // 2)
        function(_pooled)(x.data_ptr(), out.data_ptr(), images * channels, height, width)
        ctx.save_for_backward(x)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, pull: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        images, channels, height, width = x.shape
        even = height % 2 == width % 2 == 0  # else some are in no square
        slope, pull = torch.empty_like(x) if even else torch.zeros_like(x), pull.contiguous()
        function(_pulled)(x.data_ptr(), pull.data_ptr(), slope.data_ptr(), images * channels, height, width)
        return slope


def _pooled(code: Code, x: Array, out: Array, planes: Whole, height: Whole, width: Whole) -> None:
    rows, columns = height // 2, width // 2
    with code.loop(planes) as plane, code.loop(rows) as row:
        above = x + (plane * height + row * 2) * width
        there = out + (plane * rows + row) * columns
        with code.loop(columns) as column:
            at = column * 2
            first = above[at]
            for other in (above[at + 1], above[at + width], above[at + width + 1]):
                first = code.either(_beats(code, other, first), other, first)
            there[column] = first


def _pulled(code: Code, x: Array, pull: Array, slope: Array, planes: Whole, height: Whole, width: Whole) -> None:
    rows, columns = height // 2, width // 2
    with code.loop(planes) as plane, code.loop(rows) as row:
        start = (plane * height + row * 2) * width
        above, below, pulls = x + start, slope + start, pull + (plane * rows + row) * columns
        with code.loop(columns) as column:
            at = column * 2
            places = at, at + 1, at + width, at + width + 1
            first, won = above[at], []
            for place in places[1:]:
                won.append(_beats(code, above[place], first))
                first = code.either(won[-1], above[place], first)
            left = pulls[column]
            for place, test in zip(places[:0:-1], won[::-1], strict=True):  # who won last, won
                below[place] = code.either(test, left, 0.0)
                left = code.either(test, 0.0, left)
            below[at] = left


def _beats(code: Code, other: Number, first: Number) -> str:
    """Whether it is larger, or NaN."""
    return code.new(f"or i1 {other > first}, {code.new(f'fcmp uno float {other.name}, {other.name}')}")
