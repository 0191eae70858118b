"""Experiments that iterate a map."""

from typing import Any, Protocol

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from featscope.streams import Draws, Streams
from featscope.training.experiment import Experiment


class Iterated(Protocol):
    """A module that moves itself."""

    @property
    def passed(self) -> Bool[Tensor, "replica sequence"]:
        """Which sequences have come to their end."""

    def __call__(self, draws: Draws) -> None:
        """Move all sequences that have not."""


class Recursion(Experiment):
    """Sequences that follow a recursion. The event ``passed`` is that all of a replica have come to their end.

    Args:
        learner: see `Iterated`.
        streams: the replicas' random streams.
    """

    all_passed: Int[Tensor, "replica"]

    def __init__(self, learner: nn.Module, streams: Streams) -> None:
        super().__init__(streams)
        self.learner: Any = learner.to(streams.device)
        self.register_buffer("all_passed", torch.full((len(streams.replicas),), -1, device=streams.device))

    @torch.no_grad()
    def advance(self, step: int) -> None:
        """The next steps of the recursion, as many as the learner takes at a time."""
        self.learner(self.streams.at("batch", step))
        self.all_passed.masked_fill_(self.learner.passed.all(1) & (self.all_passed < 0), step + 1)

    def status(self) -> str:
        """How many sequences have passed."""
        return f"{int(self.learner.passed.sum())} of {self.learner.passed.numel()} passed"

    def events(self) -> dict[str, Int[Tensor, "replica"]]:
        """The step by which all sequences of a replica had passed."""
        return {"passed": self.all_passed}
