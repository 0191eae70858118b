"""A target network that follows the trained one slowly (BYOL; Wen & Li 2022, Section 8)."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from featscope.options import ConfigError, require
from featscope.training.pruning import Pruner

_WIDE = 4  # bytes of a number whose mean is kept in its own precision


class MovingAverage(nn.Module):
    """A copy of a module whose weights are an exponential moving average of the module's.

    The copy is not trained; it is in the state, and so in checkpoints. Works in any loop: call ``update`` after each
    step of the optimizer. Means of weights in half precision are kept in float32 beside them, as small steps would be
    rounded away. Hooks that the module has are copied with it: register your own, which keep features, after this.

    Args:
        module: what is followed; it is handed in again at ``update``.
        momentum: the share of the average that stays at an update.

    Raises:
        ConfigError: the momentum is out of range.
        ValueError: the module has no parameters to follow, as a `Pruner` has none: give its ``module``; or a `Pruner`
            within, whose copy would never choose anew.
    """

    def __init__(self, module: nn.Module, momentum: float = 0.99) -> None:
        super().__init__()
        self.momentum = momentum
        _require_momentum(self)
        if next(module.parameters(), None) is None:
            raise ValueError(
                f"{type(module).__name__} has no parameters to follow: allowed is a module that has. Where it stands "
                "for another, as a Pruner does, give that one: pruner.module"
            )
        if name := next((name for name, part in module.named_modules() if isinstance(part, Pruner)), ""):
            raise ValueError(
                f"{name!r} is a Pruner, whose copy would hide for good what it hid at first: allowed is a module "
                "without. Follow what it prunes, pruner.module, and other parts by averages of their own"
            )
        self.average = deepcopy(module).requires_grad_(False)
        self._seen: dict[int, int] = {}  # versions of weights in half precision after the last update
        self._widen()

    def _widen(self) -> None:
        """Keep in float32 what is narrower: at the start, and once this was cast itself."""
        for place, mean in enumerate(self.average.parameters()):
            kept = getattr(self, f"mean_{place}", mean)
            if kept.dtype.itemsize < _WIDE:
                self.register_buffer(f"mean_{place}", kept.detach().float())

    @torch.no_grad()
    def update(self, module: nn.Module) -> None:
        """θ' <- momentum θ' + (1 - momentum) θ for weights; buffers are copied."""
        self._widen()
        for place, (mean, now) in enumerate(zip(self.average.parameters(), module.parameters(), strict=True)):
            wide = getattr(self, f"mean_{place}", mean)
            written = mean.dtype.itemsize < _WIDE and self._seen.get(place) != mean._version
            if written and not torch.equal(wide.to(mean.dtype), mean):  # asked only then, as it waits for a GPU
                wide.copy_(mean)  # others were loaded into the average
            wide.lerp_(now.to(wide.dtype), 1 - self.momentum)
            if wide is not mean:
                mean.copy_(wide)
                self._seen[place] = mean._version
        for kept, buffer in zip(self.average.buffers(), module.buffers(), strict=True):
            kept.copy_(buffer)

    def forward(self, x: Tensor) -> Tensor:
        """What the copy makes of ``x``."""
        return self.average(x)


@dataclass(frozen=True)
class EMA:
    """Targets come from a moving average of the network instead of the network itself.

    Attributes:
        momentum: share of the average that stays at a step; constant, where BYOL lets it rise to 1.
    """

    momentum: float = 0.99

    def __post_init__(self) -> None:
        _require_momentum(self)

    def target(self, module: nn.Module) -> MovingAverage:
        """The target network of ``module``, at first its equal."""
        return MovingAverage(module, self.momentum)

    def build(self, experiment: Any) -> "EMARule":
        """The rule for ``experiment``, whose objective has ``target`` (a `MovingAverage`) and ``online(learner)``.

        Raises:
            ConfigError: the objective has no target, or one of another momentum, which is what would be used.
        """
        kept = getattr(getattr(experiment.objective, "target", None), "momentum", None)
        cure = "Give the objective this average as its target, or leave the rule out."
        require(self, "momentum", kept is not None, "an objective whose target is a moving average", cure)
        require(self, "momentum", kept == self.momentum, f"that of the objective's target, {kept}", "Change both.")
        return EMARule()


def _require_momentum(config: MovingAverage | EMA) -> None:
    cure = "It is the share of the average that stays, no percentage: 0.99."
    require(config, "momentum", 0 <= config.momentum < 1, ">= 0 and < 1", cure)


class EMARule(nn.Module):
    """`EMA` at work on ``objective.target``."""

    def forward(self, experiment: Any, step: int) -> None:
        """Let the target follow after a step."""
        experiment.objective.target.update(experiment.objective.online(experiment.learner))


def require_followed(objective: Any, rules: Mapping[str, Any]) -> None:
    """Raise `ConfigError` if the objective's target is a moving average for the rule `EMA`, and no rule moves it.

    Rules of other packages may do what `EMA` does, unless they only look.
    """
    target = getattr(objective, "target", None)
    if not isinstance(target, MovingAverage) or not hasattr(objective, "online"):
        return
    given = {name: rule for name, rule in rules.items() if rule is not None}
    for rule in given.values():
        own = type(rule).__module__.startswith("featscope.")
        if isinstance(rule, EMA) or not (own or getattr(rule, "looks_only", False)):
            return
    cure = f"EMA({target.momentum})"
    raise ConfigError(
        f"rules = {[*given]} are out of range: allowed are rules of which one is {cure}, as the target of the "
        f"objective {type(objective).__name__} is a MovingAverage (momentum {target.momentum}), which stays as it "
        f"began without. Give rules={{'ema': {cure}}}, or the objective no target."
    )
