"""The two families of networks by size, many side by side, and how they are fitted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from featscope.models import ResNet18
from featscope.options import require
from featscope.streams import Draws, Streams

_AT_ONCE = 500
"""Images that are looked at at once."""
_TINY = 1e-12
_DECAYS = 0.9, 0.999
Networks = TypeVar("Networks", bound=nn.Module)


class QuadraticNetworks(nn.Module):
    """FC(m): one hidden layer with square activation, m of its own for each network.

    Args:
        widest: the most units that any may have.
        pixels: of an input.
        classes: of the answer.
        draws: of the start.
        each: networks of a replica.
    """

    def __init__(self, widest: int, pixels: int, classes: int, draws: Draws, each: int = 1) -> None:
        super().__init__()
        networks = draws.replicas * each
        self.weights = nn.Parameter(draws.normal(each, widest, pixels).flatten(0, 1) / pixels**0.5)
        self.biases = nn.Parameter(torch.zeros(networks, 1, widest, device=draws.device))
        self.outer = nn.Parameter(draws.normal(each, widest, classes).flatten(0, 1) / (2 * widest**0.5))
        self.offset = nn.Parameter(torch.zeros(networks, 1, classes, device=draws.device))
        self.register_buffer("there", torch.ones(networks, widest, 1, device=draws.device))

    @torch.no_grad()
    def of(self, sizes: Sequence[int]) -> "QuadraticNetworks":
        """Leave network i with the first ``sizes[i]`` units, whose outer weights are as large as suits their number."""
        there = self.get_buffer("there")
        widest, count = there.shape[1], torch.tensor(sizes, device=there.device)[:, None]
        there.copy_((torch.arange(widest, device=there.device) < count)[..., None])
        self.weights.mul_(there)
        self.outer.mul_(there * (widest / count[..., None]).sqrt())
        return self

    def forward(self, x: Float[Tensor, "row image c h w"]) -> Float[Tensor, "network image class"]:
        """Logits. Units beyond a network's own m are left out; of fewer rows of images each is for several networks."""
        x = x.repeat_interleave(len(self.weights) // len(x), 0)
        hidden = (x.flatten(2) @ self.weights.mT + self.biases).square()
        return hidden @ (self.outer * self.get_buffer("there")) + self.offset


class ResidualNetworks(nn.Module):
    """ResNet(m): ResNet-18 with m filters in its first stage and group norms; weights of all replicas side by side.

    Args:
        size: m.
        classes: of the answer.
        draws: of the start.
    """

    def __init__(self, size: int, classes: int, draws: Draws) -> None:
        super().__init__()
        seeds = draws.uniform(1).flatten().mul(2**24).long().tolist()
        bodies = [ResNet18(size).build(None, Streams(seed, [0], draws.device).at("start")) for seed in seeds]
        self._body = [bodies[0].to(draws.device)]  # in a list, as its own weights are not used
        self._names = [name for name, _ in bodies[0].named_parameters()]
        self.stacked = nn.ParameterList(
            torch.stack([body.get_parameter(name).detach() for body in bodies]).to(draws.device) for name in self._names
        )
        features = bodies[0].features
        self.head = nn.Parameter(torch.zeros(draws.replicas, features, classes, device=draws.device))
        self.offset = nn.Parameter(torch.zeros(draws.replicas, classes, device=draws.device))

    def forward(self, x: Float[Tensor, "replica image c h w"]) -> Float[Tensor, "replica image class"]:
        """Logits."""
        # The encoder takes pixels in [0, 1] and scales them to about unit variance, which these have.
        found = [
            functional_call(self._body[0], dict(zip(self._names, own, strict=True)), (one / 4 + 0.5,))
            for one, *own in zip(x, *self.stacked, strict=True)
        ]
        return torch.stack(found) @ self.head + self.offset[:, None]


@dataclass(frozen=True)
class Fit:
    """How networks are trained.

    Attributes:
        steps: of Adam; its step size falls linearly to 0.
        batch: images in a step.
        rate: the first step size.
        at_once: steps that are one step of the engine.
    """

    steps: int = 2000
    batch: int = 100
    rate: float = 0.01
    at_once: int = 50

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "at_once"):
            require(self, name, getattr(self, name) >= 1, ">= 1")
        require(self, "rate", self.rate > 0, "> 0")

    @property
    def parts(self) -> int:
        """Steps of the engine."""
        return -(-self.steps // self.at_once)


class Adam(nn.Module, Generic[Networks]):
    """Adam whose moments are buffers, so that they are saved with the networks, and that imports no compiler.

    Args:
        networks: what it trains.
        fit: for how long.
    """

    networks: Networks

    def __init__(self, networks: Networks, fit: Fit) -> None:
        super().__init__()
        self.networks, self.fit = networks, fit
        for place, parameter in enumerate(networks.parameters()):
            self.register_buffer(f"first{place}", torch.zeros_like(parameter, requires_grad=False))
            self.register_buffer(f"second{place}", torch.zeros_like(parameter, requires_grad=False))

    def update(self, loss: Float[Tensor, ""], step: int) -> None:
        """Update number ``step``, counted from 0, by the gradient of ``loss``."""
        parameters = list(self.networks.parameters())
        gradients = torch.autograd.grad(loss, parameters)
        rate = self.fit.rate * (1 - step / self.fit.steps) / (1 - _DECAYS[0] ** (step + 1))
        for place, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
            first, second = self.get_buffer(f"first{place}"), self.get_buffer(f"second{place}")
            first.lerp_(gradient, 1 - _DECAYS[0])
            second.lerp_(gradient.square(), 1 - _DECAYS[1])
            length = (second / (1 - _DECAYS[1] ** (step + 1))).sqrt_().add_(1e-8)
            parameter.data.addcdiv_(first, length, value=-rate)


def fitted(logits: Float[Tensor, "network image class"], labels: Int[Tensor, "row image"]) -> Float[Tensor, ""]:
    """Cross-entropy, mean over images, summed over networks. Of fewer rows of labels each is for several networks."""
    labels = labels.repeat_interleave(len(logits) // len(labels), 0)
    return cross_entropy(logits.flatten(0, 1), labels.flatten()) * len(logits)


@torch.no_grad()
def answers(network: nn.Module, x: Float[Tensor, "row image c h w"]) -> Float[Tensor, "network image class"]:
    """Logits, some images at a time."""
    return torch.cat([network(part) for part in x.split(_AT_ONCE, 1)], 1)


def judged(
    logits: Float[Tensor, "network image class"], labels: Int[Tensor, "row image"]
) -> tuple[Float[Tensor, " network"], Float[Tensor, " network"]]:
    """Mean cross-entropy, and share of right answers; labels as in `fitted`."""
    labels = labels.repeat_interleave(len(logits) // len(labels), 0)
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
