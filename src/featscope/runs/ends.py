"""What replicas end with, as digests: enough to see whether two are equal, where weights are not kept."""

from collections.abc import Mapping
from hashlib import blake2b

import torch
from jaxtyping import UInt8
from torch import Tensor

_BYTES = 8  # two of a million replicas meet by accident once in 10^7 runs

Ends = Mapping[str, UInt8[Tensor, "replica byte"]]
"""A name of what is kept -> a digest of each replica's part of it."""


def digests(kept: Mapping[str, Tensor], replicas: int, *, replica_axis: bool) -> dict[str, Tensor]:
    """Of each tensor that has a row for each replica. One that does not is the same for all.

    Args:
        kept: what is kept of an experiment.
        replicas: how many it has.
        replica_axis: whether tensors have one; if not, there is one replica, which has the whole of each.
    """
    found = {}
    for name, values in kept.items():
        rows = values.detach().cpu() if replica_axis else values.detach().cpu()[None]
        if rows.shape[:1] == (replicas,):
            found[name] = torch.tensor([list(_digest(row)) for row in rows], dtype=torch.uint8)
    return found


def _digest(row: Tensor) -> bytes:
    plain = row.reshape(-1).clone(memory_format=torch.contiguous_format).view(torch.uint8)
    return blake2b(plain.numpy().data, digest_size=_BYTES).digest()
