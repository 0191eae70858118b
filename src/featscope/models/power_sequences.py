"""The tensor power method: a leader x and a rival y under random positive factors (Wen & Li 2022, Appendix G)."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from featscope.options import require, require_word
from featscope.streams import Draws

LEVEL = 1.0
"""A, the unit of x: sequences are followed until they pass it."""
BLOCK = 100
"""Steps of the recursion in a step of the experiment."""
CAP = 1e6
"""Values beyond it are kept there."""

_WIDTH = 0.25

Rival = Literal["constant", "random"]


@dataclass(frozen=True)
class Powers:
    """Sequences x_{t+1} = x_t + η C_t x_t^q and the factors of their rivals.

    Attributes:
        power: q. The paper's neurons grow with q = 5 at first.
        weight: q' of Lemma G.3's sums; the lemma asks for q' >= 3.
        step_size: η.
        start: smallest x_0; sequences begin uniformly between it and a quarter more.
        scale: mean of C_t, which is log-normal.
        spread: standard deviation of log C_t.
        strongest: max S_t, by which the rival's factor is larger.
        sequences: sequences in a replica.
    """

    power: int = 5
    weight: int = 3
    step_size: float = 0.01
    start: float = 0.2
    scale: float = 1.0
    spread: float = 0.5
    strongest: float = 2.0
    sequences: int = 16

    def __post_init__(self) -> None:
        require(self, "power", self.power >= 1, ">= 1")
        require(self, "weight", self.weight >= 0, ">= 0")
        require(self, "step_size", 0 < self.step_size < 1, "(0, 1)")
        inside = 0 < (1 + _WIDTH) * self.start < LEVEL
        require(self, "start", inside, f"(0, {LEVEL / (1 + _WIDTH):g})", f"Sequences begin below A = {LEVEL:g}.")
        require(self, "scale", self.scale > 0, "> 0")
        require(self, "spread", self.spread >= 0, ">= 0")
        require(self, "strongest", self.strongest > 0, "> 0")
        comparable = self.power > 1 or self.strongest == 1
        require(self, "strongest", comparable, "1 where power = 1", "No lead makes up for S then.")
        require(self, "sequences", self.sequences >= 1, ">= 1")


@dataclass(frozen=True)
class PowerMethod(Powers):
    """Options of `PowerSequences`.

    Attributes:
        lead: x_0/(y_0 (max S)^(1/(q-1))), which sets y_0; Corollary G.2 asks for more than 1.
        strength: S_t constant, or uniform up to its largest value.
    """

    lead: float = 1.1
    strength: Rival = "constant"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "lead", self.lead > 0, "> 0")
        require_word(self, "strength")

    def build(self, draws: Draws) -> "PowerSequences":
        """Sequences at their starts."""
        leader = self.start * (1 + _WIDTH * draws.uniform(self.sequences, dtype=torch.float64))
        threshold = 1.0 if self.power == 1 else self.strongest ** (1 / (self.power - 1))
        return PowerSequences(leader, leader / (self.lead * threshold), self)


class PowerSequences(nn.Module):
    """x_{t+1} = x_t + η C_t x_t^q, y_{t+1} = y_t + η S_t C_t y_t^q, until x_t > A; and sums over t with x_t <= A.

    C_t is log-normal. S_t is its largest value, or uniform up to it (Wen & Li 2022, Lemma G.1 and Corollary G.2).

    Args:
        leader: x_0 > 0, float64.
        rival: y_0 > 0, float64.
        options: powers and numbers.

    Attributes:
        state: x and y where they stand, or where they stopped: x at its first value beyond A, y at the same t.
        before: y at the last t with x_t <= A.
        total: Σ η C_t.
        weighted: Σ η C_t x_t^q'.
        area: Σ x_t (x_{t+1} - x_t).
        factor: the largest C_t.
        jump: the largest x_{t+1} - x_t.
        ratio: the largest x_{t+1}/x_t.
        taken: how many these steps are.
    """

    before: Float[Tensor, "replica sequence"]
    total: Float[Tensor, "replica sequence"]
    weighted: Float[Tensor, "replica sequence"]
    area: Float[Tensor, "replica sequence"]
    factor: Float[Tensor, "replica sequence"]
    jump: Float[Tensor, "replica sequence"]
    ratio: Float[Tensor, "replica sequence"]
    taken: Float[Tensor, "replica sequence"]
    start: Float[Tensor, "replica 2 sequence"]
    step_size: Float[Tensor, " replica"]
    scale: Float[Tensor, " replica"]
    spread: Float[Tensor, " replica"]
    strongest: Float[Tensor, " replica"]

    def __init__(
        self,
        leader: Float[Tensor, "replica sequence"],
        rival: Float[Tensor, "replica sequence"],
        options: PowerMethod,
    ) -> None:
        super().__init__()
        self.power, self.weight, self.strength = options.power, options.weight, options.strength
        self.state = nn.Parameter(torch.stack([leader, rival], 1), requires_grad=True)
        self.register_buffer("start", self.state.detach().clone())
        self.register_buffer("before", rival.clone())
        for name in ("total", "weighted", "area", "factor", "jump", "taken"):
            self.register_buffer(name, torch.zeros_like(leader))
        self.register_buffer("ratio", torch.ones_like(leader))
        for name in ("step_size", "scale", "spread", "strongest"):
            self.register_buffer(name, torch.full_like(leader[:, 0], getattr(options, name)))

    @property
    def passed(self) -> Bool[Tensor, "replica sequence"]:
        """Whether x is beyond A."""
        return self.state[:, 0] > LEVEL

    def forward(self, draws: Draws) -> None:
        """`BLOCK` steps of all sequences that have not passed."""
        shape = (BLOCK, self.state.shape[-1])
        scale, spread, step_size = (n[:, None, None] for n in (self.scale, self.spread, self.step_size))
        factor = scale * (spread * draws.normal(*shape, dtype=torch.float64) - spread**2 / 2).exp()
        share = self.strongest[:, None, None] * torch.ones_like(factor)
        if self.strength == "random":
            share = share * (1 - draws.uniform(*shape, dtype=torch.float64))
        push = step_size * factor
        path = self._follow(torch.stack([push, share * push], 2).transpose(0, 1).contiguous())
        x, y = path[:, :, 0].transpose(0, 1), path[:, :, 1].transpose(0, 1)  # [replica, time, sequence]
        below = x <= LEVEL
        self._add(x[:, :-1], push, factor, below[:, :-1])
        count = below.sum(1, keepdim=True)
        last = count.clamp(max=BLOCK)
        self.state.copy_(torch.cat([x.gather(1, last), y.gather(1, last)], 1).clamp(max=CAP))
        newest = y.gather(1, (count - 1).clamp(min=0)).clamp(max=CAP)
        self.before.copy_(torch.where(count > 0, newest, self.before[:, None])[:, 0])

    def _follow(self, push: Float[Tensor, "time replica 2 sequence"]) -> Tensor:
        path = torch.empty(len(push) + 1, *self.state.shape, dtype=push.dtype, device=push.device)
        path[0] = self.state
        for now, then, pushed in zip(path[:-1], path[1:], push, strict=True):
            torch.addcmul(now, pushed, now.pow(self.power), out=then)
        return path

    def _add(self, x: Tensor, push: Tensor, factor: Tensor, moving: Tensor) -> None:
        """Sums and maxima over the steps with ``moving``, all ``[replica, time, sequence]``."""
        x, push, factor = (torch.where(moving, values, 0.0) for values in (x, push, factor))
        moved = push * x**self.power
        self.taken += moving.sum(1)
        self.total += push.sum(1)
        self.weighted += (push * x**self.weight).sum(1)
        self.area += (x * moved).sum(1)
        for most, values in (
            (self.factor, factor),
            (self.jump, moved),
            (self.ratio, 1 + push * x ** (self.power - 1)),
        ):
            torch.maximum(most, values.amax(1), out=most)
