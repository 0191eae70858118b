"""One neuron, and the direction in which its inputs vary most: a study whose answer is known in closed form.

From top to bottom: data, learner, objective, and the study that puts them together. Replace them one by one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
import xarray as xr
from featscope.claims import POSITIVE, SHARE, Claim, bound, identity
from featscope.figures import Figure, Panel
from featscope.options import require
from featscope.streams import Draws
from featscope.studies import Arm, Runs, Story, Study, last
from featscope.studies.summaries import chart, curve, in_words
from featscope.training import SGD, GradientTraining, Measurement, Ready, Training
from jaxtyping import Float
from torch import Tensor, nn


@dataclass(frozen=True)
class OneDirection:
    """Gaussian inputs that vary more along one hidden direction u: their covariance is I + strength u uᵀ.

    Attributes:
        input_dim: dimension of the inputs, d.
        strength: variance along u beyond that of every other direction; 0 makes all directions alike.
    """

    input_dim: int = 16
    strength: float = 4.0

    def __post_init__(self) -> None:
        require(self, "input_dim", self.input_dim >= 2, ">= 2")
        require(self, "strength", self.strength >= 0, ">= 0")

    def build(self, draws: Draws) -> "OneDirectionSource":
        """A source with a random direction for each replica."""
        return OneDirectionSource(self.strength, nn.functional.normalize(draws.normal(self.input_dim), dim=-1))


class OneDirectionSource(nn.Module):
    """`OneDirection` at work. It keeps the truth, which is what measurements compare with."""

    direction: Float[Tensor, "replica input"]

    def __init__(self, strength: float, direction: Float[Tensor, "replica input"]) -> None:
        super().__init__()
        self.strength = strength
        self.register_buffer("direction", direction)

    def sample(self, draws: Draws, count: int) -> Float[Tensor, "replica batch input"]:
        """``count`` fresh inputs for each replica. All chance comes from ``draws``."""
        along = self.strength**0.5 * draws.normal(count, 1)
        return draws.normal(count, self.direction.shape[-1]) + along * self.direction[:, None]


@dataclass(frozen=True)
class Neuron:
    """Options of a linear neuron.

    Attributes:
        scale: length of its weights at the start, in expectation.
    """

    scale: float = 0.1

    def __post_init__(self) -> None:
        require(self, "scale", self.scale > 0, "> 0")

    def build(self, source: OneDirectionSource, draws: Draws) -> "LinearNeuron":
        """A neuron with random weights for each replica."""
        inputs = source.direction.shape[-1]
        return LinearNeuron(self.scale / inputs**0.5 * draws.normal(inputs))


class LinearNeuron(nn.Module):
    """x -> <w, x>."""

    def __init__(self, weight: Float[Tensor, "replica input"]) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x: Float[Tensor, "replica batch input"]) -> Float[Tensor, "replica batch"]:
        """The neuron's answers."""
        return torch.einsum("rbi,ri->rb", x, self.weight)


@dataclass(frozen=True)
class NearestRankOne(Ready):
    """How far w wᵀ is from the covariance of the inputs: |w|⁴/4 - E<w, x>²/2, which is |w wᵀ - E x xᵀ|²/4 but for
    what does not depend on w. Descending its gradient is a rule of Oja's kind.

    Attributes:
        samples: inputs in a batch, B.
    """

    samples: int = 256

    def __post_init__(self) -> None:
        require(self, "samples", self.samples >= 1, ">= 1")

    def __call__(self, learner: LinearNeuron, source: OneDirectionSource, draws: Draws) -> Float[Tensor, "replica"]:
        """The loss of each replica on a fresh batch: averaged over samples, never over replicas."""
        answers = learner(source.sample(draws, self.samples))
        return learner.weight.square().sum(-1).square() / 4 - answers.square().mean(-1) / 2


@dataclass(frozen=True)
class FirstDirection(Study):
    """Does a single neuron find the direction in which its inputs vary most?

    Attributes:
        data: where inputs come from.
        learner: the neuron.
        objective: the loss of a batch.
        optimizer: gradient descent.
        steps: training steps.
        probe_every: steps between measurements.
    """

    name = "my-study"
    asks = "Does a single neuron find the direction in which its inputs vary most?"

    data: OneDirection = field(default_factory=OneDirection)
    learner: Neuron = field(default_factory=Neuron)
    objective: NearestRankOne = field(default_factory=NearestRankOne)
    optimizer: SGD = field(default_factory=lambda: SGD(lr=0.01, weight_decay=0.0))
    steps: int = 400
    probe_every: int = 20

    def arms(self) -> Iterable[Arm]:
        """The same training on inputs with a direction to be found and, as a control, without."""
        signal = Training(self.data, self.learner, self.objective, self.optimizer, {}, self.steps, self.probe_every)
        none = replace(signal, data=replace(self.data, strength=0.0))
        return [
            Arm("signal", signal, "inputs vary more along one hidden direction", "one direction"),
            Arm("no-signal", none, "inputs vary alike in all directions", "no direction", role="control"),
        ]

    def smallest(self) -> "FirstDirection":
        """So small that `featscope check` takes a second."""
        return replace(self, data=replace(self.data, input_dim=4), objective=NearestRankOne(samples=8), steps=2)

    def watch(self, experiment: GradientTraining) -> Mapping[str, Measurement]:
        """What to look at on the way; each has the replica in front."""
        weight: Tensor = experiment.learner.weight
        length = weight.square().sum(-1)
        along = (weight * experiment.source.direction).sum(-1).square()
        return {
            "aligned": Measurement(along / length, "squared cosine of weights and hidden direction"),
            "length": Measurement(length, "squared length of the weights"),
        }

    @bound(
        "Eckart & Young 1936",
        on="signal",
        not_on="no-signal",
        at_least=0.95,
        because="Bound: a stated choice. Fresh batches keep moving the weights, which costs less than a thousandth.",
        range=SHARE,
    )
    def finds_the_direction(self, run: xr.Dataset) -> xr.DataArray:
        r"""The neuron turns to the direction in which its inputs vary most.

        Training ends with $\cos^2(w, u) \ge 0.95$. Measured: squared cosine at the end.
        """
        return last(run, run.aligned)

    @identity(
        "Eckart & Young 1936",
        on="signal",
        not_on="no-signal",
        equals=1.0,
        within=0.05,
        because=r"Tolerance: fresh batches move $|w|^2$ by $\sqrt{2 \eta \lambda / B}$ of itself, 2 %, in a replica.",
        note="On the control all variances are 1, so that the length ends at 1.",
        range=POSITIVE,
    )
    def length_is_the_variance(self, run: xr.Dataset) -> xr.DataArray:
        r"""Its squared length becomes the variance along that direction.

        $|w|^2 = \lambda$, the largest eigenvalue of the covariance, $1 + \mathrm{strength}$. Measured: the ratio of the
        two at the end.
        """
        return last(run, run.length) / (1 + self.data.strength)

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """The two measurements over time."""
        arms = self.labelled(runs)
        turning = [curve(run.aligned, name, within=SHARE) for name, run in arms.items()]
        growing = [curve(run.length, name, within=POSITIVE) for name, run in arms.items()]
        yield chart(
            "training",
            "Does the neuron turn, and does it grow?",
            "Left: how well the neuron points along the hidden direction. Right: how long it is.",
            Panel("Direction", "training step", "squared cosine", turning),
            Panel("Length", "training step", "squared length of the weights", growing),
            claims=("finds-the-direction", "length-is-the-variance"),
        )

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """What was found, computed from the run."""
        ends = {name: in_words(last(run, run.aligned)) for name, run in runs.items()}
        return Story(
            f"Squared cosine of the neuron and the hidden direction after training: {ends['signal']}; where there is no "
            f"direction to be found, {ends['no-signal']}.",
            "Inputs are Gaussian and vary more along one hidden direction than along any other. One neuron is trained.",
            {"finds-the-direction@signal": "", "length-is-the-variance@signal": ""},
        )
