"""What `gradient-features` runs: single steps and neurons, networks that are written down, and trained ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Any

from featscope.axes import Axis
from featscope.data.labelled_gaussians import GaussianMixture, LinearMargin
from featscope.data.structured_parity import StructuredParity
from featscope.models.fixed_bias_relu import FixedBiasReLU
from featscope.options import require, require_ascending
from featscope.studies.base import Arm, Assay, Role, Study
from featscope.studies.gradient_features import probes
from featscope.studies.gradient_features.exact import (
    FirstStep,
    FrozenFirstLayer,
    MixtureNetworks,
    Sampling,
    TrueNetworks,
)
from featscope.studies.gradient_features.mixture_neurons import MixtureNeurons
from featscope.studies.gradient_features.neurons import GoodNetworks, LinearNeurons, ParityNeurons, XorNeurons
from featscope.training import SGD, Measurement, TorchOptimizer, Training
from featscope.training.feature_step import FeatureStep, MarginLoss
from featscope.training.gradient import LearnerConfig, OptimizerConfig, SourceConfig

FIRST, SAMPLING, LINEAR_NEURONS, XOR_NEURONS = "first-step", "sampling", "linear-neurons", "xor-neurons"
MIXTURE_NEURONS = "mixture-neurons"
PARITY_NEURONS, TRUE, MIXTURES, GOOD, FROZEN_RATE = (
    "parity-neurons",
    "true-networks",
    "mixture-networks",
    "good-networks",
    "frozen-rate",
)
XOR, XOR_TICKET, XOR_RANDOM, XOR_WORST = "xor", "xor-ticket", "xor-random", "xor-worst"
PARITY, PARITY_FROZEN, PARITY_SMALL = "parity", "parity-frozen", "parity-no-step"
PARITY_TICKET, PARITY_FITTING = "parity-ticket", "parity-ticket-fitting"
LINEAR, MIXTURE, SPREADS, STAIRS = "linear", "mixture", "spreads", "staircase"
LEVELS = (0.7, 0.22, 0.08)
"""Weights of the three XOR mixtures, in planes of their own, that the staircase is of."""


@dataclass(frozen=True)
class GradientFeaturesArms(Study):
    """Features are where the first gradients of random neurons point (dissertation, Chapter 3).

    Attributes:
        dimension: of the Gaussian laws that networks are trained on.
        quarter: a fourth of a network's neurons, m.
        block: signs of the parity that is trained on, k.
        ticket: neurons of a part of a network.
        steps: of training on XOR; parities take eight times as many.
        samples: of a step after the first.
        neurons: random ones of a threshold.
        widths: m of the networks whose nice neurons are counted, least first.
        spreads: σ_B of the XOR mixtures that random features are compared on.
    """

    name = "gradient-features"
    default_replicas = 32  # with 8, shares of 0.99 stay undecided

    dimension: int = 100
    quarter: int = 100
    block: int = 5
    ticket: int = 60
    steps: int = 50
    samples: int = 500
    neurons: int = 30000
    widths: tuple[int, ...] = (250, 1000, 2500)
    spreads: tuple[float, ...] = (1.0, 1.5, 2.0, 2.5, 3.0)

    def __post_init__(self) -> None:
        require(self, "dimension", self.dimension >= 20, ">= 20")
        require(self, "quarter", self.quarter >= 5, ">= 5")
        require(self, "block", self.block % 2 == 1 and 3 <= self.block <= 15, "odd, 3 to 15")
        whole = 4 * self.quarter
        require(self, "ticket", 1 <= self.ticket <= whole, f"1 to {whole}, as a network has neurons")
        require(self, "steps", self.steps >= 10, ">= 10")
        require(self, "samples", self.samples >= 1, ">= 1")
        require(self, "neurons", self.neurons >= 100, ">= 100")
        require_ascending(self, "widths")
        ascending = len(self.spreads) >= 2 and list(self.spreads) == sorted(set(self.spreads)) and self.spreads[0] > 0
        require(self, "spreads", ascending, "two or more numbers > 0, smallest first")

    def smallest(self) -> "GradientFeaturesArms":
        """Fewer dimensions, neurons, samples and spreads."""
        small = {"dimension": 50, "quarter": 40, "block": 3, "ticket": 40, "steps": 25, "samples": 250, "neurons": 3000}
        return replace(self, **small, widths=(250, 1000), spreads=(1.0, 2.5))

    def arms(self) -> Sequence[Arm]:
        """Trained networks, then what is exact, then single neurons."""

        def ask(name: str, recipe: Any, about: str, label: str) -> Arm:
            return Arm(name, recipe, about, label, watch=lambda experiment: {})

        d, xor = self.dimension, GaussianMixture(self.dimension)
        mixture = GaussianMixture(d, (1, 2, 3, 4), (1, -1, 1, -1))
        threshold = sqrt(d * log(log(d)))
        start = FixedBiasReLU(self.quarter, threshold, 0.1, 0.1 * threshold / sqrt(d))
        step = FeatureStep(start, 2000, count=self.ticket)
        parity, of_parity = StructuredParity(block=self.block), sqrt(self.block)
        small = FixedBiasReLU(self.quarter, of_parity, 0.1, 0.4)
        parity_step = FeatureStep(small, 40 * self.samples, count=self.ticket)
        looks = (probes.directions_before,)
        return [
            self._train(
                XOR,
                xor,
                step,
                "XOR mixture, Algorithm 1",
                "XOR",
                looks,
                (probes.directions_after, probes.outer_product),
            ),
            self._part(
                XOR_TICKET,
                xor,
                step,
                "aligned",
                "the neurons nearest to a feature after the first step alone",
                "XOR, nearest neurons",
            ),
            self._part(
                XOR_RANDOM, xor, step, "random", "as many random neurons of it", "XOR, random neurons", "reference"
            ),
            self._part(
                XOR_WORST,
                xor,
                step,
                "misaligned",
                "the neurons farthest from any feature",
                "XOR, farthest neurons",
                "reference",
            ),
            self._train(
                PARITY,
                parity,
                parity_step,
                f"parity of {self.block} of 30 signs",
                "parity",
                looks,
                (probes.directions_after,),
                adam=True,
            ),
            self._train(
                PARITY_FROZEN,
                parity,
                replace(parity_step, frozen=True),
                "first weights stay",
                "parity, first layer frozen",
                looks,
                (probes.directions_after,),
                adam=True,
            ),
            self._part(
                PARITY_TICKET,
                parity,
                parity_step,
                "aligned",
                "neurons nearest to the feature alone",
                "parity, nearest neurons",
                adam=True,
            ),
            self._part(
                PARITY_FITTING,
                parity,
                parity_step,
                "fitting",
                "neurons near it with thresholds where the answer bends",
                "parity, fitting neurons",
                adam=True,
            ),
            self._train(
                PARITY_SMALL,
                parity,
                replace(small, quarter=max(1, self.ticket // 4), readout=0.1),
                "as few neurons, without a feature step",
                "parity, no feature step",
                adam=True,
            ),
            self._train(
                LINEAR, LinearMargin(d), FeatureStep(replace(start, readout=0.1), 2000), "linear data", "linear data"
            ),
            self._train(
                MIXTURE,
                mixture,
                step,
                "four orthogonal clusters of alternate labels",
                "four clusters",
            ),
            self._train(
                SPREADS,
                xor,
                FeatureStep(start, 4000),
                "XOR mixtures over σ_B, beside random features",
                "XOR, over spreads",
                (),
                (probes.random_features,),
                over=(Axis("data.spread", self.spreads),),
                times=2,
                every=25,
            ),
            self._train(
                STAIRS,
                GaussianMixture(
                    d,
                    tuple(side * axis for axis in range(1, 7) for side in (1, -1)),
                    (1, 1, -1, -1) * 3,
                    weights=tuple(level / 4 for level in LEVELS for _ in range(4)),
                ),
                FeatureStep(start, 4000),
                "three XOR mixtures in one, of unequal weight",
                "three XOR mixtures",
                watch=probes.by_part,
                times=8,
                every=5,
            ),
            ask(
                FIRST,
                FirstStep(),
                "the first step by automatic differentiation against the formula; five laws",
                "first step",
            ),
            ask(SAMPLING, Sampling(), "gradients of samples of mixtures against the closed form", "sampled gradients"),
            ask(TRUE, TrueNetworks(), "networks that are right on every input", "exact networks"),
            ask(MIXTURES, MixtureNetworks(), "networks of mixtures that are nearly so", "nearly exact networks"),
            ask(
                FROZEN_RATE,
                FrozenFirstLayer(),
                "one feature step, then descent on the read-out alone",
                "read-out alone",
            ),
            ask(LINEAR_NEURONS, LinearNeurons(), "neurons of linear data over their threshold", "linear data, neurons"),
            ask(
                XOR_NEURONS,
                XorNeurons(neurons=self.neurons),
                "neurons of the XOR mixture over their threshold",
                "XOR, neurons",
            ),
            ask(
                MIXTURE_NEURONS,
                MixtureNeurons(mixture, self.neurons),
                "neurons of the four clusters over their threshold and the clusters' distance",
                "four clusters, neurons",
            ),
            ask(
                PARITY_NEURONS,
                ParityNeurons(self.neurons, min(20000, 2 * self.neurons)),
                "neurons of parities over their threshold",
                "parities, neurons",
            ),
            ask(
                GOOD,
                GoodNetworks(quarters=self.widths, draws=self.neurons),
                "nice neurons and the network that they make, over m",
                "nice neurons",
            ),
        ]

    def _part(
        self,
        name: str,
        data: SourceConfig,
        step: FeatureStep,
        keep: Any,
        about: str,
        label: str,
        role: Role = "arm",
        **more: Any,
    ) -> Arm[Training]:
        kept = replace(step, keep=keep)
        return self._train(name, data, kept, about, label, (probes.how_many,), role=role, **more)

    def _train(
        self,
        name: str,
        data: SourceConfig,
        learner: LearnerConfig,
        about: str,
        label: str,
        at_start: Sequence[Assay] = (),
        at_end: Sequence[Assay] = (),
        role: Role = "arm",
        *,
        adam: bool = False,
        over: Sequence[Axis] = (),
        watch: Assay | None = None,
        times: int = 1,
        every: int = 2,
    ) -> Arm[Training]:
        optimizer: OptimizerConfig = TorchOptimizer("Adam", 0.02) if adam else SGD(0.05, 0.0)
        steps, often = (8 * self.steps, 20) if adam else (times * self.steps, every)
        recipe = Training(data, learner, MarginLoss(samples=self.samples), optimizer, steps=steps, probe_every=often)
        return Arm(name, recipe, about, label, role, at_start=at_start, at_end=at_end, over=over, watch=watch)

    def watch(self, experiment: Any) -> Mapping[str, Measurement]:
        """Accuracy and hinge loss."""
        return probes.progress(experiment)
