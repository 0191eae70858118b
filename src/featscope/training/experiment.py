"""What the engine runs: some replicas of one arm, step by step."""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor, nn

from featscope.streams import Streams
from featscope.training.record import Measurement


class DivergedError(ArithmeticError):
    """An experiment produced a value that is not finite (exit code 3).

    Attributes:
        arm: whose; empty where an experiment is no arm's.
    """

    arm = ""

    def __init__(self, quantity: str, step: int, replica: int) -> None:
        super().__init__(quantity, step, replica)  # as given, so that it can pass between processes
        self.quantity, self.step, self.replica = quantity, step, replica

    def __str__(self) -> str:
        whose = f" of the arm {self.arm}" if self.arm else ""
        return f"{self.quantity} of replica {self.replica}{whose} is not finite at step {self.step}"


class Experiment(nn.Module):
    """Some replicas of one arm on their way.

    A step is whatever the experiment counts: an update of gradient descent (`GradientTraining`), a step of integration
    (`Flow`), of a recursion (`Recursion`), a task (`Evaluation`). The engine asks for no more than what stands here;
    only `advance` must be given. Tensors that change are parameters or buffers, and so saved and restored.

    Args:
        streams: the replicas' random streams.

    Attributes:
        gives_up: whether a replica whose values cease to be finite is given up while the others go on; its
            measurements become NaN. If not (the default), `DivergedError` is raised.
        diverged: the step at which each replica was given up; -1 where it was not.
        last_look: the last step at which each replica was measured and not given up; -1 before the first.
    """

    gives_up: bool = False
    diverged: Int[Tensor, "replica"]
    last_look: Int[Tensor, "replica"]

    def __init__(self, streams: Streams) -> None:
        super().__init__()
        self.streams = streams
        for name in ("diverged", "last_look"):
            self.register_buffer(name, torch.full((len(streams.replicas),), -1, device=streams.device))

    def advance(self, step: int) -> None:
        """Do step number ``step``, counted from 0.

        Raises:
            DivergedError: a value is not finite; what was sound before is kept.
        """
        raise NotImplementedError

    def status(self) -> str:
        """What to show beside the progress, in a few words."""
        return ""

    def events(self) -> dict[str, Int[Tensor, "replica"]]:
        """The step at which each event that is watched for first happened; -1 where it has not."""
        return {}

    def look(self, step: int) -> Mapping[str, Measurement]:
        """What the experiment measures of itself whenever it is looked at, beside what its study watches."""
        return {}

    def outcomes(self) -> Mapping[str, Measurement]:
        """What it has found, measured once at the end."""
        return {}

    def kept(self) -> dict[str, Tensor]:
        """What of it is kept for good when it is done: the weights of its learner and what its source knows."""
        return {key: value for key, value in self.state_dict().items() if key.startswith(("learner.", "source."))}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything that changes on the way: tensors, and numbers that JSON can hold."""
        return dict(self.state_dict()), {}

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Go back to a `state`."""
        self.load_state_dict(dict(tensors))

    def masked(self, found: Mapping[str, Measurement]) -> dict[str, Measurement]:
        """``found`` with NaN where a replica is given up; whole numbers cannot be NaN and stay."""
        given_up = self.diverged >= 0
        if not given_up.any():
            return dict(found)

        def mask(values: Tensor) -> Tensor:
            if not values.is_floating_point():
                return values
            lost = given_up.to(values.device)  # some are measured on the CPU, whatever the device
            return values.masked_fill(lost.view(-1, *[1] * (values.ndim - 1)), torch.nan)

        return {name: one._replace(values=mask(one.values)) for name, one in found.items()}

    def sound(self) -> bool:
        """Whether all parameters are finite, so that the state is worth keeping."""
        return all(bool(parameter.isfinite().all()) for parameter in self.parameters())

    def require_sound(self, step: int) -> None:
        """Raise `DivergedError` if any parameter is not finite, or give its replica up."""
        for name, parameter in self.named_parameters():
            self.require_finite(name, parameter.detach(), step)

    def require_finite(self, quantity: str, values: Tensor, step: int) -> None:
        """Raise `DivergedError` unless ``values`` ``[replica, ...]`` are finite, or give replicas up."""
        if isfinite(values.sum().item()):
            return
        sound = torch.isfinite(values)
        if sound.all():  # a sum of sound values may overflow
            return
        alone = len(self.streams.replicas) == 1  # then the first axis need not be the replica
        bad = torch.ones_like(self.diverged, dtype=torch.bool) if alone else ~sound.reshape(len(values), -1).all(1)
        if not self.gives_up:
            raise DivergedError(quantity, step, self.streams.replicas[int(bad.nonzero()[0])])
        self.diverged.masked_fill_(bad & (self.diverged < 0), step)


def events_of(
    rules: Iterable[Any], own: Mapping[str, Int[Tensor, "replica"]] | None = None
) -> dict[str, Int[Tensor, "replica"]]:
    """The step of each event that one of ``rules`` watches for, beside an experiment's ``own``.

    Raises:
        ValueError: two are of one name, of which the first would be lost.
    """
    found: dict[str, Tensor] = {}
    taken = {"diverged", *(own or {})}  # the first is kept of every run
    for rule in rules:
        its = rule.events() if hasattr(rule, "events") else {}
        if twice := taken & its.keys():
            raise ValueError(f"two events are called {min(twice)!r}: expected names that differ. Rename a rule's")
        taken |= its.keys()
        found |= its
    return found | dict(own or {})


@runtime_checkable
class Recipe(Protocol):
    """What an arm builds: a frozen dataclass of the options of one experiment."""

    replica_axis: ClassVar[bool]
    """Whether tensors carry a leading replica axis. If not, an experiment holds one replica, an ordinary module."""

    @property
    def steps(self) -> int:
        """The most steps it takes."""

    @property
    def probe_every(self) -> int:
        """Steps between measurements; log-spaced ones are added."""

    def build(self, streams: Streams, /) -> Experiment:
        """The experiment for the replicas of ``streams``, before its first step."""
