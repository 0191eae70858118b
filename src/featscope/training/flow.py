"""Experiments that follow a differential equation instead of stepping on batches."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from jaxtyping import Float, Inexact
from torch import Tensor, nn

from featscope.streams import Draws, Streams
from featscope.training.experiment import DivergedError, Experiment, RuleConfig
from featscope.training.optimizers import SGD
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

    A training step is one integration step of each trajectory, whose length is its own: after the same number of
    steps trajectories stand at different times. The event ``arrived`` is that all have reached ``duration``.

    Args:
        learner: see `Dynamics`.
        duration: how long to follow them, in units of 1/η.
        streams: the replicas' random streams.
        rules: what happens between steps, as in any experiment.
        rtol: tolerated relative error of an integration step.
        atol: tolerated absolute error of an integration step.
    """

    time: Float[Tensor, "replica start"]
    step_size: Float[Tensor, "replica start"]
    arrived: Float[Tensor, " replica"]

    def __init__(
        self,
        learner: nn.Module,
        duration: float,
        streams: Streams,
        rules: Sequence[RuleConfig] = (),
        rtol: float = 1e-6,
        atol: float = 1e-9,
    ) -> None:
        super().__init__(nn.Module(), learner, _mean_loss, SGD(lr=1.0, weight_decay=0.0), rules, streams)
        self.duration, self.rtol, self.atol = duration, rtol, atol
        shape = learner.get_parameter("state").shape[:2]
        self.register_buffer("time", torch.zeros(shape, dtype=torch.float64, device=streams.device))
        self.register_buffer("step_size", torch.full_like(self.time, _FIRST_STEP))
        self.register_buffer("arrived", torch.full((shape[0],), -1, device=streams.device))

    def advance(self, step: int) -> Float[Tensor, "replica"]:
        """One integration step of each trajectory. Returns the loss before.

        Raises:
            DivergedError: a trajectory leaves the range of numbers.
        """
        state: Any = self.learner.state
        with torch.no_grad():
            loss = self.loss(self.streams.at("batch", step))
            moving = Trajectories(state.flatten(0, 1).mT.contiguous(), self.time.view(-1), self.step_size.view(-1))
            end = torch.full_like(moving.time, self.duration)
            try:
                moving.advance(self.learner.velocity, end, rtol=self.rtol, atol=self.atol)  # type: ignore[arg-type]
            except StepSizeError as error:
                replica = self.streams.replicas[error.trajectory // state.shape[1]]
                raise DivergedError("the state", step, replica) from error
            state.copy_(moving.y.mT.view_as(state))
            there = (self.time >= self.duration).all(1) & (self.arrived < 0)
            self.arrived.masked_fill_(there, step + 1)
            for rule in self.rules:
                rule(self, step + 1)
        return loss

    def events(self) -> dict[str, Tensor]:
        """Those of the rules, and the step by which all trajectories of a replica had arrived."""
        return super().events() | {"arrived": self.arrived}


def _mean_loss(learner: Any, source: Any, draws: Draws) -> Float[Tensor, "replica"]:
    return learner.loss().mean(-1)
