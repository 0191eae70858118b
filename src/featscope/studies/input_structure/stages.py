"""Experiments of several stages, each of which fits networks some steps at a time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from featscope.streams import Draws, Streams
from featscope.studies.input_structure.networks import Fit
from featscope.training import Iteration, Recursion


class Stage(NamedTuple):
    """Networks that are fitted.

    Attributes:
        name: for people who wait.
        move: the method that makes the step of a number, counted from 0.
        end: the method that finds out what is to be kept.
    """

    name: str
    move: Callable[[Any, int, Draws], None]
    end: Callable[[Any], None]


class Stages(nn.Module):
    """What is found is kept as buffers, NaN before; how far it has come is one, too.

    Args:
        stages: one after another.
        fit: how long each is, and how many of its steps are one of the engine.
        shapes: name -> shape, without the replica, of all that is found.
        draws: for their number and device.
    """

    done: Int[Tensor, "replica"]

    def __init__(self, stages: Sequence[Stage], fit: Fit, shapes: Mapping[str, tuple[int, ...]], draws: Draws) -> None:
        super().__init__()
        self.stages, self.fit, self.shapes = stages, fit, shapes
        self.register_buffer("done", torch.zeros(draws.replicas, dtype=torch.long, device=draws.device))
        for name, shape in shapes.items():
            empty = torch.full((draws.replicas, *shape), torch.nan, dtype=torch.float64, device=draws.device)
            self.register_buffer(name, empty)

    @property
    def passed(self) -> Bool[Tensor, "replica 1"]:
        """Whether all stages are over."""
        return self.done[:, None] == len(self.stages) * self.fit.parts

    def where(self) -> tuple[int, int]:
        """The stage it is in, and how many of its steps are done."""
        stage, part = divmod(int(self.done[0]), self.fit.parts)
        return stage, part * self.fit.at_once

    @torch.enable_grad()
    def forward(self, draws: Draws) -> None:
        """The next steps of the stage it is in."""
        stage, first = self.where()
        last = min(first + self.fit.at_once, self.fit.steps)
        for step in range(first, last):
            self.stages[stage].move(self, step, draws)
        if last == self.fit.steps:
            with torch.no_grad():
                self.stages[stage].end(self)
        self.done += 1

    def nothing(self) -> None:
        """At the end of a stage after which nothing is to be kept."""

    def keep(self, **found: Tensor) -> None:
        """Write what was found."""
        for name, values in found.items():
            self.get_buffer(name).copy_(values)


@dataclass(frozen=True)
class Staged(Iteration):
    """The recipe of an arm in stages."""

    def build(self, streams: Streams) -> "StagedRecursion":
        """Before the first stage."""
        return StagedRecursion(self.learner.build(streams.at("start")), streams)


class StagedRecursion(Recursion):
    """Says which stage it is in, and keeps what was found and no networks."""

    def status(self) -> str:
        """The stage and its steps."""
        stage, step = self.learner.where()
        stages = self.learner.stages
        return f"{stages[stage].name}, step {step} of {self.learner.fit.steps}" if stage < len(stages) else "done"

    def kept(self) -> dict[str, Tensor]:
        """What was found."""
        return {f"learner.{name}": self.learner.get_buffer(name) for name in self.learner.shapes}
