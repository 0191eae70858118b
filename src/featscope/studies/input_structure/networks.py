"""The two families of networks by size, a network a replica, and how they are fitted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from featscope.models import ResNet18
from featscope.options import require
from featscope.streams import Draws, Streams

_AT_ONCE = 500
"""Images that are looked at at once."""
_TINY = 1e-12


class QuadraticNetworks(nn.Module):
    """FC(m): one hidden layer with square activation, m of its own for each replica.

    Args:
        sizes: m.
        widest: the most that any may have.
        pixels: of an input.
        classes: of the answer.
        draws: of the start.
    """

    def __init__(self, sizes: Sequence[int], widest: int, pixels: int, classes: int, draws: Draws) -> None:
        super().__init__()
        count = torch.tensor(sizes, device=draws.device)[:, None]
        there = (torch.arange(widest, device=draws.device) < count).float()[..., None]
        self.weights = nn.Parameter(draws.normal(widest, pixels) / pixels**0.5 * there)
        self.biases = nn.Parameter(torch.zeros(draws.replicas, 1, widest, device=draws.device))
        self.outer = nn.Parameter(draws.normal(widest, classes) / (2 * count[..., None] ** 0.5) * there)
        self.offset = nn.Parameter(torch.zeros(draws.replicas, 1, classes, device=draws.device))
        self.register_buffer("there", there, persistent=False)

    def forward(self, x: Float[Tensor, "replica image c h w"]) -> Float[Tensor, "replica image class"]:
        """Logits. Units beyond a replica's own m are left out."""
        hidden = (x.flatten(2) @ self.weights.mT + self.biases).square()
        return hidden @ (self.outer * self.get_buffer("there")) + self.offset


class ResidualNetworks(nn.Module):
    """ResNet(m): ResNet-18 with m filters in its first stage and group norms, m of its own for each replica.

    Args:
        sizes: m.
        classes: of the answer.
        draws: of the start.
    """

    def __init__(self, sizes: Sequence[int], classes: int, draws: Draws) -> None:
        super().__init__()
        self.bodies, self.heads = nn.ModuleList(), nn.ModuleList()
        seeds = draws.uniform(1).flatten().mul(2**24).long().tolist()
        for size, seed in zip(sizes, seeds, strict=True):
            body = ResNet18(size).build(None, Streams(seed, [0], draws.device).at("start")).to(draws.device)
            head = nn.Linear(body.features, classes, device=draws.device)
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)
            self.bodies.append(body)
            self.heads.append(head)

    def forward(self, x: Float[Tensor, "replica image c h w"]) -> Float[Tensor, "replica image class"]:
        """Logits."""
        # The encoder takes pixels in [0, 1] and scales them to about unit variance, which these have.
        parts = zip(self.bodies, self.heads, x, strict=True)
        return torch.stack([head(body(one / 4 + 0.5)) for body, head, one in parts])


@dataclass(frozen=True)
class Fit:
    """How networks are trained.

    Attributes:
        steps: of Adam; its step size falls linearly to 0.
        batch: images in a step.
        rate: the first step size.
    """

    steps: int = 2000
    batch: int = 100
    rate: float = 0.01

    def __post_init__(self) -> None:
        require(self, "steps", self.steps >= 1, ">= 1")
        require(self, "batch", self.batch >= 1, ">= 1")
        require(self, "rate", self.rate > 0, "> 0")

    @torch.enable_grad()
    def run(
        self,
        network: nn.Module,
        x: Float[Tensor, "replica image c h w"],
        y: Int[Tensor, "replica image"],
        draws: Draws,
        penalty: Callable[[Float[Tensor, "replica batch"]], Tensor] | None = None,
        look: Callable[[], None] | None = None,
        looks: Sequence[int] = (),
    ) -> None:
        """Train ``network``, a replica on its own images.

        Args:
            network: what is trained.
            x: images.
            y: their labels.
            draws: of the batches.
            penalty: of each replica, summed, given uniforms that pick its images.
            look: called before the first step and after each of ``looks``.
            looks: numbers of steps.
        """
        optimizer = torch.optim.Adam(network.parameters(), lr=self.rate)
        replicas = torch.arange(len(x), device=x.device)[:, None]
        if look and 0 in looks:
            look()
        for step in range(self.steps):
            for group in optimizer.param_groups:
                group["lr"] = self.rate * (1 - step / self.steps)
            uniform = draws.uniform(self.batch)
            places = (uniform * x.shape[1]).long()
            logits = network(x[replicas, places])
            loss = cross_entropy(logits.flatten(0, 1), y[replicas, places].flatten()) * len(x)
            if penalty:
                loss = loss + penalty(uniform)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if look and step + 1 in looks:
                look()


@torch.no_grad()
def answers(network: nn.Module, x: Float[Tensor, "replica image c h w"]) -> Float[Tensor, "replica image class"]:
    """Logits, some images at a time."""
    return torch.cat([network(part) for part in x.split(_AT_ONCE, 1)], 1)


def judged(
    logits: Float[Tensor, "replica image class"], labels: Int[Tensor, "replica image"]
) -> tuple[Float[Tensor, "replica"], Float[Tensor, "replica"]]:
    """Mean cross-entropy, and share of right answers."""
    loss = cross_entropy(logits.double().mT, labels, reduction="none").mean(1)
    return loss, (logits.argmax(-1) == labels).double().mean(1)


def balance(
    probabilities: Float[Tensor, "*replica image class"],
) -> tuple[Float[Tensor, "*replica"], Float[Tensor, "*replica"]]:
    """R_1 of (A.290), less the entropy of the mean answer; and R_2 of (A.291), the mean entropy of an answer."""
    mean = probabilities.mean(-2)
    first = (mean * (mean + _TINY).log()).sum(-1)
    second = -(probabilities * (probabilities + _TINY).log()).sum(-1).mean(-1)
    return first, second
