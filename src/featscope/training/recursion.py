"""Experiments that iterate a map."""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from featscope.options import require
from featscope.streams import Draws, Streams
from featscope.training.experiment import Experiment


class Iterated(Protocol):
    """A module that moves itself."""

    @property
    def passed(self) -> Bool[Tensor, "replica sequence"]:
        """Which sequences have come to their end."""

    def __call__(self, draws: Draws) -> None:
        """Move all sequences that have not."""


@runtime_checkable
class IteratedConfig(Protocol):
    """Options of an `Iterated`."""

    def build(self, draws: Draws, /) -> nn.Module:
        """Sequences at their starts; their first axis is the replica."""


@dataclass(frozen=True)
class Iteration:
    """The recipe of an arm that iterates a map.

    Attributes:
        learner: what moves.
        steps: the most steps, each of as many iterations as the learner takes at a time.
        probe_every: steps between measurements (log-spaced ones are added).
    """

    learner: IteratedConfig
    steps: int
    probe_every: int

    replica_axis: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require(self, "steps", self.steps >= 1, ">= 1")
        require(self, "probe_every", self.probe_every >= 1, ">= 1")

    def build(self, streams: Streams) -> "Recursion":
        """Sequences at their starts."""
        return Recursion(self.learner.build(streams.at("start")), streams)


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
