"""The loss between two looks."""

import torch
from torch import Tensor

from featscope.numbers import place_of_doubles


class MeanLoss:
    """The mean of what was added since it was taken; nothing is brought from a device before."""

    def __init__(self) -> None:
        self._sum: Tensor | float = 0.0
        self._count = 0

    def add(self, value: Tensor | float) -> None:
        """One more.

        Raises:
            ValueError: it is more than one number.
        """
        if isinstance(value, Tensor) and value.numel() != 1:
            raise ValueError(f"loss has shape {list(value.shape)}: allowed is one number. Give loss.mean(), say.")
        if isinstance(value, Tensor):
            here = place_of_doubles(value.device) == value.device
            value = value.detach().to(torch.float64 if here else torch.float32)
        self._sum = self._sum + value
        self._count += 1

    def take(self) -> float:
        """The mean so far, NaN of nothing; it begins anew."""
        mean = float(self._sum) / self._count if self._count else float("nan")
        self._sum, self._count = 0.0, 0
        return mean
