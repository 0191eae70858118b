"""When each trajectory passes from phase to phase (Wen & Li 2022, Section 5 and Appendices B-E)."""

from dataclasses import dataclass
from math import log
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from featscope.training.flow import Flow
from featscope.training.population import OrderParameters, PopulationNetwork

LEARNED = 0.5  # |B| from which on a feature counts as learned; the paper's 0.01 is below the start at these sizes
RETURNED = 0.1  # of the peak of |E_21|, below which the head counts as returned
BORROWED = 10.0  # times its own signal that the slow neuron has of the fast one's, from which on it has substituted it
EVENTS = ("strong_learned", "substituted", "noise_fallen", "signal_leads", "weak_learned", "returned")
KEPT = ("strong_learned", "substituted")


@dataclass(frozen=True)
class Phases:
    """Watches trajectories of two neurons at every integration step.

    Neuron 1 of the paper is called fast: the one that starts with the larger overlap with the strong feature. The
    other is slow. Events, and the time at which they first happen:

    - ``strong_learned``, T_1: |B_11| ≥ `LEARNED`;
    - ``substituted``: |E_21 B_11³| ≥ `BORROWED` |B_21³|, what Lemma 5.2 says of T_2;
    - ``noise_fallen``: R_2 < |E_21|/log d, how Appendix C defines T_2;
    - ``signal_leads``, T_3,1: C1 α_2⁶ B_22⁶ ≥ C2 R_2³;
    - ``weak_learned``, T_3: |B_22| ≥ min(|B_11|, √(η/η_E) |E_21|)/2 and `LEARNED`;
    - ``returned``: after T_3, |E_21| ≤ `RETURNED` of its peak.

    Attributes:
        input_dim: d.
    """

    input_dim: int

    def build(self, experiment: Flow) -> "PhasesRule":
        """The rule for ``experiment``."""
        return PhasesRule(experiment, log(self.input_dim))


def roles(
    y: OrderParameters, fast: Int[Tensor, " trajectory"]
) -> tuple[Float[Tensor, "2 2 trajectory"], Float[Tensor, "2 trajectory"], Float[Tensor, "2 trajectory"]]:
    """B with the fast neuron first, (R_1, R_2), and (E_12, E_21)."""
    order = torch.stack([fast, 1 - fast])
    b = y.b.gather(0, order[:, None].expand_as(y.b))
    r = y.r.diagonal(dim1=0, dim2=1).mT.gather(0, order)
    e = torch.stack([y.e[0, 1], y.e[1, 0]]).gather(0, order)
    return b, r, e


def invariants(y: OrderParameters, rate: Float[Tensor, " trajectory"]) -> Float[Tensor, "neuron trajectory"]:
    """||w_k||² - 3 (η/η_E)(Σ_j E_jk² - Σ_r E_kr²), which gradient flow keeps (D); without head, ||w_k||²."""
    norms = (y.b**2).sum(1) + y.r.diagonal(dim1=0, dim2=1).mT
    lent = (y.e**2).sum(0) - (y.e**2).sum(1)
    return norms - 3 * torch.where(rate > 0, lent / rate, 0.0)


class PhasesRule(nn.Module):
    """The rule that `Phases` describes. Buffers are ``[replica, start]``; times are inf until the event happens."""

    def __init__(self, experiment: Flow, log_dim: float) -> None:
        super().__init__()
        learner = cast(PopulationNetwork, experiment.learner)
        shape, state = learner.state.shape[:2], learner.state.detach()
        y = learner.order_parameters
        self.register_buffer("log_dim", torch.full(shape, log_dim, dtype=torch.float64, device=state.device))
        self.register_buffer("fast", y.b[:, 0].abs().argmax(0).view(shape))
        self.register_buffer("start", state.clone())
        for event in EVENTS:
            self.register_buffer(event, torch.full_like(self.get_buffer("log_dim"), torch.inf))
        for moment in (*KEPT, "peak"):
            self.register_buffer(f"at_{moment}", state.clone())
        self.register_buffer("peak", torch.zeros_like(self.get_buffer("log_dim")))
        self.register_buffer("drift", torch.zeros_like(self.get_buffer("log_dim")))

    def forward(self, experiment: Flow, step: int) -> None:
        """Look at where trajectories are."""
        learner = cast(PopulationNetwork, experiment.learner)
        y, shape = learner.order_parameters, learner.state.shape[:2]
        everyone = torch.arange(shape.numel(), device=y.b.device)
        of, flat = learner.population(everyone), {name: b.flatten(0, 1) for name, b in self.named_buffers()}
        b, r, e = roles(y, flat["fast"])
        lent, state = e[1].abs(), learner.state.detach().flatten(0, 1)
        rising = lent > flat["peak"]
        flat["at_peak"][rising] = state[rising]
        flat["peak"].copy_(torch.maximum(flat["peak"], lent))
        kept = invariants(OrderParameters.unpack(flat["start"].mT, 2), of.rate)
        flat["drift"].copy_(torch.maximum(flat["drift"], (invariants(y, of.rate) - kept).abs().amax(0)))
        reach = torch.minimum(b[0, 0].abs(), lent / of.rate.clamp_min(1e-300).sqrt())
        weak = b[1, 1].abs()
        happened: dict[str, Bool[Tensor, " trajectory"]] = {
            "strong_learned": b[0, 0].abs() >= LEARNED,
            "substituted": (lent * b[0, 0] ** 3).abs() >= BORROWED * (b[1, 0] ** 3).abs(),
            "noise_fallen": r[1] < lent / flat["log_dim"],
            "signal_leads": of.own[1] * b[1, 1] ** 6 >= of.noise_patches * r[1] ** 3,
            "weak_learned": (weak >= reach / 2) & (weak >= LEARNED),
            "returned": flat["weak_learned"].isfinite() & (lent <= RETURNED * flat["peak"]),
        }
        time = experiment.time.flatten()
        for event, now in happened.items():
            first = now & flat[event].isinf()
            flat[event][first] = time[first]
            if event in KEPT:
                flat[f"at_{event}"][first] = state[first]

    def events(self) -> dict[str, Tensor]:
        """None: what happens at different steps in different trajectories of a replica is no event of the replica."""
        return {}
