"""What `uniform-parity` runs: closed forms over all inputs, cones, samples, and networks after the first step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from featscope.axes import Axis
from featscope.data.uniform_parity import UniformParity
from featscope.options import require
from featscope.studies.base import Arm, Role, Study
from featscope.studies.gradient_features.probes import TESTED, progress
from featscope.studies.uniform_parity.exact import Angles, Cones, Enumerated
from featscope.studies.uniform_parity.step import UniformParityStep
from featscope.training import GradientTraining, Measurement, TorchOptimizer, Training
from featscope.training.feature_step import MarginLoss

ENUMERATED, CONES, PAIR_ANGLES, FOUR_ANGLES = "enumerated", "cones", "angles-k=2", "angles-k=4"
PAIR, FOUR, PAIR_SAMPLED, FOUR_SAMPLED, SHUFFLED = "k=2", "k=4", "k=2-sampled", "k=4-sampled", "shuffled"


@dataclass(frozen=True)
class UniformParityArms(Study):
    """What the first gradient of a random neuron knows of the signs of a parity (dissertation, Section B.5.5).

    Attributes:
        enumerated: d at which all inputs are gone through, odd.
        pair_dimension: d of parities of two signs, odd.
        four_dimension: d of parities of four signs, odd.
        dimensions: d of random neurons whose gradients are in closed form, odd, ascending.
        pair_samples: of the first step on parities of two signs, an option each, ascending.
        four_samples: of the first step on parities of four signs.
        most_samples: in the largest sample whose gradients are looked at, on parities of four signs.
        steps: of training after the first; parities of two signs take half as many.
        samples: of a step after the first.
    """

    name = "uniform-parity"
    default_replicas = 32  # with 8, shares of 0.99 stay undecided

    enumerated: int = 13
    pair_dimension: int = 21
    four_dimension: int = 33
    dimensions: tuple[int, ...] = (65, 129, 257, 513)
    pair_samples: tuple[int, ...] = (100, 600, 3000, 20000)
    four_samples: int = 400000
    most_samples: int = 2000000
    steps: int = 600
    samples: int = 1000

    def __post_init__(self) -> None:
        require(self, "enumerated", self.enumerated % 2 == 1 and 9 <= self.enumerated <= 17, "odd, 9 to 17")
        for name in ("pair_dimension", "four_dimension"):
            require(self, name, getattr(self, name) % 2 == 1 and getattr(self, name) >= 9, "odd, >= 9")
        odd = len(self.dimensions) >= 2 and list(self.dimensions) == sorted({d for d in self.dimensions if d % 2})
        require(self, "dimensions", odd and self.dimensions[0] >= 9, "two or more odd numbers >= 9, ascending")
        ascending = len(self.pair_samples) >= 2 and list(self.pair_samples) == sorted(set(self.pair_samples))
        require(self, "pair_samples", ascending and self.pair_samples[0] >= 1, "two or more numbers >= 1, ascending")
        require(self, "four_samples", self.four_samples >= 1, ">= 1")
        require(self, "most_samples", self.most_samples >= 200000, ">= 200000")
        require(self, "steps", self.steps >= 20, ">= 20")
        require(self, "samples", self.samples >= 1, ">= 1")

    def smallest(self) -> "UniformParityArms":
        """Fewer samples; the largest ones just open the angle."""
        small = {"enumerated": 11, "four_dimension": 25, "four_samples": 3000, "most_samples": 400000}
        return replace(self, **small, dimensions=(65, 129), pair_samples=(100, 5000), steps=300, samples=200)

    def arms(self) -> Sequence[Arm]:
        """Exact ones, samples, then trained networks."""

        def ask(name: str, recipe: Any, about: str, label: str) -> Arm:
            return Arm(name, recipe, about, label, watch=lambda experiment: {})

        pair, four = UniformParity(self.pair_dimension, 2), UniformParity(self.four_dimension, 4)
        sizes = tuple(round(self.most_samples / 10 ** (0.5 * less)) for less in range(4, -1, -1))
        small, wide = UniformParityStep(10), UniformParityStep(70)
        over = Axis("learner.samples", self.pair_samples)
        return [
            self._train(PAIR, pair, small, "parity of two signs; first gradient in closed form", "two signs"),
            self._train(FOUR, four, wide, "parity of four signs; first gradient in closed form", "four signs"),
            self._train(
                PAIR_SAMPLED,
                pair,
                replace(small, samples=self.pair_samples[-1]),
                "first gradients of samples, over their size",
                "two signs, sampled",
                over=[over],
            ),
            self._train(
                FOUR_SAMPLED,
                four,
                replace(wide, samples=self.four_samples),
                f"first gradient of {self.four_samples} samples",
                "four signs, sampled",
            ),
            self._train(
                SHUFFLED,
                replace(pair, shuffled=True),
                replace(small, samples=self.pair_samples[-1]),
                "labels of other inputs",
                "shuffled labels",
                "control",
            ),
            ask(
                ENUMERATED,
                Enumerated(self.enumerated),
                f"all inputs of {self.enumerated} signs, random neurons",
                "all inputs",
            ),
            ask(
                CONES,
                Cones(self.dimensions),
                "random neurons with gradients in closed form, over d and k",
                "random neurons",
            ),
            ask(
                PAIR_ANGLES,
                Angles(pair, tuple(size // 200 for size in sizes), repeats=32),
                "gradients of samples, parity of two signs",
                "angles, two signs",
            ),
            ask(FOUR_ANGLES, Angles(four, sizes), "gradients of samples, parity of four signs", "angles, four signs"),
        ]

    def _train(
        self,
        name: str,
        data: UniformParity,
        learner: UniformParityStep,
        about: str,
        label: str,
        role: Role = "arm",
        over: Sequence[Axis] = (),
    ) -> Arm[Training]:
        steps = self.steps if data.block > 2 else self.steps // 2
        recipe = Training(
            data,
            learner,
            MarginLoss(samples=self.samples),
            TorchOptimizer("Adam", 0.05),
            steps=steps,
            probe_every=max(1, steps // 20),
        )
        return Arm(name, recipe, about, label, role, at_start=(after_step,), at_end=(at_end,), over=over)

    def watch(self, experiment: Any) -> Mapping[str, Measurement]:
        """Accuracy and hinge loss."""
        return progress(experiment)


def after_step(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Where the neurons that were equal on A point, and how large the read-out is."""
    network = experiment.learner
    unit = torch.nn.functional.normalize(network.weight.detach().double(), dim=-1)
    cosine = (unit @ experiment.source.features.mT)[..., 0].abs()
    equal = network.equal.double()
    mean = (cosine * equal).sum(1) / equal.sum(1)  # NaN where none was
    size = network.readout.detach().double().abs().mean(1) * 2 * experiment.source.options.block
    return {
        "cosine": Measurement(mean, "|cos| of weights after the step to D, mean over neurons equal on A"),
        "readout_size": Measurement(size, "|a| after the step times 2k, mean over neurons"),
    }


def at_end(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """How large the read-out is, and what labels it was trained on."""
    largest = experiment.learner.readout.detach().double().abs().amax(1)
    labels = experiment.source.sample(experiment.streams.at("labels"), TESTED).y
    return {
        "largest": Measurement(largest / (8 * experiment.source.options.block), "max|a| over 8k"),
        "positive": Measurement((labels == 1).double().mean(1), "share of fresh labels that are 1"),
    }
