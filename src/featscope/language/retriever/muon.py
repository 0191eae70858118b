"""Muon, for many small matrices: all of one shape take their step together."""

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.language.retriever.forward import quick

_DECAY = 0.05  # of weights, times the learning rate
_MOMENTUM = 0.95  # of gradients' running mean
_FIVE = (3.4445, -4.7750, 2.0315)  # of the quintic that brings singular values near 1 (Jordan 2024)


class Muon(torch.optim.Optimizer):
    """Steps along the nearest orthogonal matrix to the gradients' running mean (Jordan 2024).

    Args:
        matrices: what learns.
        lr: learning rate; a step's singular values are near it.
    """

    def __init__(self, matrices: Iterable[nn.Parameter], lr: float) -> None:
        super().__init__([*matrices], {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = {}
            for matrix in group["params"]:
                shapes.setdefault(matrix.shape, []).append(matrix)
            for (rows, columns), matrices in shapes.items():
                gradients = torch.stack([matrix.grad for matrix in matrices])  # type: ignore[misc]
                kept = self.state[matrices[0]].setdefault("mean", torch.zeros_like(gradients))
                kept.lerp_(gradients, 1 - _MOMENTUM)
                steps = orthogonal(gradients.lerp(kept, _MOMENTUM))
                torch._foreach_mul_(matrices, 1 - group["lr"] * _DECAY)
                torch._foreach_add_(matrices, steps.unbind(), alpha=-group["lr"] * max(1, rows / columns) ** 0.5)


def orthogonal(matrices: Float[Tensor, "matrix row column"]) -> Float[Tensor, "matrix row column"]:
    """Nearly the nearest orthogonal ones: singular values between 0.7 and 1.2."""
    tall = matrices.shape[1] > matrices.shape[2]
    near = (matrices.transpose(1, 2) if tall else matrices).to(quick(matrices.device))
    near = near / (near.norm(dim=(1, 2), keepdim=True) + 1e-7)
    a, b, c = _FIVE
    for _ in range(5):
        square = near @ near.transpose(1, 2)
        near = a * near + (b * square + c * square @ square) @ near
    return (near.transpose(1, 2) if tall else near).to(matrices.dtype)
