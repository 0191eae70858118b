"""Two-layer networks of truncated ReLUs, and their first two gradient steps (Shi 2024, dissertation, Section 2.3).

g(x) = Σ_i a_i σ(<w_i, x> + b_i) with σ(z) = min(1, max(0, z)). Neuron m + i begins as a copy of neuron i with the
opposite a, so g is 0 at the start. The first two steps forget: their penalty is such that the new weights are -η times
the gradient. They are assigned here, as the subtraction would lose the gradient to rounding.
"""

from dataclasses import dataclass
from math import pi, sqrt
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.options import require
from featscope.streams import Draws

_AT_A_TIME = 500_000
"""Activations in a part of a full batch."""
_TO_STANDARDISE = 4_000
"""Samples whose mean and variance standardise features."""


def truncated_relu(z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """min(1, max(0, z))."""
    return z.clamp(0, 1)


def _ramp(z: Tensor, width: float) -> Tensor:
    """E max(0, z + ξ)."""
    return z * torch.special.ndtr(z / width) + width / sqrt(2 * pi) * (-((z / width) ** 2) / 2).exp()


def smoothed(z: Float[Tensor, "*shape"], width: float) -> Float[Tensor, "*shape"]:
    """E σ(z + ξ) for a normal ξ of standard deviation ``width``; σ itself at 0."""
    return _ramp(z, width) - _ramp(z - 1, width) if width else truncated_relu(z)


def smoothed_slope(z: Float[Tensor, "*shape"], width: float) -> Float[Tensor, "*shape"]:
    """The derivative of `smoothed`: the probability that z + ξ is between 0 and 1."""
    if not width:
        return ((z > 0) & (z < 1)).to(z)
    return torch.special.ndtr(z / width) - torch.special.ndtr((z - 1) / width)


class Layers(NamedTuple):
    """The parameters of a network.

    Attributes:
        weights: W.
        biases: b.
        outer: a.
    """

    weights: Float[Tensor, "replica neuron d"]
    biases: Float[Tensor, "replica neuron"]
    outer: Float[Tensor, "replica neuron"]

    def drive(self, inputs: Float[Tensor, "replica sample d"]) -> Float[Tensor, "replica sample neuron"]:
        """<w, x> + b."""
        return torch.baddbmm(self.biases[:, None], inputs, self.weights.mT)

    def __call__(
        self, inputs: Float[Tensor, "replica sample d"], width: float = 0.0
    ) -> Float[Tensor, "replica sample"]:
        """g(x), of the activation that is smoothed with ``width``."""
        return (smoothed(self.drive(inputs), width) @ self.outer[..., None])[..., 0]


class Pull(NamedTuple):
    """E[y 1[y g <= 1] ∂g] of each neuron, without its a_i; the gradient of the hinge loss has a minus before.

    Attributes:
        weights: T_ij where M is the identity, else T_i in the inputs' coordinates.
        biases: of <w_i, x> + b_i.
        outer: of a_i, complete.
        active: E σ'(z_i), the share of inputs that activate a neuron.
        active_square: E σ'(z_i)², which is less: the slope of a smoothed activation is between 0 and 1.
        inside: share of inputs with y g < 1.
    """

    weights: Float[Tensor, "replica neuron d"]
    biases: Float[Tensor, "replica neuron"]
    outer: Float[Tensor, "replica neuron"]
    active: Float[Tensor, "replica neuron"]
    active_square: Float[Tensor, "replica neuron"]
    inside: Float[Tensor, "replica"]


def pull(
    layers: Layers,
    inputs: Float[Tensor, "replica sample d"],
    labels: Float[Tensor, "replica sample"],
    width: float,
    chances: Float[Tensor, "replica sample"] | None = None,
) -> Pull:
    """What the hinge loss of all samples pulls at, each with its probability; equal ones if none are given."""
    replicas, samples = labels.shape
    part = max(1, _AT_A_TIME // (replicas * layers.biases.shape[1]))
    weighted = labels.new_full(labels.shape, 1 / samples) if chances is None else chances
    found = [torch.zeros_like(each) for each in (*layers, layers.biases, layers.biases)] + [labels.new_zeros(replicas)]
    for x, y, chance in zip(*(one.split(part, 1) for one in (inputs, labels, weighted)), strict=True):
        x, y, chance = x.to(layers.weights), y.to(layers.weights), chance.to(layers.weights)
        z = layers.drive(x)
        values, slopes = smoothed(z, width), smoothed_slope(z, width)
        answers = (values @ layers.outer[..., None])[..., 0]
        pulled = chance * y * (y * answers <= 1)
        terms = (
            (slopes * pulled[..., None]).mT @ x,
            (slopes * pulled[..., None]).sum(1),
            (values * pulled[..., None]).sum(1),
            (slopes * chance[..., None]).sum(1),
            (slopes.square() * chance[..., None]).sum(1),
            (chance * (y * answers < 1)).sum(1),
        )
        found = [total + term for total, term in zip(found, terms, strict=True)]
    return Pull(*found)


@dataclass(frozen=True)
class UnbiasedStart:
    """Options of a network of 2m truncated ReLUs at its start and after its first two steps (Theorem A.20).

    Attributes:
        neurons: m, half of all.
        assigned: how many of the first two steps it has taken.
        standardised: whether a frozen first layer gives features of mean 0 and variance 1 on the training set.
        rescaled: whether the weights of one step are made as long, in the mean, as those of two.
        frozen: whether only the second layer is trained.
    """

    neurons: int = 100
    assigned: int = 2
    frozen: bool = False
    standardised: bool = False
    rescaled: bool = False

    def __post_init__(self) -> None:
        require(self, "neurons", self.neurons >= 1, ">= 1")
        require(self, "assigned", self.assigned in (0, 1, 2), "0, 1 or 2")
        require(self, "standardised", self.frozen or not self.standardised, "false where all layers are trained")
        require(self, "rescaled", self.assigned == 1 or not self.rescaled, "false but after one step")

    def build(self, source: Any, draws: Draws) -> nn.Module:
        """The network of ``source``, a `DictionarySource`, whose training set it takes its first steps on."""
        start = unbiased_start(self.neurons, source, draws)
        stages, pulls = first_steps(start, source, 2 if self.rescaled else self.assigned)
        layers = stages[self.assigned]
        if self.rescaled:
            long, short = (stage.weights.norm(dim=-1).mean(1) for stage in (stages[2], layers))
            layers = layers._replace(weights=layers.weights * (long / short)[:, None, None])
        if self.frozen:
            return FrozenFeatures(layers, source.train_set.inputs if self.standardised else None)
        return TruncatedReLUNetwork(layers, stages, pulls)


def unbiased_start(neurons: int, source: Any, draws: Draws) -> Layers:
    """The 2m neurons of the start, float64."""
    o = source.options
    k, d = o.relevant, source.train_set.inputs.shape[-1]
    outer = source.scale[:, 0].double() ** 2 / (o.gamma * k**2)
    weights = draws.normal(neurons, d, dtype=torch.float64) / k
    biases = draws.normal(neurons, dtype=torch.float64) / k**2
    a = draws.normal(neurons, dtype=torch.float64) * outer
    return Layers(weights.repeat(1, 2, 1), biases.repeat(1, 2), torch.cat([a, -a], 1))


def first_steps(
    start: Layers, source: Any, steps: int, chances: Float[Tensor, "replica sample"] | None = None
) -> tuple[list[Layers], list[Pull]]:
    """The network at its start and after each of the first steps, and what pulled at it in each.

    Args:
        start: see `unbiased_start`.
        source: a `DictionarySource`, or what has its options, scale and training set.
        steps: 0, 1 or 2.
        chances: probability of each sample. Where classes are unbalanced by design (``negatives``), both weigh the
            same if none are given, as in the loss of A.8. Its η^(1), (A.294), is the share of the rarer class
            times as long; the second step forgets W, so that only its direction would differ.
    """
    o, (inputs, labels) = source.options, source.train_set
    if chances is None and o.negatives != 0.5:
        share = (labels > 0).to(labels).mean(1, keepdim=True)
        chances = torch.where(labels > 0, 0.5 / share, 0.5 / (1 - share)) / labels.shape[1]
    neurons = start.biases.shape[1] // 2
    small = o.gamma**2 * source.scale.double()[:, 0] / (o.relevant * neurons**3)  # Lemma A.17
    stages: list[Layers] = [start]
    pulls: list[Pull] = []
    for step in range(steps):
        pulls.append(pull(stages[-1], inputs, labels, o.relevant**-1.5, chances))
        stages.append(stepped(stages[-1], pulls[-1], 1.0 if step else small, forget_outer=step == 1))
    return stages, pulls


def stepped(now: Layers, found: Pull, rate: Float[Tensor, "replica 1"] | float, forget_outer: bool) -> Layers:
    """One step against the gradient that forgets W, and a if ``forget_outer``."""
    per_neuron = rate * now.outer
    outer = rate * found.outer
    return Layers(
        per_neuron[..., None] * found.weights,
        now.biases + per_neuron * found.biases,
        outer if forget_outer else now.outer + outer,
    )


class TruncatedReLUNetwork(nn.Module):
    """A network all of whose layers are trained.

    Args:
        layers: what it begins with.
        stages: the network at its start and after each of the first steps.
        pulls: what pulled at it in each of them.
    """

    def __init__(self, layers: Layers, stages: list[Layers] | None = None, pulls: list[Pull] | None = None) -> None:
        super().__init__()
        self.weights, self.biases, self.outer = (nn.Parameter(one.float()) for one in layers)
        self.stages, self.pulls = stages or [], pulls or []

    @property
    def layers(self) -> Layers:
        """Its parameters."""
        return Layers(self.weights, self.biases, self.outer)

    def forward(self, inputs: Float[Tensor, "replica sample d"]) -> Float[Tensor, "replica sample"]:
        """g(x)."""
        return self.layers(inputs)


class FrozenFeatures(nn.Module):
    """A network of which only the second layer is trained, from 0.

    Args:
        layers: the first layer.
        inputs: on which features are standardised; as they are, without a constant, if None.
    """

    mean: Float[Tensor, "replica 1 neuron"]
    scale: Float[Tensor, "replica 1 neuron"]

    def __init__(self, layers: Layers, inputs: Float[Tensor, "replica sample d"] | None = None) -> None:
        super().__init__()
        half = layers.biases.shape[1] // 2  # the copies have the same features as long as the first layer stands
        same = torch.equal(layers.weights[:, :half], layers.weights[:, half:])
        kept = Layers(*(one[:, :half] if same else one for one in layers))
        for name, values in kept._asdict().items():
            self.register_buffer(f"first_{name}", values, persistent=False)
        features = None if inputs is None else truncated_relu(kept.drive(inputs[:, :_TO_STANDARDISE].double()))
        mean = torch.zeros_like(kept.biases) if features is None else features.mean(1)
        scale = torch.ones_like(mean) if features is None else features.std(1)
        self.register_buffer("mean", mean[:, None], persistent=False)
        self.register_buffer("scale", scale[:, None].clamp(min=torch.finfo(mean.dtype).eps), persistent=False)
        self.outer = nn.Parameter(torch.zeros_like(mean, dtype=torch.float32))
        self.offset = nn.Parameter(
            torch.zeros_like(mean[:, :1], dtype=torch.float32), requires_grad=features is not None
        )

    @property
    def first(self) -> Layers:
        """The first layer, without what is there twice."""
        return Layers(*(self.get_buffer(f"first_{name}") for name in Layers._fields))

    def features(self, inputs: Float[Tensor, "replica sample d"]) -> Float[Tensor, "replica sample neuron"]:
        """What the second layer reads."""
        seen = truncated_relu(self.first.drive(inputs.to(self.first.weights)))
        return ((seen - self.mean) / self.scale).to(inputs)

    def forward(self, inputs: Float[Tensor, "replica sample d"]) -> Float[Tensor, "replica sample"]:
        """g(x)."""
        return (self.features(inputs) @ self.outer[..., None])[..., 0] + self.offset


@dataclass(frozen=True)
class TangentStart:
    """Options of the linear model on the gradient of a network of 2m truncated ReLUs at its start.

    Attributes:
        neurons: m.
    """

    neurons: int = 100

    def __post_init__(self) -> None:
        require(self, "neurons", self.neurons >= 1, ">= 1")

    def build(self, source: nn.Module, draws: Draws) -> "TangentModel":
        """The model at 0."""
        return TangentModel(unbiased_start(self.neurons, source, draws))


class TangentModel(nn.Module):
    """f(x) = <∇g(x; θ_0), Δ>, linear in Δ. Copies of neurons have the same features, so it has m of them.

    Args:
        start: θ_0.
    """

    def __init__(self, start: Layers) -> None:
        super().__init__()
        half = start.biases.shape[1] // 2
        self.start = Layers(*(one[:, :half].float() for one in start))
        self.weights, self.biases, self.outer = (nn.Parameter(torch.zeros_like(one)) for one in self.start)

    def forward(self, inputs: Float[Tensor, "replica sample d"]) -> Float[Tensor, "replica sample"]:
        """f(x)."""
        z = self.start.drive(inputs)
        moved = Layers(self.weights, self.biases, self.outer).drive(inputs)
        slopes = self.start.outer[:, None] * smoothed_slope(z, 0.0)
        return (slopes * moved).sum(-1) + (truncated_relu(z) @ self.outer[..., None])[..., 0]
