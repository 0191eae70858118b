"""Processes that train one model: each takes batches of its own, and all take the steps of their mean gradient."""

from collections.abc import Iterable

import torch
import torch.distributed as processes
from torch import nn


class Team:
    """The processes that ``torchrun`` started, or this one alone.

    Attributes:
        rank: of this process, from 0.
        size: processes.
    """

    def __init__(self) -> None:
        self.rank, self.size = 0, 1
        if processes.is_torchelastic_launched():
            processes.init_process_group("gloo")
            self.rank, self.size = processes.get_rank(), processes.get_world_size()

    def agree(self, number: float) -> float:
        """What the first process says, so that all begin the next stage, and end, at the same step."""
        said = torch.tensor([number], dtype=torch.float64)
        if self.size > 1:
            processes.broadcast(said, 0)
        return float(said)

    def average(self, parameters: Iterable[nn.Parameter]) -> None:
        """Give every process the mean of all gradients; those of the same parameters are there in all of them."""
        gradients = [p.grad for p in parameters if p.grad is not None]
        if self.size > 1:
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            processes.all_reduce(flat)
            for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
                gradient.copy_(part.view_as(gradient) / self.size)

    def leave(self) -> None:
        """To be called at the end, by all."""
        if self.size > 1:
            processes.destroy_process_group()
