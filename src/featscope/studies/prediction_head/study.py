"""The study: data, learner and arms."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from tyro.conf import Suppress

from featscope.claims import Claim, Statement
from featscope.data import PatchFeatures, PatchSource
from featscope.figures import Figure
from featscope.losses import NonContrastive
from featscope.models import CubicPatches, IdentityInit, OnlineNetwork
from featscope.options import ConfigError, require
from featscope.streams import Streams
from featscope.studies.axes import Axis
from featscope.studies.base import Arm, Runs, Study
from featscope.studies.prediction_head import exact, figures, hand_set, judge, measures
from featscope.studies.prediction_head.phases import Phases
from featscope.studies.prediction_head.statements import STATEMENTS
from featscope.theory.prediction_head import PatchMoments, ends_on_strong, patch_moments
from featscope.training import SGD, Experiment, Measurement, PredictOtherView
from featscope.training.flow import Flow
from featscope.training.population import PopulationNetwork, packed_weights, random_start

_TRIES = 400  # random weights to choose from where only some starts are wanted


@dataclass(frozen=True)
class PredictionHead(Study):
    """Why non-contrastive learning does not collapse: what the prediction head does (Wen & Li 2022).

    Arms follow the gradient flow of infinite batches from many random starts, or train on batches as Algorithm 1
    does. The first arm is what `featscope sweep` varies.

    Attributes:
        data: patches with a strong and a weak feature (Definition 3.1).
        learner: cubic neurons (Section 3.1); their number is 2, as in the theorem, but in the arm `widths`.
        head: the head that begins as the identity.
        objective: Algorithm 1's loss and batch.
        optimizer: Algorithm 1's step size η.
        starts: random starts in a replica of the flow.
        duration: how long the flow is followed, in units of 1/η.
        steps: most steps of any arm: of Algorithm 1, or of integration.
        probe_every: steps between measurements of Algorithm 1.
        method: the arm's own: "flow", or "batches" for Algorithm 1 (set by the study).
        begin: the arm's own: weights at random, with given overlaps, or the first random ones that flow rescues by
            ``duration``: both neurons end on the strong feature without head, and on different ones with it (set by
            the study).
        trained_head: whether the head is trained (set by the study).
        tied: whether it is kept symmetric (set by the study).
        gap: Λ_11/Λ_22 of the linear network whose head is set by hand; None on all other arms (set by the study).
    """

    data: PatchFeatures = field(default_factory=PatchFeatures)
    learner: CubicPatches = field(default_factory=CubicPatches)
    head: IdentityInit = field(default_factory=lambda: IdentityInit(rate=0.1))
    objective: PredictOtherView = field(default_factory=PredictOtherView)
    optimizer: SGD = field(default_factory=lambda: SGD(lr=0.01, weight_decay=0.0))
    starts: int = 125
    duration: float = 1e6
    steps: int = 8000
    probe_every: int = 100
    method: Annotated[Literal["flow", "batches"], Suppress] = "flow"
    begin: Annotated[Literal["random", "given", "rescued"], Suppress] = "random"
    trained_head: Annotated[bool, Suppress] = True
    tied: Annotated[bool, Suppress] = False
    gap: Annotated[float | None, Suppress] = None

    name: ClassVar[str] = "prediction-head"
    statements: ClassVar[Sequence[Statement]] = STATEMENTS

    def __post_init__(self) -> None:
        require(self, "starts", self.starts >= 1, ">= 1")
        require(self, "duration", self.duration > 0, "> 0")
        require(self, "steps", self.steps >= 1, ">= 1")
        require(self, "probe_every", self.probe_every >= 1, ">= 1")

    def arms(self) -> Sequence[Arm["PredictionHead"]]:
        """With and without the head, what else is left out, sizes, and Algorithm 1 on batches."""
        require(self, "learner", self.learner.width == 2, "a learner of width 2", "The theorem is about two neurons.")
        own = self.objective.loss == NonContrastive()
        require(self, "objective", own, "the loss NonContrastive() as it is", "Flow and theory are of that one.")
        flow = replace(self, steps=min(self.steps, 4000), probe_every=4)
        loss = self.objective.loss
        equal = replace(self.data, strong=3.0, weak=3.0)

        def loss_is(changed: NonContrastive) -> "PredictionHead":
            return replace(flow, objective=replace(self.objective, loss=changed))

        def arm(name: str, config: "PredictionHead", about: str, **more: object) -> Arm["PredictionHead"]:
            return Arm(name, config, about, stop_at="arrived", at_end=(measures.outcomes,), **more)  # type: ignore[arg-type]

        batches = replace(
            self,
            method="batches",
            begin="given",
            data=replace(self.data, input_dim=32, patches=16, weak=3.0),
            learner=CubicPatches(overlaps=(0.30, 0.05, 0.12, 0.15)),
            head=IdentityInit(rate=0.3),
        )
        random = replace(
            self,
            method="batches",
            begin="rescued",
            data=replace(self.data, patches=16, weak=3.0),
            objective=replace(self.objective, samples=1800),
            optimizer=SGD(lr=0.02, weight_decay=0.0),
            duration=60.0,
            steps=min(self.steps, 5000),
            probe_every=50,
        )
        following = replace(batches, method="flow", starts=1, steps=4000, probe_every=2)
        return [
            arm("head", flow, "gradient flow of infinite batches, with the head", at_start=(exact.gradient,)),
            arm("no-head", replace(flow, trained_head=False), "the same starts, E = I throughout"),
            arm("no-stop-gradient", loss_is(replace(loss, stop_gradient=False)), "targets are differentiated too"),
            arm(
                "no-normalization",
                replace(loss_is(replace(loss, normalization="none")), duration=1e3),
                "outputs as they are",
            ),
            arm("tied-head", replace(flow, tied=True), "a trained head that is kept symmetric"),
            arm(
                "rare-weak",
                replace(flow, data=replace(equal, strong_share=0.9)),
                "features of equal strength, one nine times as frequent (Remark 3.2 (1))",
            ),
            arm(
                "both-features",
                replace(flow, data=replace(self.data, both=True)),
                "every sample has both features (Remark 3.2 (2))",
            ),
            arm(
                "equal-no-head",
                replace(flow, data=equal, trained_head=False),
                "features of equal strength and frequency, no head: neither may lead",
                control=True,
            ),
            arm(
                "ratios",
                replace(flow, trained_head=False, starts=min(50, self.starts)),
                "no head, over the weak feature",
                over=(Axis("data.weak", (0.4, 1.0, 2.0, 3.0)),),
            ),
            arm(
                "sizes",
                replace(flow, duration=1e3 * self.duration, starts=min(50, self.starts)),
                "with the head, over input dimension and weak feature",
                over=(Axis("data.input_dim", (32, 100, 316, 1000, 3162, 10000)), Axis("data.weak", (1.0, 2.0))),
            ),
            Arm(
                "widths",
                replace(
                    flow,
                    trained_head=False,
                    learner=replace(self.learner, width=measures.WIDEST),
                    starts=min(25, self.starts),
                ),
                "64 neurons without head",
                stop_at="arrived",
                at_end=(measures.widths,),
            ),
            Arm("batches", batches, "Algorithm 1 from given overlaps, with the head"),
            Arm("batches-no-head", replace(batches, trained_head=False), "the same without"),
            Arm("batches-flow", following, "gradient flow from the same weights, with the head", stop_at="arrived"),
            Arm("random-batches", random, "Algorithm 1 from random weights that the flow's head rescues early"),
            Arm("random-batches-no-head", replace(random, trained_head=False), "the same without head"),
            Arm(
                "hand-set-gap",
                replace(flow, gap=16.0, duration=1e4),
                "a linear network whose head is set by hand, inputs of very unequal variance",
                stop_at="arrived",
                at_end=(hand_set.rank,),
            ),
            Arm(
                "hand-set-equal",
                replace(flow, gap=1.0, duration=1e4),
                "the same with inputs of equal variance",
                control=True,
                stop_at="arrived",
                at_end=(hand_set.rank,),
            ),
        ]

    @property
    def moments(self) -> PatchMoments:
        """What theory needs to know of the data."""
        data = self.data
        shape = (data.patches, data.feature_patches, data.strong, data.weak, data.strong_share)
        return patch_moments(*shape, both=data.both)

    def build(self, streams: Streams) -> Experiment:
        """Data and networks, or order parameters, of the replicas of ``streams``."""
        if self.method == "batches":
            source, online = self.networks(streams)
            return Experiment(source, online, self.objective, self.optimizer, [], streams)
        if self.gap is not None:
            return Flow(hand_set.HandSetHead(streams.at("start"), self.starts, self.gap), self.duration, streams)
        network = self.population(streams)
        rules = [Phases(self.data.input_dim)] if network.neurons == 2 else []
        return Flow(network, self.duration, streams, rules)

    def networks(self, streams: Streams) -> tuple[PatchSource, OnlineNetwork]:
        """Source and learner at the start."""
        source = self.data.build(streams.at("dictionary"))
        encoder = self.learner.build(source.dictionary, streams.at("weights"))
        if self.begin == "rescued":
            with torch.no_grad():
                encoder.weight.copy_(self._rescued(source, streams))
        replicas = len(streams.replicas)
        head = self.head.build(self.learner.width, replicas).to(streams.device) if self.trained_head else nn.Identity()
        return source, OnlineNetwork(encoder, head)

    def _rescued(self, source: PatchSource, streams: Streams) -> Float[Tensor, "replica neuron input"]:
        """The first random weights of each replica that the head of the flow rescues; see ``begin``."""
        tries = [self.learner.build(source.dictionary, streams.at("weights", k)).weight for k in range(_TRIES)]
        weights = torch.stack([weight.detach() for weight in tries], 1)
        with_head = replace(self, trained_head=True)
        network = with_head.order_parameters(weights.double(), source)
        start = network.order_parameters.b.movedim(-1, 0).cpu().numpy()
        collapse = torch.from_numpy(ends_on_strong(start, self.moments).all(-1))
        flow = Flow(network, self.duration, streams)
        while (flow.arrived < 0).any():
            flow.advance(0)
        feature, pure = measures.features_of(network.order_parameters.b)
        wanted = (collapse & pure.all(0) & (feature[0] != feature[1])).view(len(weights), _TRIES)
        if not wanted.any(1).all():
            raise ConfigError(
                f"PredictionHead.duration = {self.duration:g} is out of range: allowed is a time in which the head "
                f"rescues one of {_TRIES} random starts in every replica. Raise it."
            )
        return weights[torch.arange(len(weights)), wanted.float().argmax(1)]

    def population(self, streams: Streams) -> PopulationNetwork:
        """The limit of infinite batches at the start. Neurons without head know nothing of each other."""
        neurons, starts = self.learner.width, self.starts
        if neurons > 2 and not self.trained_head:
            neurons, starts = 1, starts * neurons
        if self.begin == "random":
            start = random_start(streams.at("start"), starts, self.data.input_dim, neurons)
            return self._population(start, neurons)
        source, online = self.networks(streams)
        return self.order_parameters(online.get_parameter("encoder.weight").detach().double()[:, None], source)

    def order_parameters(
        self, weight: Float[Tensor, "replica start neuron input"], source: PatchSource
    ) -> PopulationNetwork:
        """The limit of infinite batches from given weights."""
        overlaps = weight @ source.dictionary.double()[:, None]
        return self._population(packed_weights(overlaps, weight @ weight.mT - overlaps @ overlaps.mT), weight.shape[-2])

    def _population(self, start: Float[Tensor, "replica start number"], neurons: int) -> PopulationNetwork:
        moments = self.moments
        one = torch.ones(len(start), dtype=torch.float64, device=start.device)
        return PopulationNetwork(
            start,
            neurons,
            same=one[:, None] * one.new_tensor(moments.same),
            own=one[:, None] * one.new_tensor(moments.own),
            noise_patches=one * moments.noise_patches,
            noise=one * self.data.noise_std**6,
            rate=one * (self.head.rate if self.trained_head else 0.0),
            loss=self.objective.loss,
            tied=self.tied,
        )

    def watch(self, experiment: Experiment) -> Mapping[str, Measurement]:
        """Overlaps, noise and head of the first starts."""
        return measures.trajectory(experiment)

    def claims(self, runs: Runs) -> Iterable[Claim]:
        """The verdicts."""
        return judge.claims(self, runs)

    def figures(self, runs: Runs, claims: Sequence[Claim]) -> Iterable[Figure]:
        """The figures, in the order of the story."""
        return figures.figures(self, runs)

    def headline(self, runs: Runs, claims: Sequence[Claim]) -> str:
        """What was found, in one sentence."""
        return judge.headline(runs)
