"""What `fixed-features` runs: all inputs at once, networks after none, one and two steps, fixed features, machines."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from jaxtyping import Float

from featscope.axes import Axis
from featscope.data import DictionaryData
from featscope.models import TangentStart, UnbiasedStart
from featscope.options import require, require_ascending
from featscope.studies.base import Arm, Assay, Role, Study
from featscope.studies.fixed_features import enumerated, probes
from featscope.studies.fixed_features.enumerated import Enumerated
from featscope.studies.fixed_features.trained import BatchHinge, Machines
from featscope.theory import dictionary_learning as theory
from featscope.training import Iteration, TorchOptimizer, Training

ENUMERATED, UNIFORM = "enumerated", "enumerated-without"
NETWORK, NOTHING_TO_FIND = "network", "network-without"
ONE, ONE_RESCALED, TWO = "one-step", "one-step-rescaled", "two-steps"
RANDOM, RANDOM_WITHOUT = "random-features", "random-features-without"
TANGENT, TANGENT_WITHOUT = "tangent", "tangent-without"
MACHINES, MACHINES_WITHOUT = "machines", "machines-without"
LITERAL, WIDTHS = "literal-sgd", "widths"
INTERVAL, INTERVAL_TWO, INTERVAL_TANGENT = "interval", "interval-two-steps", "interval-tangent"
INTERVAL_WITHOUT, INTERVAL_TANGENT_WITHOUT = "interval-two-steps-without", "interval-tangent-without"
HIDDEN = "hidden"
RARE = {0.8: "negatives=0.8", 0.9: "negatives=0.9"}
RARE_RANDOM = {0.8: "negatives=0.8-random", 0.9: "negatives=0.9-random"}
GENERAL, GENERAL_RANDOM, COHERENT = "general", "general-random", "general-two-steps"
NOISE = 0.05
"""σ_ζ of the general setting."""
_LR, _FROZEN_LR, _TANGENT_LR, _INTERVAL_LR = 0.1, 0.01, 3e-4, 1e-3


@dataclass(frozen=True)
class FixedFeaturesArms(Study):
    """Feature learning on dictionary data, and what has fixed features (dissertation, Chapter 2).

    Attributes:
        patterns: D, the inputs' dimension.
        relevant: k, an odd number; intervals have 3 k relevant patterns, hidden vectors 4 k.
        neurons: m; networks have 2m.
        samples: n, of the training set.
        batch: samples in a step from the third on.
        steps: after the first two; where classes are unbalanced and for the literal recipe twice as many.
        test: of the test set.
        enumerated: patterns of the arm that takes every input.
        machine_samples: training samples of ridge classifiers and of the recursive feature machine.
        widths: m, smallest first, where the width is varied.
        learning_rate: of features that are frozen and standardised.
    """

    name = "fixed-features"
    default_replicas = 16  # with 8, shares of 0.97 stay undecided

    patterns: int = 50
    relevant: int = 5
    neurons: int = 100
    samples: int = 20_000
    batch: int = 500
    steps: int = 300
    test: int = 2_000
    enumerated: int = 12
    machine_samples: int = 1_500
    widths: tuple[int, ...] = (10, 30, 100)
    learning_rate: float = _FROZEN_LR

    def __post_init__(self) -> None:
        odd = self.relevant >= 3 and self.relevant % 2 == 1
        require(self, "relevant", odd, "an odd number >= 3")
        require(self, "patterns", self.patterns >= 4 * self.relevant, f"4 relevant = {4 * self.relevant} at least")
        for name in ("neurons", "samples", "batch", "steps", "test", "machine_samples"):
            require(self, name, getattr(self, name) >= 2, ">= 2")
        require(self, "enumerated", self.relevant < self.enumerated <= 14, "above relevant, 14 at most")
        require_ascending(self, "widths")
        require(self, "learning_rate", self.learning_rate > 0, "> 0")

    def smallest(self) -> "FixedFeaturesArms":
        """Fewer patterns, neurons, samples and steps."""
        return replace(
            self,
            patterns=20,
            neurons=50,
            samples=3_000,
            batch=150,
            steps=150,
            test=400,
            enumerated=9,
            machine_samples=400,
            widths=(5, 50),
            learning_rate=0.03,
        )

    @property
    def ceiling(self) -> float:
        """Accuracy of the best linear rule."""
        return theory.linear_ceiling(self.relevant, 0.5)

    def blurred(self, run: xr.Dataset) -> Float[np.ndarray, " dimension"]:
        """Accuracy of the best rule for a count that other patterns and noise blur, in every dimension of an arm."""
        even, sizes = 0.5, run.dimension.values
        blurs = [theory.blur(self.patterns, self.relevant, even, int(size), NOISE) for size in sizes]
        return np.array([theory.blurred_accuracy(self.relevant, even, blur) for blur in blurs])

    def arms(self) -> Sequence[Arm]:
        """All inputs, parities with and without structure, other labels, the general setting."""
        plain, both = self._data(), self._data(structured=False)
        more = 2 * self.steps
        return [
            self._enumerated(ENUMERATED, plain, "every input once, with its probability"),
            self._enumerated(UNIFORM, both, "the same with all patterns fair coins", "control"),
            self._network(NETWORK, plain, "two steps, then Adam on all layers"),
            self._network(NOTHING_TO_FIND, both, "the same without structure in the inputs"),
            self._frozen(ONE, plain, UnbiasedStart(self.neurons, 1, True), "the first layer of one step"),
            self._frozen(ONE_RESCALED, plain, self._on_top(1, rescaled=True), "its weights as long as those of two"),
            self._frozen(TWO, plain, self._on_top(2), "the first layer of two steps"),
            self._frozen(RANDOM, plain, self._on_top(0), "the first layer of the start"),
            self._frozen(RANDOM_WITHOUT, both, self._on_top(0), "the same without structure"),
            self._frozen(TANGENT, plain, TangentStart(self.neurons), "the network's gradient at its start"),
            self._frozen(TANGENT_WITHOUT, both, TangentStart(self.neurons), "the same without structure"),
            self._machines(MACHINES, plain, "ridge on fixed features, and the recursive feature machine"),
            self._machines(MACHINES_WITHOUT, both, "the same without structure"),
            self._literal(plain),
            self._network(WIDTHS, plain, "networks of several widths", over=(Axis("learner.neurons", self.widths),)),
            self._network(INTERVAL, self._data("interval"), "interval labels"),
            *(
                self._frozen(name, self._data("interval", structured), learner, about)
                for name, structured, learner, about in (
                    (INTERVAL_TWO, True, self._on_top(2), "interval labels, first layer of two steps"),
                    (INTERVAL_TANGENT, True, TangentStart(self.neurons), "interval labels, gradient at the start"),
                    (INTERVAL_WITHOUT, False, self._on_top(2), "interval labels without structure, two steps"),
                    (INTERVAL_TANGENT_WITHOUT, False, TangentStart(self.neurons), "interval labels without, gradient"),
                )
            ),
            self._network(HIDDEN, self._data("hidden"), "labels of 100 hidden vectors"),
            *(
                self._frozen(names[share], self._data(negatives=share), self._on_top(taken), about.format(share), more)
                for share in RARE
                for names, taken, about in (
                    (RARE, 2, "{:.0%} of class -1, first layer of two steps"),
                    (RARE_RANDOM, 0, "{:.0%} of class -1, first layer of the start"),
                )
            ),
            *self._general(),
        ]

    def _general(self) -> Sequence[Arm]:
        """The general setting of A.8: a dictionary of random directions, noise, a rare class."""
        data = replace(self._data(negatives=0.8), dimension=4 * self.patterns, incoherent=True, noise=NOISE)
        even = replace(data, negatives=0.5, samples=self.samples // 4)
        dimensions = Axis("data.dimension", tuple(times * self.patterns for times in (2, 8, 32)))
        about = "incoherent patterns, noise, 80 % of class -1"
        return [
            self._network(GENERAL, data, about, steps=2 * self.steps),
            self._frozen(
                GENERAL_RANDOM,
                data,
                self._on_top(0),
                f"{about}, first layer of the start",
                2 * self.steps,
                start=(probes.frozen,),
            ),
            self._frozen(
                COHERENT,
                even,
                self._on_top(2),
                f"incoherent patterns in several dimensions, noise, first layer of two steps, {even.samples} samples",
                2 * self.steps,
                over=(dimensions,),
            ),
        ]

    def _data(self, labels: str = "parity", structured: bool = True, negatives: float = 0.5) -> DictionaryData:
        relevant = self.relevant * {"parity": 1, "interval": 3, "hidden": 4}[labels]
        return DictionaryData(
            self.patterns,
            relevant,
            labels,  # type: ignore[arg-type]
            structured,
            negatives=negatives,
            samples=self.samples,
            test=self.test,
        )

    def _on_top(self, assigned: int, rescaled: bool = False) -> UnbiasedStart:
        return UnbiasedStart(self.neurons, assigned, True, True, rescaled)

    def _enumerated(self, name: str, data: DictionaryData, about: str, role: Role = "arm") -> Arm[Iteration]:
        learner = Enumerated(replace(data, patterns=self.enumerated), self.neurons)
        assays = (enumerated.measured,)
        return Arm(name, Iteration(learner, 1, 1), about, name.replace("-", " "), role, at_start=assays)

    def _network(
        self, name: str, data: DictionaryData, about: str, over: Sequence[Axis] = (), steps: int = 0
    ) -> Arm[Training]:
        start: tuple[Assay, ...] = (probes.turned if data.dimension else probes.first_steps,)
        start = () if over else start
        recipe = self._recipe(data, UnbiasedStart(self.neurons), TorchOptimizer("Adam", lr=_LR), steps or self.steps)
        return Arm(name, recipe, about, name.replace("-", " "), over=over, at_start=start, watch=probes.answers)

    def _frozen(
        self,
        name: str,
        data: DictionaryData,
        learner: UnbiasedStart | TangentStart,
        about: str,
        steps: int = 0,
        over: Sequence[Axis] = (),
        start: Sequence[Assay] = (),
    ) -> Arm[Training]:
        lr = self.learning_rate
        if isinstance(learner, TangentStart):
            lr = _TANGENT_LR if data.labels == "parity" else _INTERVAL_LR
        recipe = self._recipe(data, learner, TorchOptimizer("Adam", lr=lr), steps or self.steps)
        label = name.replace("-", " ")
        return Arm(name, recipe, about, label, over=over, at_start=start, watch=probes.answers)

    def _literal(self, data: DictionaryData) -> Arm[Training]:
        steps = 2 * self.steps
        rate = theory.late_step_size(self.relevant, self.neurons, steps)
        recipe = self._recipe(data, UnbiasedStart(self.neurons), TorchOptimizer("SGD", lr=rate), steps)
        about = "two steps, then gradient descent with the step size of Theorem A.20"
        return Arm(LITERAL, recipe, about, "literal SGD", watch=probes.drifting)

    def _machines(self, name: str, data: DictionaryData, about: str) -> Arm[Iteration]:
        learner = Machines(replace(data, samples=self.machine_samples), self.neurons)
        recipe, label = Iteration(learner, 1, 1), name.replace("-", " ")
        return Arm(name, recipe, about, label, at_end=(probes.machines,))

    def _recipe(
        self, data: DictionaryData, learner: UnbiasedStart | TangentStart, optimizer: TorchOptimizer, steps: int
    ) -> Training:
        return Training(data, learner, BatchHinge(self.batch), optimizer, {}, steps, max(1, steps // 12))
