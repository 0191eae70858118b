"""Experiments that follow a differential equation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Inexact, Int
from torch import Tensor, nn

from featscope.kernels import Attempt
from featscope.numbers import per_replica
from featscope.options import require
from featscope.streams import Draws, Streams
from featscope.training.experiment import DivergedError, Experiment, events_of
from featscope.training.gradient import RuleConfig
from featscope.training.record import Measurement
from featscope.training.rosenbrock import StepSizeError, Trajectories, attempt_at

_FIRST_STEP = 1e-3
_RTOL, _ATOL = 1e-6, 1e-9  # tolerated error of an integration step


class Dynamics(Protocol):
    """A module with a parameter ``state`` ``[replica, start, number]``, float64, that knows how it moves."""

    state: nn.Parameter

    def constants(self) -> Float[Tensor, "constant trajectory"]:
        """What else dy/dt is of; trajectory = replica · starts + start."""

    def velocity(
        self, y: Inexact[Tensor, "number trajectory"], constants: Float[Tensor, "constant trajectory"], /
    ) -> Inexact[Tensor, "number trajectory"]:
        """dy/dt, see `featscope.training.rosenbrock.Rate`."""

    def loss(self) -> Float[Tensor, "replica start"]:
        """The loss at ``state``."""


@runtime_checkable
class DynamicsConfig(Protocol):
    """Options of `Dynamics`."""

    def build(self, draws: Draws, /) -> nn.Module:
        """Trajectories at their starts."""


@dataclass(frozen=True)
class Following:
    """The recipe of an arm that follows a differential equation.

    Attributes:
        learner: what moves.
        duration: how long it is followed, in units of 1/η.
        rules: name -> what happens between steps of integration, in this order.
        steps: the most steps of integration.
        probe_every: steps between measurements (log-spaced ones are added).
    """

    learner: DynamicsConfig
    duration: float
    rules: Mapping[str, RuleConfig] = field(default_factory=dict)
    steps: int = 4000
    probe_every: int = 4

    replica_axis: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require(self, "duration", self.duration > 0, "> 0")
        require(self, "steps", self.steps >= 1, ">= 1")
        require(self, "probe_every", self.probe_every >= 1, ">= 1")

    def build(self, streams: Streams) -> "Flow":
        """Trajectories at their starts, which are random."""
        return Flow(self.learner.build(streams.at("start")), self.duration, streams, self.rules)


class Flow(Experiment):
    """Trajectories of ``learner`` from many starts a replica.

    A step is one integration step of each trajectory, whose length is its own: after the same number of steps
    trajectories stand at different times. The event ``arrived`` is that all have reached ``duration``.

    Args:
        learner: see `Dynamics`.
        duration: how long to follow them, in units of 1/η.
        streams: the replicas' random streams.
        rules: what happens between steps, as in training.
    """

    floats_per_replica = True
    time: Float[Tensor, "replica start"]
    step_size: Float[Tensor, "replica start"]
    arrived: Int[Tensor, "replica"]

    def __init__(
        self,
        learner: nn.Module,
        duration: float,
        streams: Streams,
        rules: Mapping[str, RuleConfig] | None = None,
    ) -> None:
        super().__init__(streams)
        self.learner: Any = learner.to(streams.device)
        self.duration = duration
        self._attempt: Attempt | None = None
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
        end, constants = self._end(), self.learner.constants()  # which rules may change
        if self._attempt is None:  # here, not where the flow is made: machine code is of one process
            self._attempt = attempt_at(self.learner.velocity, moving.y, constants)
        try:
            moving.advance(self._attempt, constants, end.view(-1), rtol=_RTOL, atol=_ATOL)
        except StepSizeError as error:
            place = error.trajectory // state.shape[1]
            if not self.gives_up:
                raise DivergedError("the state", step, self.streams.replicas[place]) from error
            self.diverged[place] = step
            self.time[place] = end[place]  # none of its trajectories is followed any further
        finally:
            state.copy_(moving.y.mT.view_as(state))  # where the times are
        there = (self.time >= end).all(1) & (self.arrived < 0) & (self.diverged < 0)
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
        return events_of(self.rules.values(), {"arrived": self.arrived})

    def look(self, step: int) -> Mapping[str, Measurement]:
        """The loss, mean over starts."""
        return {"loss": Measurement(self.learner.loss().mean(-1), about="loss, mean over starts")}
