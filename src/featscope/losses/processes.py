"""A batch that several processes share, each with its part of the rows."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, distributed
from torch.autograd.function import once_differentiable


def others() -> bool:
    """Whether torch.distributed runs, with more processes than this one."""
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def require_equal(size: int, device: torch.device) -> None:
    """See that batches of all processes are of one size; every process has to ask.

    Raises:
        ValueError: they are not.
    """
    own = torch.tensor([size], device=device)
    found = [torch.zeros_like(own) for _ in range(distributed.get_world_size())]
    distributed.all_gather(found, own)
    sizes = [int(one) for one in found]
    if len(set(sizes)) > 1:
        raise ValueError(
            f"processes have batches of {', '.join(map(str, sizes))}: allowed are equal ones. "
            "Give drop_last=True to the loaders."
        )


def gathered(rows: Float[Tensor, "row neuron"]) -> Float[Tensor, "all neuron"]:
    """Rows of all processes, in the order of their ranks; gradients come back from all of them."""
    return _Gather.apply(rows)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, rows: Tensor) -> Tensor:
        context.rows = len(rows)
        found = [torch.empty_like(rows) for _ in range(distributed.get_world_size())]
        distributed.all_gather(found, rows.contiguous())
        return torch.cat(found)

    @staticmethod
    @once_differentiable
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        gradient = gradients[0].contiguous().clone()
        distributed.all_reduce(gradient)
        first = distributed.get_rank() * context.rows
        return gradient[first : first + context.rows]
