"""Two views of what cubic neurons say of patches, in one pass over memory, and their gradient in another."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from featscope.kernels.loops import Array, Code, Whole, function
from featscope.kernels.machine import floats

_Sums = Float[Tensor, "replica batch neuron"]


def views(
    z: Float[Tensor, "replica neuron batch patch"], in_first: Float[Tensor, "replica batch patch"]
) -> tuple[_Sums, _Sums]:
    """Σ_p z³ over the patches in the first view, and over the others.

    For contiguous tensors of float32 on the processor.

    Args:
        z: products of weights and patches.
        in_first: 1 for patches in the first view, 0 for others.
    """
    return _Views.apply(z, in_first)


def sums(z: Tensor, in_first: Tensor) -> tuple[_Sums, _Sums]:
    """The same without autograd."""
    replicas, neurons, batch, patches = z.shape
    first, second = floats(replicas, batch, neurons), floats(replicas, batch, neurons)
    addresses = (tensor.data_ptr() for tensor in (z, in_first, first, second))
    function(_summed)(*addresses, replicas, neurons, batch, patches)
    return first, second


def slope(
    z: Tensor, in_first: Tensor, of_first: _Sums, of_second: _Sums
) -> Float[Tensor, "replica neuron batch patch"]:
    """The gradient by z of one by the two sums."""
    found = torch.empty_like(z)
    tensors = z, in_first, of_first.contiguous(), of_second.contiguous(), found
    function(_pulled)(*(tensor.data_ptr() for tensor in tensors), *z.shape)
    return found


class _Views(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, in_first: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(z, in_first)
        return sums(z, in_first)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_first: Tensor, of_second: Tensor) -> tuple[Tensor, None]:
        z, in_first = ctx.saved_tensors
        return slope(z, in_first, of_first, of_second), None


def _summed(
    code: Code,
    z: Array,
    in_first: Array,
    first: Array,
    second: Array,
    replicas: Whole,
    neurons: Whole,
    batch: Whole,
    patches: Whole,
) -> None:
    with code.loop(replicas) as r, code.loop(neurons) as j, code.loop(batch) as k:
        row, chosen = z + ((r * neurons + j) * batch + k) * patches, in_first + (r * batch + k) * patches
        there = (r * batch + k) * neurons + j
        one, other = code.variable(0.0), code.variable(0.0)
        with code.loop(patches) as p:
            cube = row[p] * row[p] * row[p]
            one.add(chosen[p] * cube)
            other.add(cube - chosen[p] * cube)
        first[there] = one.now
        second[there] = other.now


def _pulled(
    code: Code,
    z: Array,
    in_first: Array,
    of_first: Array,
    of_second: Array,
    found: Array,
    replicas: Whole,
    neurons: Whole,
    batch: Whole,
    patches: Whole,
) -> None:
    with code.loop(replicas) as r, code.loop(neurons) as j, code.loop(batch) as k:
        start = ((r * neurons + j) * batch + k) * patches
        row, pulled, chosen = z + start, found + start, in_first + (r * batch + k) * patches
        there = (r * batch + k) * neurons + j
        other, more = of_second[there], of_first[there] - of_second[there]
        with code.loop(patches) as p:
            pulled[p] = row[p] * row[p] * 3.0 * (chosen[p] * more + other)
