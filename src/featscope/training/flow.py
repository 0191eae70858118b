"""Experiments that follow a differential equation."""

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from jaxtyping import Float, Inexact, Int
from torch import Tensor, nn

from featscope.numbers import per_replica
from featscope.streams import Streams
from featscope.training.experiment import DivergedError, Experiment
from featscope.training.gradient import RuleConfig
from featscope.training.record import Measurement
from featscope.training.rosenbrock import StepSizeError, Trajectories

_FIRST_STEP = 1e-3


class Dynamics(Protocol):
    """A module with a parameter ``state`` ``[replica, start, number]``, float64, that knows how it moves."""

    state: nn.Parameter

    def velocity(self, y: Inexact[Tensor, "number trajectory"], which: Tensor) -> Inexact[Tensor, "number trajectory"]:
        """dy/dt, see `featscope.training.rosenbrock.Rate`; trajectory = replica · starts + start."""

    def loss(self) -> Float[Tensor, "replica start"]:
        """The loss at ``state``."""


class Flow(Experiment):
    """Trajectories of ``learner`` from many starts a replica.

    A step is one integration step of each trajectory, whose length is its own: after the same number of steps
    trajectories stand at different times. The event ``arrived`` is that all have reached ``duration``.

    Args:
        learner: see `Dynamics`.
        duration: how long to follow them, in units of 1/η.
        streams: the replicas' random streams.
        rules: what happens between steps, as in training.
        rtol: tolerated relative error of an integration step.
        atol: tolerated absolute error of an integration step.
    """

    time: Float[Tensor, "replica start"]
    step_size: Float[Tensor, "replica start"]
    arrived: Int[Tensor, " replica"]

    def __init__(
        self,
        learner: nn.Module,
        duration: float,
        streams: Streams,
        rules: Mapping[str, RuleConfig] | None = None,
        rtol: float = 1e-6,
        atol: float = 1e-9,
    ) -> None:
        super().__init__(streams)
        self.learner: Any = learner.to(streams.device)
        self.duration, self.rtol, self.atol = duration, rtol, atol
        shape = learner.get_parameter("state").shape[:2]
        self.register_buffer("time", torch.zeros(shape, dtype=torch.float64, device=streams.device))
        self.register_buffer("step_size", torch.full_like(self.time, _FIRST_STEP))
        self.register_buffer("arrived", torch.full((shape[0],), -1, device=streams.device))
        self.rules = nn.ModuleDict({name: rule.build(self) for name, rule in (rules or {}).items()})
        self.rules.to(streams.device)

    @torch.no_grad()
    def advance(self, step: int) -> None:
        """One integration step of each trajectory.

        Raises:
            DivergedError: a trajectory leaves the range of numbers.
        """
        state = self.learner.state
        moving = Trajectories(state.flatten(0, 1).mT.contiguous(), self.time.view(-1), self.step_size.view(-1))
        end = self._end()
        try:
            moving.advance(self.learner.velocity, end.view(-1), rtol=self.rtol, atol=self.atol)
        except StepSizeError as error:
            replica = self.streams.replicas[error.trajectory // state.shape[1]]
            raise DivergedError("the state", step, replica) from error
        state.copy_(moving.y.mT.view_as(state))
        there = (self.time >= end).all(1) & (self.arrived < 0)
        self.arrived.masked_fill_(there, step + 1)
        for rule in self.rules.values():
            rule(self, step + 1)

    def _end(self) -> Float[Tensor, "replica start"]:
        return torch.ones_like(self.time) * per_replica(self.duration, self.time)

    def status(self) -> str:
        """How many trajectories have arrived."""
        return f"{int((self.time >= self._end()).sum())} of {self.time.numel()} arrived"

    def events(self) -> dict[str, Int[Tensor, "replica"]]:
        """Those of the rules, and the step by which all trajectories of a replica had arrived."""
        found: dict[str, Tensor] = {}
        for rule in self.rules.values():
            found |= rule.events()  # type: ignore[operator]
        return found | {"arrived": self.arrived}

    def look(self, step: int) -> Mapping[str, Measurement]:
        """The loss, mean over starts."""
        return {"loss": Measurement(self.learner.loss().mean(-1), about="loss, mean over starts")}
