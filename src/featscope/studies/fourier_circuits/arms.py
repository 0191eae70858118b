"""What `fourier-circuits` runs: networks that are written down, single neurons, and networks that are trained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from featscope.axes import Axis
from featscope.data.modular_addition import ModularAddition
from featscope.models.polynomial_network import Polynomial
from featscope.options import require
from featscope.studies.base import Arm, Role, Study
from featscope.studies.fourier_circuits import exact, identities, probes
from featscope.studies.fourier_circuits.training import DecayingAdamW, PenalisedCrossEntropy
from featscope.training import Measurement, Training

WRITTEN, LARGE, COMPOSITE = "written-down", "paper-sizes", "odd-composite"
LATTICE, EVEN, ONE, IDENTITIES = "fewer-neurons", "even-modulus", "one-neuron", "identities"
TERM = "one-term"
TRAINED, TWO, TIGHT, FOUR, FIVE, PENALTIES = (
    "trained",
    "two-inputs",
    "two-tight",
    "four-inputs",
    "five-inputs",
    "penalties",
)
HALF, HALF_LARGE, DECAY = "half-data", "half-data-31", "weight-decay"
SMALL_START, LARGE_START = "small-start", "large-start"

PRIMES: exact.Sizes = (
    (2, 5), (2, 11), (3, 3), (3, 5), (3, 7), (3, 11), (3, 13), (4, 3), (4, 5), (4, 7), (5, 3), (5, 5),
)  # fmt: skip
PAPER: exact.Sizes = ((3, 97), (4, 47), (5, 23))
ODD: exact.Sizes = ((2, 9), (2, 15), (2, 25), (3, 9), (3, 15), (4, 9))
EVENS: exact.Sizes = ((2, 6), (2, 8), (2, 12), (3, 6), (3, 8), (4, 6))
LATTICES: exact.Sizes = ((2, 5), (2, 7), (2, 11), (3, 5), (3, 7), (3, 11), (4, 5), (4, 7))
NEURONS: exact.Sizes = ((2, 7), (2, 11), (3, 5), (3, 7), (4, 5), (5, 3))


@dataclass(frozen=True)
class FourierCircuitsArms(Study):
    """Addition modulo p by a network with activation x^k: the largest margin, and what training finds (Chapter 4).

    Attributes:
        modulus: p of the arms with three inputs, odd.
        penalty: λ of the same.
        steps: of training; arms where less is enough take fewer.
        lr: largest step size of AdamW.
        decay: weight decay where that is how λ is read.
        restarts: random single neurons of a size.
        points: random points of each of the paper's sizes.
    """

    name = "fourier-circuits"
    default_replicas = 12  # with 8, shares of 0.95 stay undecided

    modulus: int = 7
    penalty: float = 5e-3
    steps: int = 2000
    lr: float = 5e-3
    decay: float = 5e-3
    restarts: int = 20
    points: int = 200

    def __post_init__(self) -> None:
        odd = self.modulus >= 5 and self.modulus % 2 == 1
        require(self, "modulus", odd, "odd and >= 5", "At an even p the formulas miss a frequency; see even-modulus.")
        require(self, "penalty", 0 < self.penalty < 0.5, "> 0 and < 0.5")
        require(self, "steps", self.steps >= 10, ">= 10")
        require(self, "lr", self.lr > 0, "> 0")
        require(self, "decay", self.decay >= 0, ">= 0")
        require(self, "restarts", self.restarts >= 8, ">= 8")
        require(self, "points", self.points >= 16, ">= 16")

    def smallest(self) -> "FourierCircuitsArms":
        """Modulo 5, in fewer steps."""
        return replace(self, modulus=5, steps=1000, restarts=8, points=16)

    def arms(self) -> Sequence[Arm]:
        """Trained networks, then what theory leaves out, then what is written down."""

        def ask(name: str, recipe: Any, about: str, label: str) -> Arm:
            return Arm(name, recipe, about, label, watch=lambda experiment: {})

        return [
            self._train(
                TRAINED, 3, self.modulus, "three inputs, all points, the penalty of Definition 4.1", "three inputs"
            ),
            self._train(
                TWO,
                2,
                11,
                "two inputs, modulo 11, three times the printed width",
                "two inputs",
                penalty=1e-3,
                neurons=120,
            ),
            self._train(
                TIGHT, 2, 11, "two inputs, modulo 11, the printed width", "two inputs, printed width", penalty=1e-3
            ),
            self._train(FOUR, 4, 5, "four inputs, modulo 5", "four inputs", penalty=2e-2, scale=0.67, faster=2.0),
            self._train(FIVE, 5, 3, "five inputs, modulo 3, a smaller start", "five inputs", scale=0.35, times=0.75),
            self._train(
                PENALTIES,
                3,
                5,
                "three inputs, modulo 5; over λ",
                "over penalties",
                over=(Axis("objective.penalty", (5e-4, 5e-3, 5e-2)),),
            ),
            self._train(
                HALF,
                3,
                self.modulus,
                "half of the points: a margin on these may be larger",
                "half the points",
                "control",
                share=0.5,
            ),
            self._train(
                HALF_LARGE,
                2,
                31,
                "half of the points of two inputs modulo 31, as in Figure 4.2",
                "half, modulo 31",
                share=0.5,
                times=0.75,
            ),
            self._train(
                DECAY,
                3,
                self.modulus,
                "λ read as weight decay, no penalty",
                "weight decay, no penalty",
                penalty=0.0,
                decay=self.decay,
                times=0.75,
            ),
            self._train(
                SMALL_START,
                3,
                self.modulus,
                "weights an eighth as large at the start",
                "small start",
                scale=0.125,
                times=0.2,
            ),
            self._train(
                LARGE_START,
                5,
                3,
                "weights three times as large as those of five inputs, at the start",
                "large start",
                times=0.4,
            ),
            ask(
                WRITTEN,
                exact.Constructed(PRIMES),
                "the max-margin network of Lemma 4.11 with random phases",
                "written down",
            ),
            ask(
                LARGE,
                exact.AtRandomPoints(PAPER, self.points),
                "the same at the paper's sizes, random points",
                "paper's sizes",
            ),
            ask(COMPOSITE, exact.Constructed(ODD), "the same at odd p that are not prime", "odd, not prime"),
            ask(LATTICE, exact.Lattices(LATTICES), "fewer neurons: phases on rank-one lattices", "fewer neurons"),
            ask(EVEN, exact.Even(EVENS), "even p, without and with frequency p/2", "even modulus"),
            ask(
                ONE,
                exact.OneNeuron(NEURONS, self.restarts),
                "single neurons: random ones, and at the top of a climb",
                "single neurons",
            ),
            ask(IDENTITIES, identities.Identities(), "the two identities behind the construction", "two identities"),
            ask(TERM, identities.OneTerm(), "four neurons for one of its eight terms, as printed", "one term"),
        ]

    def _train(
        self,
        name: str,
        inputs: int,
        modulus: int,
        about: str,
        label: str,
        role: Role = "arm",
        *,
        penalty: float | None = None,
        neurons: int = 0,
        scale: float = 1.0,
        share: float = 1.0,
        decay: float = 0.0,
        times: float = 1.0,
        faster: float = 1.0,
        over: Sequence[Axis] = (),
    ) -> Arm[Training]:
        steps = round(times * self.steps)
        recipe = Training(
            ModularAddition(inputs, modulus, share),
            Polynomial(neurons, scale),
            PenalisedCrossEntropy(self.penalty if penalty is None else penalty),
            DecayingAdamW(faster * self.lr, over=steps, weight_decay=decay),
            steps=steps,
            probe_every=max(1, self.steps // 20),
        )
        return Arm(
            name,
            recipe,
            about,
            label,
            role,
            at_start=(probes.spectra,),
            at_end=(probes.neurons, probes.step_size),
            over=over,
        )

    def watch(self, experiment: Any) -> Mapping[str, Measurement]:
        """Cross-entropy, norm, margin and spectra on the way."""
        return probes.progress(experiment)
