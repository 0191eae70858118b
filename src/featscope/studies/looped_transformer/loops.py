"""A looped transformer with hand-set weights, and beside it the algorithm that it should be and its closed form."""

from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from featscope.data import LinearPromptBatch, LinearPrompts
from featscope.models import LoopedLinearAttention, answer, attention_mask, gradient_descent_weights
from featscope.models.looped_attention import Mask
from featscope.options import require
from featscope.streams import Draws

_LARGEST = 1.9
"""Random step sizes are below it, in units of 1/L; from 2 on descent diverges."""


@dataclass(frozen=True)
class Loops:
    """Options of `LoopedPrompts`.

    Attributes:
        data: the prompts.
        count: prompts in a replica.
        mask: who attends to whom.
        step_size: η in units of a prompt's own 1/L.
        steps: "constant": η at every loop; "random": uniform up to 1.9/L, for each loop and prompt.
    """

    data: LinearPrompts = field(default_factory=LinearPrompts)
    count: int = 10
    mask: Mask = "query"
    step_size: float = 1.0
    steps: Literal["constant", "random"] = "constant"

    def __post_init__(self) -> None:
        require(self, "count", self.count >= 1, ">= 1")
        require(self, "step_size", self.step_size > 0, "> 0")

    def build(self, draws: Draws) -> "LoopedPrompts":
        """Prompts before the first loop."""
        return LoopedPrompts(self.data.build(draws).sample(draws, self.count), self)


class LoopedPrompts(nn.Module):
    """Prompts on their way through the loops.

    Args:
        batch: the prompts.
        options: mask and step sizes.

    Attributes:
        layer: the transformer's one layer.
        z: Z after so many loops.
        shown: (X, y) of Z_0; a wrong mask changes that of Z.
        target: α of Z_0.
        descent: θ_t of gradient descent on ‖y - X θ‖²/2 with the same step sizes, from θ_0 = -q_0/α.
        remaining: Π (1 - η λ_i), what the loops so far leave of the error in each eigendirection of A = XᵀX.
        eigenvalues: λ_i, smallest first.
        start: coordinates of θ_0 - θ* in the eigendirections.
        aim: those of θ*.
        tasks: θ*.
        passed: whether the last loop moved a prompt's estimate by no more than rounding.
    """

    z: Float[Tensor, "replica prompt token channel"]
    shown: Float[Tensor, "replica prompt sample channel"]
    target: Float[Tensor, "replica prompt 1"]
    descent: Float[Tensor, "replica prompt dimension"]
    remaining: Float[Tensor, "replica prompt dimension"]
    eigenvalues: Float[Tensor, "replica prompt dimension"]
    start: Float[Tensor, "replica prompt dimension"]
    aim: Float[Tensor, "replica prompt dimension"]
    tasks: Float[Tensor, "replica prompt dimension"]
    passed: Bool[Tensor, "replica prompt"]

    def __init__(self, batch: LinearPromptBatch, options: Loops) -> None:
        super().__init__()
        self.options = options
        z, tasks = batch
        replicas, _, _, channels = z.shape
        weights = (w.to(z.device).repeat(replicas, 1, 1) for w in gradient_descent_weights(channels - 1))
        self.layer = LoopedLinearAttention(*weights).requires_grad_(False)
        x = z[..., :-1, :-1]
        eigenvalues, directions = torch.linalg.eigh(x.mT @ x)
        target = z[..., -1, -1:]
        start = -z[..., -1, :-1] / target

        def coordinates(v: Tensor) -> Tensor:
            return (v[..., None, :] @ directions)[..., 0, :]

        state = {
            "z": z.clone(),
            "shown": z[..., :-1, :].clone(),
            "target": target.clone(),
            "descent": start,
            "remaining": torch.ones_like(start),
            "eigenvalues": eigenvalues.clamp(min=0),
            "start": coordinates(start - tasks),
            "aim": coordinates(tasks),
            "tasks": tasks,
            "passed": torch.zeros_like(start[..., 0], dtype=torch.bool),
        }
        for name, values in state.items():
            self.register_buffer(name, values)

    def forward(self, draws: Draws) -> None:
        """One loop of all prompts."""
        step = self.options.step_size / self.eigenvalues[..., -1]
        if self.options.steps == "random":
            step = step * _LARGEST * draws.uniform(step.shape[-1], dtype=step.dtype)
        before = self.estimate
        self.layer.loop_(self.z, attention_mask(self.options.mask, self.z.shape[-2]).to(self.z.device), step)
        x, y = self.shown[..., :-1], self.shown[..., -1:]
        residual = (x * self.descent[..., None, :]).sum(-1, keepdim=True) - y
        self.descent.sub_(step[..., None] * (x * residual).sum(-2))
        self.remaining.mul_(1 - step[..., None] * self.eigenvalues)
        moved = (self.estimate - before).abs().amax(-1)
        self.passed.copy_(moved <= 4 * torch.finfo(moved.dtype).eps * before.abs().amax(-1))

    @property
    def estimate(self) -> Float[Tensor, "replica prompt dimension"]:
        """θ as the transformer has it: its answer over α."""
        return answer(self.z) / self.target

    @property
    def error(self) -> Float[Tensor, "replica prompt"]:
        """<answer, θ*>/α - 1."""
        return (self.estimate * self.tasks).sum(-1) - 1

    @property
    def closed_error(self) -> Float[Tensor, "replica prompt"]:
        """The same in closed form."""
        return (self.remaining * self.start * self.aim).sum(-1)

    @property
    def squared(self) -> Float[Tensor, "replica prompt"]:
        """e_t/e_0, the squared error of the estimate over that at the start."""
        return (self.estimate - self.tasks).square().sum(-1) / self.start.square().sum(-1)

    @property
    def closed_squared(self) -> Float[Tensor, "replica prompt"]:
        """The same in closed form, which no rounding ends."""
        return (self.remaining * self.start).square().sum(-1) / self.start.square().sum(-1)
