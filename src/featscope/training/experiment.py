"""What one arm trains: a source of data, a learner, an objective, an optimizer and rules between steps."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featscope.streams import Draws, Streams


class Rule(Protocol):
    """What `Experiment` asks of a rule beyond being a module that is called as ``rule(experiment, step)``."""

    def events(self) -> dict[str, Int[Tensor, "replica"]]:
        """First step of each event that the rule watches for; -1 where it has not happened."""


@runtime_checkable
class RuleConfig(Protocol):
    """The options of a rule. ``build`` is called once data, learner and optimizer stand."""

    def build(self, experiment: Any, /) -> nn.Module:
        """The rule for ``experiment``."""


Objective = Callable[[nn.Module, Any, Draws], Float[Tensor, "replica"]]
"""(learner, source, draws) -> the loss of each replica on a batch drawn from ``draws``."""


class DivergedError(ArithmeticError):
    """Training produced a value that is not finite (exit code 3)."""

    def __init__(self, quantity: str, step: int, replica: int) -> None:
        super().__init__(quantity, step, replica)  # as given, so that it can pass between processes
        self.quantity, self.step, self.replica = quantity, step, replica

    def __str__(self) -> str:
        return f"{self.quantity} of replica {self.replica} is not finite at step {self.step}"


class Experiment(nn.Module):
    """Some replicas of one arm in training. Everything that changes is in its ``state_dict``.

    Args:
        source: samples data and knows the true features (``source.sample(draws, count)``).
        learner: the network; its first axis is the replica.
        objective: the loss of a fresh batch, one value a replica. If it is a module (a head, say) its
            parameters are trained too.
        optimizer: builds a `torch.optim.Optimizer` from parameters.
        rules: what happens between steps, in order.
        streams: the replicas' random streams.

    Attributes:
        gives_up: whether a replica whose loss or weights cease to be finite is given up while the others go on;
            its weights become 0 and its measurements NaN. If not (the default), `DivergedError` is raised.
        diverged: the step at which each replica was given up; -1 where it was not.
    """

    gives_up: bool = False
    diverged: Int[Tensor, "replica"]

    def __init__(
        self,
        source: nn.Module,
        learner: nn.Module,
        objective: Objective,
        optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer],
        rules: Sequence[RuleConfig],
        streams: Streams,
    ) -> None:
        super().__init__()
        self.source = source
        self.learner = learner
        self.objective = objective
        self.streams = streams
        self.register_buffer("diverged", torch.full((len(streams.replicas),), -1))
        self.to(streams.device)
        self.optimizer = optimizer([p for p in self.parameters() if p.requires_grad])
        self.rules = nn.ModuleList([rule.build(self) for rule in rules]).to(streams.device)

    def loss(self, draws: Draws) -> Float[Tensor, "replica"]:
        """Each replica's loss on a batch from ``draws``."""
        return self.objective(self.seen(), self.source, draws)

    def seen(self) -> nn.Module:
        """The learner as the objective sees it: as it is, but for rules that have a method ``seen(learner)``."""
        learner = self.learner
        for rule in self.rules:
            seen = getattr(rule, "seen", None)
            learner = seen(learner) if seen else learner
        return learner

    def advance(self, step: int) -> Float[Tensor, "replica"]:
        """One training step. Returns the loss before the update.

        Raises:
            DivergedError: a loss is not finite; the weights are left as they were.
        """
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.streams.at("batch", step))
        self._require_finite("the loss", loss.detach(), step)
        loss.sum().backward()  # replicas share no parameter, so the gradient of the sum separates
        self.optimizer.step()
        self._silence()
        with torch.no_grad():
            for rule in self.rules:
                rule(self, step + 1)
        self._silence()
        return loss.detach()

    def events(self) -> dict[str, Int[Tensor, "replica"]]:
        """The step at which each event that a rule watches for first happened; -1 where it has not.

        What seems to happen to a replica once it is given up has not happened.
        """
        found: dict[str, Tensor] = {}
        for rule in self.rules:
            found |= cast(Rule, rule).events()
        given_up = self.diverged >= 0
        return {name: step.masked_fill(given_up & (step >= self.diverged), -1) for name, step in found.items()}

    def measured(self, values: Tensor) -> Tensor:
        """``values`` ``[replica, ...]`` with NaN where a replica is given up; whole numbers cannot be NaN and stay."""
        given_up = self.diverged >= 0
        if not values.is_floating_point() or not given_up.any():
            return values
        values = values.clone()
        values[given_up] = torch.nan
        return values

    def require_finite_parameters(self, step: int) -> None:
        """Raise `DivergedError` if any trained parameter is not finite, or give its replica up."""
        for name, parameter in self.named_parameters():
            self._require_finite(name, parameter.detach(), step)
        self._silence()

    def _require_finite(self, quantity: str, values: Tensor, step: int) -> None:
        if bool(torch.isfinite(values.sum())):
            return
        sound = torch.isfinite(values)
        if sound.all():  # a sum of sound values may overflow
            return
        alone = len(self.streams.replicas) == 1  # then the first axis need not be the replica
        bad = torch.ones_like(self.diverged, dtype=torch.bool) if alone else ~sound.reshape(len(values), -1).all(1)
        if not self.gives_up:
            raise DivergedError(quantity, step, self.streams.replicas[int(bad.nonzero()[0])])
        self.diverged.masked_fill_(bad & (self.diverged < 0), step)

    @torch.no_grad()
    def _silence(self) -> None:
        """Set what given-up replicas have learned to 0, so that nothing that is not finite spreads to probes."""
        given_up = self.diverged >= 0
        if not (self.gives_up and given_up.any()):
            return
        for tensor in (*self.parameters(), *self.learner.buffers()):
            if len(given_up) == 1:
                tensor.zero_()
            elif tensor.shape[:1] == given_up.shape:
                tensor[given_up] = 0
