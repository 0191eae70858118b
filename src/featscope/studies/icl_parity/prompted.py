"""Networks of every size, set by hand, on prompts with an end: a step draws some prompts, and means go on."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from featscope.data import ParityPrompts
from featscope.models import ReLULinearAttention, in_dictionary, prompt_moment
from featscope.options import require
from featscope.streams import Draws
from featscope.theory import sparse_parity as theory

QUANTILE = 0.9
"""Of |g - h|."""
MEANS = ("accuracy", "hinge", "signal_loss", "noise_power", "gap_quantile")
LARGEST = ("off_identity", "off_projection")


def judged(margins: Float[Tensor, "replica prompt"]) -> tuple[Float[Tensor, "replica"], Float[Tensor, "replica"]]:
    """Accuracy, an answer of zero counted as half, and mean hinge loss."""
    right = ((margins > 1e-9).double() + (margins > -1e-9).double()) / 2
    return right.mean(-1), (1 - margins).relu().mean(-1)


@dataclass(frozen=True)
class Prompted:
    """Options of `PromptedNetworks`.

    Attributes:
        data: the prompts; tasks are of S_1.
        prompts: in a step.
    """

    data: ParityPrompts = field(default_factory=ParityPrompts)
    prompts: int = 100

    def __post_init__(self) -> None:
        require(self, "prompts", self.prompts >= 2, ">= 2")

    def build(self, draws: Draws) -> "PromptedNetworks":
        """Means before the first prompt."""
        return PromptedNetworks(self, draws)


class PromptedNetworks(nn.Module):
    """g* with ν = 1 to ν_2 on the same prompts of S_1, beside what Theorem 5.5.2 says that they answer.

    S are coordinates φ_q * (Gᵀ yᵀX/M), the signal 2γ φ̂_q on a task's features and noise on others; Ξ is that noise,
    with fresh means of signs on the task's features.

    - accuracy, hinge: of y g;
    - signal_loss: hinge loss of y h(θ, 2γ φ̂_q);
    - noise_power: ‖P_D Ξ‖²;
    - gap_quantile: the 90 % quantile of |g - h(θ, 2γ φ̂_q + P_D Ξ)|, mean over steps;
    - off_identity, off_projection: the largest |g - h(θ, S)| and |h(θ, P_D S) - h(θ, S)|.
    """

    seen: Float[Tensor, "replica"]

    def __init__(self, options: Prompted, draws: Draws) -> None:
        super().__init__()
        self.options, self.source = options, options.data.build(draws)
        g, data = self.source.dictionary, options.data
        self.sizes = range(1, data.features.bit_length())
        self.networks, self.hand_set = nn.ModuleList(), []
        for size in self.sizes:
            network = theory.optimal_network(size, data.features, data.gamma)
            signs, diagonals = (torch.tensor(values).to(g) for values in network)
            weights = in_dictionary(diagonals, g)
            self.networks.append(ReLULinearAttention(signs.repeat(len(g), 1), weights).requires_grad_(False))
            self.hand_set.append((signs, diagonals, torch.tensor(theory.projection(network)).to(g)))
        self.register_buffer("seen", torch.zeros_like(g[:, 0, 0]))
        for name in MEANS + LARGEST:
            self.register_buffer(name, g.new_zeros(len(g), len(self.sizes)))

    def mean(self, name: str) -> Float[Tensor, "replica size"]:
        """Mean over all prompts so far."""
        return self.get_buffer(name) / self.seen[:, None]

    def forward(self, draws: Draws) -> None:
        """Draw prompts, and add them."""
        data, g = self.options.data, self.source.dictionary
        prompts, targets, tasks = self.source.sample(draws, self.options.prompts)
        phi = (prompts[..., -1, :-1] @ g).round()
        s = phi * (prompt_moment(prompts) @ g)
        fresh = (2 * draws.coins(self.options.prompts, 2, data.samples, dtype=s.dtype) - 1).mean(-1)
        noise = s.scatter(-1, tasks, fresh)
        signal = torch.zeros_like(s).scatter(-1, tasks, 2 * data.gamma * phi.gather(-1, tasks))
        self.seen.add_(1)
        for at, network in enumerate(self.networks):
            signs, diagonals, projection = self.hand_set[at]

            def h(v: Tensor, signs: Tensor = signs, diagonals: Tensor = diagonals) -> Tensor:
                return (v @ diagonals.mT).relu() @ signs

            answers, kept = network(prompts), noise @ projection
            accuracy, hinge = judged(answers * targets)
            gap = (answers - h(signal + kept)).abs()
            found = {
                "accuracy": accuracy,
                "hinge": hinge,
                "signal_loss": judged(h(signal) * targets)[1],
                "noise_power": kept.square().sum(-1).mean(-1),
                "gap_quantile": gap.quantile(QUANTILE, dim=-1),
            }
            for name in MEANS:
                self.get_buffer(name)[:, at] += found[name]
            off = {
                "off_identity": (answers - h(s)).abs(),
                "off_projection": (h(s @ projection) - h(s)).abs(),
            }
            for name in LARGEST:
                column = self.get_buffer(name)[:, at]
                column.copy_(torch.maximum(column, off[name].amax(-1)))

    @property
    def passed(self) -> Bool[Tensor, "replica 1"]:
        """Means come to no end of their own."""
        return torch.zeros_like(self.seen, dtype=torch.bool)[:, None]
