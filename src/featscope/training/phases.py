"""When each trajectory passes from phase to phase (Wen & Li 2022, Section 5 and Appendices B-E)."""

from dataclasses import dataclass
from math import log
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from featscope.models.population import OrderParameters, PopulationNetwork
from featscope.training.flow import Flow

LEARNED = 0.5  # |B| from which on a feature counts as learned; the paper's 0.01 is below the start at these sizes
RETURNED = 0.1  # of the peak of |E_21|, below which the head counts as returned
BORROWED = 10.0  # times its own signal that the slow neuron has of the fast one's, from which on it has substituted it
EVENTS = ("strong_learned", "substituted", "noise_fallen", "weak_learned", "returned")
KEPT = ("strong_learned", "substituted", "weak_learned")
QUANTITIES = ("B_11", "B_12", "B_21", "B_22", "R_1", "R_2", "R_12", "E_12", "E_21")
"""What is watched: B with its sign at the start, R_12 as a cosine without sign, E_12 without sign and over R_1^1.5, and
E_21 with the sign of B_11 B_21 at the start. What keeps its sign is positive."""


@dataclass(frozen=True)
class Phases:
    """Watches trajectories of two neurons at every integration step.

    Neuron 1 of the paper is called fast: the one that starts with the larger overlap with the strong feature. The
    other is slow. Events, and the time at which they first happen:

    - ``strong_learned``, T_1: |B_11| ≥ `LEARNED`;
    - ``substituted``: |E_21 B_11³| ≥ `BORROWED` |B_21³|, what Lemma 5.2 says of T_2;
    - ``noise_fallen``: R_2 < |E_21|/log d, how Appendix C defines T_2;
    - ``weak_learned``, T_3: |B_22| ≥ min(|B_11|, √(η/η_E) |E_21|)/2 and `LEARNED`;
    - ``returned``: after T_3, |E_21| ≤ `RETURNED` of its peak.

    What happens at different steps in different trajectories of a replica is no event of the replica.

    Of each of the phases that ``strong_learned``, ``substituted`` and ``weak_learned`` part, the least and the largest
    of `QUANTITIES` are kept: ``low`` and ``high``.

    Attributes:
        input_dim: d.
    """

    input_dim: int

    def build(self, experiment: Flow) -> "PhasesRule":
        """The rule for ``experiment``."""
        return PhasesRule(experiment.learner, log(self.input_dim))


@dataclass(frozen=True)
class FrozenHead:
    """Keeps the head as it is once E_21 has risen: the slow neuron has borrowed, and |E_21| is below its largest.

    It stands after `Phases`, called "phases", which knows both.
    """

    def build(self, experiment: Flow) -> "FrozenHeadRule":
        """The rule for ``experiment``."""
        return FrozenHeadRule()


class FrozenHeadRule(nn.Module):
    """`FrozenHead` at work on ``learner.frozen``."""

    def forward(self, experiment: Flow, step: int) -> None:
        """Freeze heads that have risen."""
        learner: PopulationNetwork = experiment.learner
        phases: Any = experiment.rules["phases"]
        _, _, e = learner.order_parameters.by_role(phases.fast.flatten())
        falls = e[1].abs().view_as(learner.frozen) < phases.peak
        learner.frozen |= falls & phases.substituted.isfinite()


def invariants(y: OrderParameters, rate: Float[Tensor, " trajectory"]) -> Float[Tensor, "neuron trajectory"]:
    """||w_k||² - 3 (η/η_E)(Σ_j E_jk² - Σ_r E_kr²), which gradient flow keeps (D); without head, ||w_k||²."""
    lent = (y.e**2).sum(0) - (y.e**2).sum(1)
    return (y.b**2).sum(1) + y.norms - 3 * torch.where(rate > 0, lent / rate, 0.0)


class Signs(NamedTuple):
    """Signs of a start.

    Attributes:
        b: of B, by role.
        lent: of B_11 B_21, which E_21 comes to have.
    """

    b: Float[Tensor, "2 2 trajectory"]
    lent: Float[Tensor, " trajectory"]

    @classmethod
    def of(cls, start: OrderParameters, fast: Int[Tensor, " trajectory"]) -> "Signs":
        """Those of ``start``."""
        b, _, _ = start.by_role(fast)
        return cls(b.sign(), (b[0, 0] * b[1, 0]).sign())


def quantities(
    y: OrderParameters, fast: Int[Tensor, " trajectory"], begun: Signs
) -> Float[Tensor, "quantity trajectory"]:
    """`QUANTITIES` of two neurons."""
    b, r, e = y.by_role(fast)
    cosine = y.r[0, 1].abs() * (r[0] * r[1]).rsqrt()
    return torch.stack([*(b * begun.b).flatten(0, 1), *r, cosine, e[0].abs() * r[0] ** -1.5, e[1] * begun.lent])


class _Fixed(NamedTuple):
    """What stays as trajectories move.

    Attributes:
        of: the start that it is of, and how often that had been written.
        begun: its signs.
        kept: its `invariants`.
        rate: η_E/η, of frozen heads, too.
    """

    of: tuple[Tensor, int]
    begun: Signs
    kept: Float[Tensor, "neuron trajectory"]
    rate: Float[Tensor, " trajectory"]


class PhasesRule(nn.Module):
    """The rule that `Phases` describes.

    Buffers are ``[replica, start]``, ``low`` and ``high`` ``[replica, start, phase, quantity]``; times are inf until
    the event happens.
    """

    def __init__(self, learner: PopulationNetwork, log_dim: float) -> None:
        super().__init__()
        shape, state = learner.state.shape[:2], learner.state.detach()
        self.register_buffer("log_dim", torch.full(shape, log_dim, dtype=torch.float64, device=state.device))
        self.register_buffer("fast", learner.order_parameters.b[:, 0].abs().argmax(0).view(shape))
        self.register_buffer("start", state.clone())
        for event in EVENTS:
            self.register_buffer(event, torch.full_like(self.get_buffer("log_dim"), torch.inf))
        for moment in (*KEPT, "peak"):
            self.register_buffer(f"at_{moment}", state.clone())
        for end, nothing in (("low", torch.inf), ("high", -torch.inf)):
            self.register_buffer(end, state.new_full((*shape, len(KEPT) + 1, len(QUANTITIES)), nothing))
        self.register_buffer("peak", torch.zeros_like(self.get_buffer("log_dim")))
        self.register_buffer("drift", torch.zeros_like(self.get_buffer("log_dim")))
        self._known: _Fixed | None = None

    def trajectories(self) -> dict[str, Tensor]:
        """What it remembers, ``[trajectory, ...]``."""
        return {name: buffer.flatten(0, 1) for name, buffer in self.named_buffers()}

    def forward(self, experiment: Flow, step: int) -> None:
        """Look at where trajectories are."""
        learner: PopulationNetwork = experiment.learner
        y, kept, fixed = learner.order_parameters, self.trajectories(), self._fixed(learner)
        b, r, e = y.by_role(kept["fast"])
        lent, state = e[1].abs(), learner.state.detach().flatten(0, 1)
        _put(kept["at_peak"], state, lent > kept["peak"])
        torch.maximum(kept["peak"], lent, out=kept["peak"])
        drift = (invariants(y, fixed.rate) - fixed.kept).abs().amax(0)
        torch.maximum(kept["drift"], drift, out=kept["drift"])
        size = b.abs()
        strong, weak = size[0, 0], size[1, 1]
        reach = torch.minimum(strong, lent / fixed.rate.clamp_min(1e-300).sqrt())
        time = experiment.time.flatten()
        happened: dict[str, Bool[Tensor, " trajectory"]] = {
            "strong_learned": strong >= LEARNED,
            "substituted": lent * strong**3 >= BORROWED * size[1, 0] ** 3,
            "noise_fallen": r[1] < lent / kept["log_dim"],
            "weak_learned": (weak >= reach / 2) & (weak >= LEARNED),
            "returned": kept["weak_learned"].isfinite() & (lent <= RETURNED * kept["peak"]),
        }
        for event, now in happened.items():
            if event in KEPT:
                _put(kept[f"at_{event}"], state, now & kept[event].isinf())
            torch.minimum(kept[event], time.where(now, torch.inf), out=kept[event])  # later times are larger
        self._watch(kept, y, fixed.begun)

    def _watch(self, kept: dict[str, Tensor], y: OrderParameters, begun: Signs) -> None:
        """The phase that each trajectory is in has its quantities' ends moved."""
        one, two, three = (kept[event].isfinite() for event in KEPT)
        phase = torch.where(three, 3, torch.where(one, 1 + two.long(), 0))
        now = quantities(y, kept["fast"], begun).mT[:, None]
        place = phase[:, None, None].expand_as(now)
        for end, least in (("low", torch.minimum), ("high", torch.maximum)):
            kept[end].scatter_(1, place, least(kept[end].gather(1, place), now))

    def _fixed(self, learner: PopulationNetwork) -> _Fixed:
        """Computed once, and again if another start was read into the buffer."""
        start = self.get_buffer("start")
        if self._known is None or self._known.of[0] is not start or self._known.of[1] != start._version:
            begun = OrderParameters.unpack(start.flatten(0, 1).mT, 2)
            rate = learner.get_buffer("rate").repeat_interleave(start.shape[1])
            signs = Signs.of(begun, self.get_buffer("fast").flatten())
            self._known = _Fixed((start, start._version), signs, invariants(begun, rate), rate)
        return self._known


def _put(kept: Float[Tensor, "trajectory number"], state: Tensor, where: Bool[Tensor, " trajectory"]) -> None:
    """States into the rows of those that are meant, if any are."""
    if where.any():
        kept.copy_(state.where(where[:, None], kept))
