"""Recipes of Algorithm 1 (Wen & Li 2022) with infinite batches, and of training that begins where its head helps."""

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from featscope.data import PatchFeatures
from featscope.losses import NonContrastive
from featscope.models import CubicPatches, IdentityInit
from featscope.models.population import Population, PopulationNetwork, of_weights, packed_weights, random_start
from featscope.options import require
from featscope.streams import Streams
from featscope.theory.prediction_head import PatchMoments, ends_on_strong, patch_moments
from featscope.training.flow import Flow
from featscope.training.gradient import GradientTraining, RuleConfig, Training
from featscope.training.phases import LEARNED, FrozenHead, Phases

TRIES, _AT_A_TIME = 400, 200  # random weights to choose from where only some starts are wanted


def moments(data: PatchFeatures) -> PatchMoments:
    """What theory needs to know of ``data``."""
    shape = (data.patches, data.feature_patches, data.strong, data.weak, data.strong_share)
    return patch_moments(*shape, both=data.both)


def population(data: PatchFeatures, trajectories: int, rate: float, **kind: Any) -> Population:
    """The limit of infinite batches from ``data``.

    Args:
        data: patches.
        trajectories: how many.
        rate: η_E/η; 0 for no head.
        **kind: the loss and where it is computed, as `Population.alike` takes it.
    """
    constants = asdict(moments(data))
    return Population.alike(trajectories, **constants, noise_std=data.noise_std, rate=rate, **kind)


@runtime_checkable
class Starts(Protocol):
    """Where trajectories begin."""

    @property
    def width(self) -> int:
        """Neurons of each network, m."""

    def build(self, data: PatchFeatures, streams: Streams, /) -> Float[Tensor, "replica start number"]:
        """Order parameters, packed."""


@dataclass(frozen=True)
class RandomStarts:
    """Weights w_j ~ N(0, I/d) and E = I. Only their order parameters are drawn, so that d may be large.

    Attributes:
        starts: in a replica.
        width: neurons, m.
    """

    starts: int = 125
    width: int = 2

    def __post_init__(self) -> None:
        require(self, "starts", self.starts >= 1, ">= 1")
        require(self, "width", self.width >= 1, ">= 1")

    def build(self, data: PatchFeatures, streams: Streams) -> Float[Tensor, "replica start number"]:
        """Order parameters, packed."""
        return random_start(streams.at("start"), self.starts, data.input_dim, self.width)


@dataclass(frozen=True)
class TrainingStart:
    """The one start a replica that training of ``encoder`` on the same data has.

    Attributes:
        encoder: the network trained.
    """

    encoder: CubicPatches

    @property
    def width(self) -> int:
        """Its neurons."""
        return self.encoder.width

    def build(self, data: PatchFeatures, streams: Streams) -> Float[Tensor, "replica start number"]:
        """Order parameters, packed."""
        source = data.build(streams.at("dictionary"))
        weight = self.encoder.build(source, streams.at("weights")).weight.detach()
        return packed_weights(*of_weights(weight.double(), source.dictionary.double()))[:, None]


@dataclass(frozen=True)
class InfiniteBatches:
    """The recipe of an arm that follows Algorithm 1's gradient flow with infinite batches.

    Attributes:
        data: patches with a strong and a weak feature.
        start: where trajectories begin.
        head: the head that begins as the identity; None keeps it there.
        loss: compares prediction and target.
        tied: whether the head is kept symmetric.
        frozen: whether the head stays as it is once it has risen, see `FrozenHead`.
        duration: how long the flow is followed, in units of 1/η.
        steps: the most steps of integration.
        probe_every: steps between measurements (log-spaced ones are added).
    """

    data: PatchFeatures = field(default_factory=PatchFeatures)
    start: Starts = field(default_factory=RandomStarts)
    head: IdentityInit | None = field(default_factory=IdentityInit)
    loss: NonContrastive = field(default_factory=NonContrastive)
    tied: bool = False
    frozen: bool = False
    duration: float = 1e6
    steps: int = 4000
    probe_every: int = 4

    replica_axis: ClassVar[bool] = True

    def __post_init__(self) -> None:
        followed = self.loss.normalization != "l2" and self.loss.scale == "correlation" and self.loss.eps == 0
        allowed = "a loss with normalization 'batch' or 'none', scale 'correlation' and eps 0"
        require(self, "loss", followed, allowed, "The equation is of these.")
        of_two = self.head is not None and self.start.width == 2
        require(self, "frozen", of_two or not self.frozen, "true with a head and two neurons only")
        require(self, "duration", self.duration > 0, "> 0")
        require(self, "steps", self.steps >= 1, ">= 1")
        require(self, "probe_every", self.probe_every >= 1, ">= 1")

    def build(self, streams: Streams) -> Flow:
        """Order parameters of the replicas of ``streams`` at their starts. Of two neurons `Phases` are watched."""
        network = self.network(self.start.build(self.data, streams))
        rules: dict[str, RuleConfig] = {"phases": Phases(self.data.input_dim)} if network.neurons == 2 else {}
        if self.frozen:
            rules["frozen"] = FrozenHead()
        return Flow(network, self.duration, streams, rules)

    def network(self, start: Float[Tensor, "replica start number"]) -> PopulationNetwork:
        """Networks at given order parameters, packed."""
        of = population(
            self.data,
            len(start),
            self.head.rate if self.head else 0.0,
            normalization=self.loss.normalization,
            stop_gradient=self.loss.stop_gradient,
            tied=self.tied,
            device=start.device,
        )
        return PopulationNetwork(start, self.start.width, of)


@dataclass(frozen=True)
class RescuedTraining(Training):
    """Algorithm 1 from the first random weights of each replica that the head rescues in the limit of infinite batches.

    They are those from which both neurons would end on the strong feature without head, and from which the flow has
    each on a feature of its own, learned, when it ends. Where there are none among `TRIES`, a replica has the event
    "unrescued" from the first step on, and begins at random.

    Attributes:
        flow: with a head that is not frozen, on the same data; its ``start`` is not used.
    """

    flow: InfiniteBatches = field(default_factory=InfiniteBatches)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "flow", self.flow.data == self.data, "a flow on the same data", "Give both the same data.")
        rescues = self.flow.head is not None and not self.flow.frozen
        require(self, "flow", rescues, "a flow with a head that is not frozen", "The head is what rescues.")

    def build(self, streams: Streams) -> GradientTraining:
        """Source, and a learner with those weights."""
        training = super().build(streams)
        found = torch.zeros(len(streams.replicas), dtype=torch.bool, device=streams.device)
        with torch.no_grad():
            for first in range(0, TRIES, _AT_A_TIME):
                weights, wanted = self._tried(training.source, streams, range(first, first + _AT_A_TIME))
                new = wanted.any(1) & ~found
                training.learner.encoder.weight[new] = weights[new, wanted[new].float().argmax(1)]
                found |= new
                if found.all():
                    break
        training.rules["unrescued"] = _Unrescued(found)
        return training

    def _tried(
        self, source: Any, streams: Streams, tries: range
    ) -> tuple[Float[Tensor, "replica try neuron input"], Bool[Tensor, "replica try"]]:
        """Random weights, and which of them are rescued."""
        encoder: Any = self.learner.encoder  # type: ignore[attr-defined]
        weights = torch.stack([encoder.build(source, streams.at("weights", k)).weight for k in tries], 1)
        start = packed_weights(*of_weights(weights.double(), source.dictionary.double()[:, None]))
        network = self.flow.network(start)
        overlaps = network.order_parameters.b.movedim(-1, 0).cpu().numpy()
        collapse = torch.from_numpy(ends_on_strong(overlaps, moments(self.flow.data).same).all(-1)).to(start.device)
        flow = Flow(network, self.flow.duration, streams)
        while (flow.arrived < 0).any():
            flow.advance(0)
        y = network.order_parameters
        feature, pure = y.features
        learned = y.b.abs().amax(1) >= LEARNED
        rescued = collapse & (pure & learned).all(0) & (feature[0] != feature[1])
        return weights, rescued.view(weights.shape[:2])


class _Unrescued(nn.Module):
    """The event of replicas for which no start was found, for `GradientTraining.events`."""

    step: Int[Tensor, "replica"]

    def __init__(self, found: Bool[Tensor, "replica"]) -> None:
        super().__init__()
        self.register_buffer("step", torch.where(found, -1, 0))

    def forward(self, experiment: GradientTraining, step: int) -> None:
        """Nothing is done on the way."""

    def events(self) -> dict[str, Int[Tensor, "replica"]]:
        """Of step 0, or of none."""
        return {"unrescued": self.step}
