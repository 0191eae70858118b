"""Training by gradient descent: a source of data, a learner, an objective, an optimizer and rules between steps."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from featscope.options import require
from featscope.streams import Draws, Streams
from featscope.training.closed_form import gradient
from featscope.training.ema import require_followed
from featscope.training.experiment import Experiment, events_of
from featscope.training.optimizers import Optimizer
from featscope.training.record import Measurement
from featscope.training.rules import Cooling

_RATE = "step size"
"""Where checkpoints of before have step sizes, and no other option."""
_OPTION = "option"

Objective = Callable[[Any, Any, Draws], Float[Tensor, "replica"]]
"""(learner, source, draws) -> the loss of each replica on a batch drawn from ``draws``."""


@runtime_checkable
class SourceConfig(Protocol):
    """Options of data. Their source samples, and knows the true features."""

    def build(self, draws: Draws, /) -> nn.Module:
        """A source for the replicas of ``draws``, with ``finite = True`` where its samples are of a set that ends."""


@runtime_checkable
class LearnerConfig(Protocol):
    """Options of a network."""

    def build(self, source: Any, draws: Draws, /) -> nn.Module:
        """A network for what ``source`` samples; its first axis is the replica."""


@runtime_checkable
class ObjectiveConfig(Protocol):
    """Options of an objective."""

    def build(self, source: Any, learner: Any, streams: Streams, /) -> Objective:
        """The loss of a batch. If it is a module (a head, say) its parameters are trained too.

        It has ``finite = True`` where it keeps to a set of samples that ends, and its source does not.
        """


@runtime_checkable
class OptimizerConfig(Protocol):
    """Options of an optimizer."""

    def build(self, parameters: Iterable[nn.Parameter], /) -> Optimizer:
        """The optimizer of ``parameters``."""


@runtime_checkable
class RuleConfig(Protocol):
    """Options of a rule: of what happens between steps."""

    def build(self, experiment: Any, /) -> nn.Module:
        """The rule for ``experiment``, whose source, learner, objective and optimizer stand.

        It is called as ``rule(experiment, step)`` after each step. It may have ``events()``, the first step of each
        event that it watches for; ``seen(learner)``, the learner as the objective sees it; and ``status()``, a word
        for the progress. A rule that changes nothing and only looks says so by ``looks_only = True`` in its options'
        class; the page then leaves it out where it tells arms apart.
        """


T = TypeVar("T", bound="Training")


@dataclass(frozen=True)
class Training:
    """The recipe of an arm that trains.

    Attributes:
        data: samples, and knows the true features.
        learner: the network.
        objective: the loss of a batch.
        optimizer: how weights follow the gradient.
        rules: name -> what happens between steps, in this order; a rule that is None is left out.
        steps: training steps.
        probe_every: steps between measurements (log-spaced ones are added).
    """

    data: SourceConfig
    learner: LearnerConfig
    objective: ObjectiveConfig
    optimizer: OptimizerConfig
    rules: Mapping[str, RuleConfig | None] = field(default_factory=dict)
    steps: int = 1000
    probe_every: int = 50

    replica_axis: ClassVar[bool] = True
    drawn_at: ClassVar[tuple[str, str]] = ("dictionary", "weights")
    """The purposes of the draws that source and learner are built from."""

    def __post_init__(self) -> None:
        require(self, "steps", self.steps >= 0, ">= 0")
        require(self, "probe_every", self.probe_every >= 1, ">= 1")
        require(self, "rules", isinstance(self.rules, Mapping), "a mapping of names to rules", "It may be empty.")

    def shortened(self: T, steps: int, probe_every: int | None = None) -> T:
        """The same for at most ``steps`` steps."""
        return replace(self, steps=min(steps, self.steps), probe_every=probe_every or self.probe_every)

    def build(self, streams: Streams) -> "GradientTraining":
        """Source, learner, objective and rules of the replicas of ``streams``, all from their draws.

        Raises:
            ConfigError: a `Cooling` ends before the training does.
            ValueError: replicas would share a parameter of the learner, or one that is trained of source or objective.
        """
        for rule in self.rules.values():
            if isinstance(rule, Cooling):
                allowed = f">= {self.steps}, the training's steps"
                require(rule, "steps", rule.steps >= self.steps, allowed, "Later ones would change nothing.")
        for_source, for_learner = self.drawn_at
        source = self.data.build(streams.at(for_source))
        learner: Any = self.learner.build(source, streams.at(for_learner)).to(streams.device)
        if self.replica_axis:
            _require_replicas(f"learner {type(learner).__name__}", learner.named_parameters(), streams)
            if not getattr(learner, "replica_axis", False):
                learner.replica_axis = True  # where rules look for it; a learner of one's own need not say so
        objective = self.objective.build(source, learner, streams)
        if self.replica_axis:
            for kind, part in (("source", source), ("objective", objective)):
                if isinstance(part, nn.Module):
                    trained = ((name, each) for name, each in part.named_parameters() if each.requires_grad)
                    _require_replicas(f"{kind} {type(part).__name__}", trained, streams)
        return GradientTraining(source, learner, objective, self.optimizer, self.rules, streams)


def _require_replicas(part: str, parameters: Iterable[tuple[str, nn.Parameter]], streams: Streams) -> None:
    replicas = len(streams.replicas)
    for name, parameter in parameters:
        if parameter.shape[:1] != (replicas,):
            raise ValueError(
                f"the parameter {name!r} of the {part} has shape {list(parameter.shape)}: "
                f"expected the replica axis in front, [{replicas}, ...], as draws.normal(...) has it"
            )


class GradientTraining(Experiment):
    """Some replicas of one arm in training.

    Args:
        source: samples data and knows the true features (``source.sample(draws, count)``).
        learner: the network; its first axis is the replica.
        objective: the loss of a fresh batch, one value a replica. If it is a module (a head, say) its parameters are
            trained too.
        optimizer: builds an `Optimizer`, such as those of `torch.optim`, from parameters.
        rules: what happens between steps, in order.
        streams: the replicas' random streams.

    Raises:
        ConfigError: the objective's target is a moving average, and no rule lets it follow.
    """

    def __init__(
        self,
        source: nn.Module,
        learner: nn.Module,
        objective: Objective,
        optimizer: OptimizerConfig,
        rules: Mapping[str, RuleConfig | None],
        streams: Streams,
    ) -> None:
        require_followed(objective, rules)
        super().__init__(streams)
        self.source: Any = source  # what they have beside being modules is between a study and its parts
        self.learner: Any = learner
        self.objective: Any = objective
        self.to(streams.device)
        self.optimizer = optimizer.build([p for p in self.parameters() if p.requires_grad])
        built = {name: rule.build(self) for name, rule in rules.items() if rule is not None}
        self.rules: Any = nn.ModuleDict(built)
        self.rules.to(streams.device)
        self._latest: list[Tensor] = []  # not a tensor of its own, as modules take two microseconds to take note of one

    def loss(self, draws: Draws) -> Float[Tensor, "replica"]:
        """Each replica's loss on a batch from ``draws``.

        Raises:
            ValueError: the objective returns anything but one value a replica.
        """
        loss = self.objective(self.seen(), self.source, draws)
        if not isinstance(loss, Tensor) or loss.shape != self.diverged.shape:
            found = f"a tensor of shape {list(loss.shape)}" if isinstance(loss, Tensor) else repr(loss)
            raise ValueError(
                f"the objective {type(self.objective).__name__} returned {found}: expected one loss a replica, a "
                f"tensor of shape {list(self.diverged.shape)}; average over samples only"
            )
        return loss

    def seen(self) -> nn.Module:
        """The learner as the objective sees it: as it is, but for rules that have a method ``seen(learner)``."""
        learner = self.learner
        for rule in self.rules.values():
            seen = getattr(rule, "seen", None)
            learner = seen(learner) if seen else learner
        return learner

    def advance(self, step: int) -> None:
        """One training step.

        Raises:
            DivergedError: a loss is not finite; the weights are left as they were.
        """
        self.optimizer.zero_grad(set_to_none=True)
        loss = self._differentiate(step)
        self.optimizer.step()
        self._silence()
        if rules := self.rules.values():
            with torch.no_grad():
                for rule in rules:
                    rule(self, step + 1)
            self._silence()
        self._latest[:] = [loss]

    def _differentiate(self, step: int) -> Float[Tensor, "replica"]:
        """Each replica's loss on the batch of a step, whose gradient is now where the optimizer looks for it."""
        own = type(self).loss is not GradientTraining.loss
        loss = None if own else gradient(self.seen(), self.source, self.objective, self.streams.at("batch", step))
        if loss is not None:
            self.require_finite("the loss", loss, step)
            return loss
        loss = self.loss(self.streams.at("batch", step))
        self.require_finite("the loss", loss.detach(), step)
        loss.sum().backward()  # replicas share no parameter, so the gradient of the sum separates
        return loss.detach()

    def status(self) -> str:
        """The loss of the latest batch, and what the rules have to say."""
        said = [rule.status() for rule in self.rules.values() if hasattr(rule, "status")]
        return "  ".join([*(f"loss {float(loss.mean()):.3f}" for loss in self._latest), *said])

    def events(self) -> dict[str, Int[Tensor, "replica"]]:
        """Those of the rules. What seems to happen to a replica once it is given up has not happened."""
        given_up, found = self.diverged >= 0, events_of(self.rules.values())
        return {name: step.masked_fill(given_up & (step >= self.diverged), -1) for name, step in found.items()}

    def look(self, step: int) -> Mapping[str, Measurement]:
        """The loss on another batch: of fresh data, or of what is trained on if source or objective are ``finite``."""
        loss = self.loss(self.streams.at("evaluate", step))
        finite = any(getattr(part, "finite", False) is True for part in (self.source, self.objective))
        return {"loss": Measurement(loss, about="loss on what is trained on" if finite else "loss on fresh data")}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Parameters and buffers, what the optimizer remembers, and its options, which a rule may change.

        Options are numbers, such as a step size or momentum, tuples of them, and tensors. What else a group may hold is
        that of a new optimizer after `restore`.
        """
        tensors, numbers = super().state()
        for index, group in enumerate(self.optimizer.param_groups):
            for name, value in group.items():
                if isinstance(value, Tensor):
                    tensors[f"optimizer.{_OPTION}.{index}.{name}"] = value
                elif name != "params" and _holds_numbers(value):
                    numbers[f"{_OPTION}.{index}.{name}"] = value
        for index, state in self.optimizer.state_dict()["state"].items():
            for key, value in state.items():
                if isinstance(value, Tensor):
                    tensors[f"optimizer.{index}.{key}"] = value
                elif value is not None:
                    numbers[f"{index}.{key}"] = value
        return tensors, numbers

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Go back to a `state`; one that was stored before options were kept has step sizes alone."""
        own = {key: value for key, value in tensors.items() if not key.startswith("optimizer.")}
        super().restore(own, {})
        remembered = {k.removeprefix("optimizer."): v for k, v in tensors.items() if k not in own} | dict(numbers)
        state: dict[int, dict[str, Any]] = {}
        options: list[tuple[int, str, Any]] = []
        for key, value in remembered.items():
            index, name = key.split(".", 1)
            if index == _OPTION:
                group, option = name.split(".", 1)
                options.append((int(group), option, value))
            elif index == _RATE:
                options.append((int(name), "lr", value))
            else:
                state.setdefault(int(index), {})[name] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        for index, held in self.optimizer.state_dict()["state"].items():  # in the precision of parameters by now
            held.update({name: _as_held(held.get(name), value) for name, value in state.get(index, {}).items()})
        for place, option, value in options:
            held = self.optimizer.param_groups[place]
            held[option] = _as_held(held.get(option), value)

    def require_sound(self, step: int) -> None:
        """Raise `DivergedError` if any trained parameter is not finite, or give its replica up."""
        super().require_sound(step)
        self._silence()

    def _silence(self) -> None:
        """Set what given-up replicas have learned to 0, so that nothing that is not finite spreads to probes."""
        if self.gives_up and (given_up := self.diverged >= 0).any():
            self._set_to_0(given_up)

    @torch.no_grad()
    def _set_to_0(self, given_up: Bool[Tensor, "replica"]) -> None:
        for tensor in (*self.parameters(), *self.learner.buffers()):
            if len(given_up) == 1:
                tensor.zero_()
            elif tensor.shape[:1] == given_up.shape:
                tensor[given_up] = 0


def _holds_numbers(option: Any) -> bool:
    """Whether an option of an optimizer is a number, or a tuple of numbers."""
    return all(isinstance(one, int | float) for one in (option if isinstance(option, tuple) else (option,)))


def _as_held(held: Any, option: Any) -> Any:
    """An option that was stored, as the optimizer holds it: a file has lists for tuples, and is read on the CPU."""
    if isinstance(held, Tensor) and isinstance(option, Tensor):
        return option.to(held.device)
    return tuple(option) if isinstance(option, list) else option
