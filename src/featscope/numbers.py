"""Numbers of options that may differ between replicas.

An option that is a float becomes a tensor ``[replica]`` where experiments that differ in it train as one program (see
`featscope.training.stack`). Parts use such numbers through `per_replica`; for everybody else they stay floats.
"""

import torch
from jaxtyping import Float
from torch import Tensor

Number = float | Float[Tensor, "replica"]


def per_replica(number: Number, like: Tensor) -> float | Float[Tensor, "replica ..."]:
    """``number`` such that it combines with ``like`` ``[replica, ...]`` replica by replica; a float stays as it is."""
    if not isinstance(number, Tensor):
        return number
    dtype = like.dtype if like.is_floating_point() else torch.get_default_dtype()
    return number.to(like.device, dtype).view(-1, *[1] * (like.ndim - 1))
