"""Rules applied between steps. A rule is a module: what it remembers is in its state and so in checkpoints."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isclose, log, sqrt
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from featscope.numbers import per_replica
from featscope.options import require, require_word


@dataclass(frozen=True)
class FirstTime:
    """Remember the first step at which a condition holds, for each replica.

    Attributes:
        name: name of the event.
        condition: maps the experiment to one truth value a replica.
        every: steps between looks.
    """

    looks_only: ClassVar[bool] = True

    name: str
    condition: Callable[[Any], Bool[Tensor, "replica"]]
    every: int = 10

    def build(self, experiment: Any) -> "FirstTimeRule":
        """The rule for ``experiment``."""
        return FirstTimeRule(self, len(experiment.streams.replicas))


class FirstTimeRule(nn.Module):
    """`FirstTime` at work."""

    step: Int[Tensor, "replica"]

    def __init__(self, config: FirstTime, replicas: int) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("step", torch.full((replicas,), -1, dtype=torch.int64))

    def forward(self, experiment: Any, step: int) -> None:
        """Look, if it is time."""
        if step % self.config.every == 0:
            new = self.config.condition(experiment) & (self.step < 0)
            self.step.masked_fill_(new, step)

    def events(self) -> dict[str, Int[Tensor, "replica"]]:
        """The step of the event; -1 where it has not happened."""
        return {self.config.name: self.step}


@dataclass(frozen=True)
class BiasSchedule:
    """The three-stage bias schedule (Wen & Li 2021, Section 2.2 and Appendices C to E).

    Stage I: b = 0, until the weights lie mostly in the feature space. Then b_i = reset √(2 log d/d) ||w_i||.
    Stages II and III: b_i <- b_i (1 + max{growth η/d, ||w_i(t+1)||/||w_i(t)|| - 1}) while b_i is below its cap.
    Stage III begins when some ||w_i||² has grown d-fold since Stage I; it changes nothing, and is only recorded.

    reset = growth = 1 is the paper's own schedule. It kills every neuron at the sizes a computer reaches: the
    threshold grows at rate η/d, a lucky weight at η(p(1 - b/α) - λ), and p = C_z log log d/d is not larger.

    Attributes:
        reset: factor on the threshold at the end of Stage I.
        growth: factor on the minimum growth rate η/d.
        cap_power: b_i may grow while b_i <= (log d)^cap_power / √d.
        cap_ratio: beyond b_i = cap_ratio ||w_i|| it only follows the norm; None for no such cap.
        stage1_ends: what ends Stage I: "energy", the median over neurons of ||Mᵀw_i||²/||w_i||² reaches
            ``feature_energy``; "norm", every ||w_i||² reaches ``norm_growth`` times its initial value.
        feature_energy: threshold of "energy".
        norm_growth: threshold of "norm"; the paper's Appendix A.2 gives 2 + O(c0).
    """

    floats_per_replica: ClassVar[bool] = True

    reset: float = 0.6
    growth: float = 0.3
    cap_power: float = 2.0
    cap_ratio: float | None = None
    stage1_ends: Literal["energy", "norm"] = "energy"
    feature_energy: float = 0.8
    norm_growth: float = 2.0

    def __post_init__(self) -> None:
        require(self, "reset", self.reset >= 0, ">= 0")
        require(self, "growth", self.growth >= 0, ">= 0")
        require(self, "cap_power", True, "any number")
        require(self, "cap_ratio", self.cap_ratio is None or self.cap_ratio > 0, "> 0, or None")
        require_word(self, "stage1_ends")
        require(self, "feature_energy", 0 < self.feature_energy < 1, "between 0 and 1")
        require(self, "norm_growth", self.norm_growth > 1, "> 1")

    def build(self, experiment: Any) -> "BiasScheduleRule":
        """The rule for ``experiment``: d from its dictionary, η from its optimizer."""
        features = experiment.source.dictionary.shape[-1]
        return BiasScheduleRule(self, experiment.learner.weight, features, experiment.optimizer.param_groups[0]["lr"])


class BiasScheduleRule(nn.Module):
    """`BiasSchedule` at work on ``learner.weight`` and ``learner.bias``; looks at ``source.dictionary``."""

    floats_per_replica = True
    stage: Int[Tensor, "replica"]
    stage1_end: Int[Tensor, "replica"]
    stage2_end: Int[Tensor, "replica"]
    norm: Float[Tensor, "replica neuron"]
    reference_norm: Float[Tensor, "replica neuron"]
    reset_bias: Float[Tensor, "replica neuron"]

    def __init__(self, config: BiasSchedule, weight: Tensor, features: int, lr: float) -> None:
        super().__init__()
        self.config, self.features = config, features
        self.minimum_growth = config.growth * lr / features
        self.reset_ratio = config.reset * sqrt(2 * log(features) / features)
        self.cap = log(features) ** config.cap_power / sqrt(features)
        norm = weight.detach().norm(dim=-1)
        never = torch.full(norm.shape[:1], -1, dtype=torch.int64)
        self.register_buffer("stage", torch.ones_like(never))
        self.register_buffer("stage1_end", never.clone())
        self.register_buffer("stage2_end", never.clone())
        self.register_buffer("norm", norm)
        self.register_buffer("reference_norm", norm.clone())  # at the start, then at the end of Stage I
        self.register_buffer("reset_bias", torch.zeros_like(norm))  # then, too; what thresholds were set to

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Checkpoints from before 2026-11-28 do not have what thresholds were set to."""
        state_dict.setdefault(f"{prefix}reset_bias", torch.full_like(self.reset_bias, torch.nan))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def forward(self, experiment: Any, step: int) -> None:
        """Move the biases after a step, and the stages."""
        weight, bias = experiment.learner.weight, experiment.learner.bias
        norm = weight.norm(dim=-1)
        growth = norm / self.norm - 1
        faster = growth.clamp_min(per_replica(self.minimum_growth, growth))
        if self.config.cap_ratio is not None:
            faster = torch.where(bias < per_replica(self.config.cap_ratio, norm) * norm, faster, growth)
        grown = bias * (1 + faster)
        bias.copy_(torch.where((bias > 0) & (bias <= per_replica(self.cap, bias)), grown, bias))
        second = self.stage == 2
        if (self.stage == 1).any():
            ending = (self.stage == 1) & self._stage1_is_over(experiment, norm)
            bias.copy_(torch.where(ending[:, None], per_replica(self.reset_ratio, norm) * norm, bias))
            self.reference_norm.copy_(torch.where(ending[:, None], norm, self.reference_norm))
            self.reset_bias.copy_(torch.where(ending[:, None], bias, self.reset_bias))
            self.stage1_end.masked_fill_(ending, step)
            self.stage.masked_fill_(ending, 2)
        if second.any():
            ending = second & (norm.square() >= self.features * self.reference_norm.square()).any(-1)
            self.stage2_end.masked_fill_(ending, step)
            self.stage.masked_fill_(ending, 3)
        self.norm.copy_(norm)

    def _stage1_is_over(self, experiment: Any, norm: Float[Tensor, "replica neuron"]) -> Bool[Tensor, "replica"]:
        if self.config.stage1_ends == "norm":
            grown = per_replica(self.config.norm_growth, norm) * self.reference_norm.square()
            return (norm.square() >= grown).all(-1)
        aligned = (experiment.learner.weight @ experiment.source.dictionary).square().sum(-1)
        share = aligned / norm.square()
        # The lower median reaches what more than half of the numbers do; it is NaN where one of them is.
        reached = (share >= per_replica(self.config.feature_energy, share)).sum(-1) > share.shape[-1] // 2
        return reached & ~share.isnan().any(-1)

    def events(self) -> dict[str, Int[Tensor, "replica"]]:
        """T1 and T2; -1 where not reached."""
        return {"stage1_end": self.stage1_end, "stage2_end": self.stage2_end}

    def status(self) -> str:
        """The stage of the replica that is behind."""
        return f"stage {'I' * int(self.stage.min())}"


@dataclass(frozen=True)
class ProportionalBias:
    """Thresholds in a fixed ratio to norms: b_i = c ||w_i||; c is 0 at first, then goes from one value to another.

    A simple stand-in for `BiasSchedule` where only the end of training matters.

    Attributes:
        first: c at step ``begins``.
        last: c from ``begins`` + ``takes`` on.
        begins: step before which b = 0.
        takes: steps from ``first`` to ``last``.
    """

    floats_per_replica: ClassVar[bool] = True

    first: float = 0.25
    last: float = 0.25
    begins: int = 0
    takes: int = 0

    def __post_init__(self) -> None:
        require(self, "first", 0 <= self.first < 1, ">= 0 and < 1")
        require(self, "last", 0 <= self.last < 1, ">= 0 and < 1")
        require(self, "begins", self.begins >= 0, ">= 0")
        require(self, "takes", self.takes >= 0, ">= 0")

    def build(self, experiment: Any) -> "ProportionalBiasRule":
        """The rule for ``experiment``; sets the thresholds of the start."""
        rule = ProportionalBiasRule(self)
        with torch.no_grad():
            rule(experiment, 0)
        return rule


class ProportionalBiasRule(nn.Module):
    """`ProportionalBias` at work on ``learner.weight`` and ``learner.bias``."""

    def __init__(self, config: ProportionalBias) -> None:
        super().__init__()
        self.config = config

    def forward(self, experiment: Any, step: int) -> None:
        """Set the thresholds after a step."""
        config = self.config
        if step < config.begins:
            return
        done = min(1.0, (step - config.begins) / config.takes) if config.takes else 1.0
        ratio = config.first + (config.last - config.first) * done
        norm = experiment.learner.weight.norm(dim=-1)
        experiment.learner.bias.copy_(per_replica(ratio, norm) * norm)


@dataclass(frozen=True)
class Cooling:
    """The step size falls on a line to 0 at the end.

    Attributes:
        steps: of the whole training, or more.
        lr: at the start; the optimizer's.
    """

    floats_per_replica: ClassVar[bool] = True

    steps: int
    lr: float

    def __post_init__(self) -> None:
        require(self, "steps", self.steps >= 1, ">= 1")
        require(self, "lr", self.lr > 0, "> 0")

    def build(self, experiment: Any) -> "CoolingRule":
        """The rule for ``experiment``.

        Raises:
            ConfigError: its optimizer begins with another step size, which would be that of the first step alone.
        """
        for group in experiment.optimizer.param_groups:
            rate = float(group["lr"])
            same = isclose(rate, self.lr, rel_tol=1e-6)  # in float32 where an optimizer has it in a tensor
            require(self, "lr", same, f"the optimizer's step size, {rate:g}", "Change both.")
        return CoolingRule(self)


class CoolingRule(nn.Module):
    """`Cooling` at work."""

    def __init__(self, config: Cooling) -> None:
        super().__init__()
        self.config = config

    def forward(self, experiment: Any, step: int) -> None:
        """Set the step size of the next step; it follows from the number of the step alone."""
        for group in experiment.optimizer.param_groups:
            group["lr"] = self.config.lr * max(0.0, 1 - step / self.config.steps)
