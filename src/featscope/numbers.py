"""Numbers of options that may differ between replicas, and float64 where a device has none.

An option that is a float becomes a tensor ``[replica]`` where experiments that differ in it train as one program (see
`featscope.training.stack`). Parts use such numbers through `per_replica`; for everybody else they stay floats.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

Number = float | Float[Tensor, "replica"]
_NO_FLOAT64 = ("mps",)  # kinds of devices: Apple's


def per_replica(number: Number, like: Tensor) -> float | Float[Tensor, "replica ..."]:
    """``number`` such that it combines with ``like`` ``[replica, ...]`` replica by replica; a float stays as it is."""
    if not isinstance(number, Tensor):
        return number
    dtype = like.dtype if like.is_floating_point() else torch.get_default_dtype()
    return number.to(like.device, dtype).view(-1, *[1] * (like.ndim - 1))


def of_one(number: Number, replica: int) -> float:
    """``number`` of the replica at this place."""
    return float(number[replica]) if isinstance(number, Tensor) else number


def place_of_doubles(device: torch.device) -> torch.device:
    """Where float64 numbers of tensors on ``device`` are: there, or on the processor where the device has none."""
    return torch.device("cpu") if device.type in _NO_FLOAT64 else device


def require_tensor(values: Any) -> None:
    """Raise `TypeError` unless ``values`` are a tensor, or speak for themselves where torch asks them."""
    if not isinstance(values, Tensor) and not hasattr(values, "__torch_function__"):
        raise TypeError(f"got a {type(values).__name__}: expected a torch.Tensor, torch.as_tensor(x) makes one")


def in_double(values: Tensor) -> Tensor:
    """``values`` in float64, see `place_of_doubles`.

    Raises:
        TypeError: they are no tensor.
    """
    require_tensor(values)
    return (values.cpu() if values.device.type in _NO_FLOAT64 else values).double()


def unit_vectors(values: Float[Tensor, "*row entry"]) -> Float[Tensor, "*row entry"]:
    """``values`` over the norms of their rows, in float64, however short rows are; 0 where all entries are."""
    values, ones = in_double(values), torch.ones(())
    largest = values.abs().amax(-1, keepdim=True) if values.shape[-1] else values.new_zeros(())
    values = values / largest.where(largest != 0, ones.to(values))  # whose squares would be lost
    norms = values.norm(dim=-1, keepdim=True)
    return values / norms.where(norms != 0, ones.to(values))


def as_written(device: torch.device) -> AbstractContextManager[Any]:
    """Products have the precision of what is multiplied, also within ``torch.autocast``."""
    automatic = torch.amp.is_autocast_available(device.type)
    return torch.autocast(device.type, enabled=False) if automatic else nullcontext()


def wide(values: Tensor) -> Tensor:
    """``values`` in float32 at least.

    Raises:
        TypeError: they are no tensor.
    """
    require_tensor(values)
    return values if values.dtype.itemsize >= torch.float32.itemsize else values.float()


def running_sum(values: Float[Tensor, "*shape"], dim: int) -> Float[Tensor, "*shape"]:
    """Sums of the first ones along ``dim``, made on the processor: a GPU adds them in another order every time."""
    return values.cpu().cumsum(dim).to(values.device)
