"""What `grokking` trains: the source's comparison, and others in which less differs from one k to the next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from featscope.data.modular_addition import MOST_POINTS, ModularAddition
from featscope.models.decoder import Decoder
from featscope.options import require
from featscope.studies.addition import BatchCrossEntropy
from featscope.studies.base import Arm, Role, Study
from featscope.studies.fourier_circuits.training import DecayingAdamW
from featscope.studies.grokking import probes
from featscope.training import GradientTraining, Measurement, Training

INPUTS = (2, 3, 4, 5)
_WORDS = ("two", "three", "four", "five")
PRINTED = tuple(f"k={k}" for k in INPUTS)
"""The source's comparison: p falls as k grows."""
NO_DECAY = ("k=2-no-decay", "k=3-no-decay")
SAME_POINTS = ("k=2", "k=3", "k=4-same-points")
"""About as many points to train on for every k, where `same_points` says so; p falls."""
SAME_P = ("k=2-same-p", "k=3", "k=4-same-p")
"""One p; the number of points grows with k."""
SAME_BOTH = ("k=3", "k=4-same-both")
FEWER, MORE = "k=3-fewer-points", "k=3-more-points"
LARGER = "k=2-larger-p"
_ALIKE = 0.05
"""Share by which numbers of points may differ that are called the same."""


@dataclass(frozen=True)
class GrokkingArms(Study):
    """Adding two to five numbers modulo p by a transformer of two layers (Section 4.5, Figure 4.4).

    Attributes:
        moduli: p for two, three, four and five numbers.
        larger: another p for two numbers.
        layers: of the decoder.
        width: of its stream.
        heads: in a layer.
        head_dim: of a head; width over heads if 0.
        decay: weight decay.
        steps: at most; a run ends when all replicas have learned. Arms that need not get there take half.
        batch: points in a batch.
        lr: step size of AdamW, after ten steps of warm-up.
    """

    name = "grokking"

    moduli: tuple[int, ...] = (37, 11, 7, 5)
    larger: int = 97
    layers: int = 2
    width: int = 32
    heads: int = 4
    head_dim: int = 0
    decay: float = 1.0
    steps: int = 2400
    batch: int = 128
    lr: float = 3e-3

    def __post_init__(self) -> None:
        require(self, "moduli", len(self.moduli) == 4 and min(self.moduli) >= 3, "four numbers >= 3")
        for k, p in enumerate(self.moduli, 2):
            require(self, "moduli", p**k <= MOST_POINTS, f"at most {MOST_POINTS:,} points p^k for each k")
        require(self, "larger", self.larger > self.moduli[0], "> moduli[0]")
        require(self, "larger", self.larger**2 <= MOST_POINTS, f"at most {MOST_POINTS:,} points p^2")
        for name in ("layers", "width", "heads", "steps", "batch"):
            require(self, name, getattr(self, name) >= 1, ">= 1")
        require(self, "head_dim", self.head_dim >= 0, ">= 0; 0 for width over heads")
        require(self, "decay", self.decay > 0, "> 0", "Arms without decay are there already.")
        require(self, "lr", self.lr > 0, "> 0")

    def smallest(self) -> "GrokkingArms":
        """A narrow network, few steps."""
        return replace(self, moduli=(11, 7, 5, 3), larger=13, width=16, steps=40, batch=32)

    @property
    def points(self) -> int:
        """Points to train on of two numbers."""
        return round(self.moduli[0] ** 2 / 2)

    def arms(self) -> Sequence[Arm]:
        """As printed, with fewer differences, with more or fewer points, without weight decay."""
        two, three, four, _ = self.moduli
        of_three = three**3 // 2
        of_four = min(self.points, four**4 // 2)
        return [
            *(
                self._train(name, k, p, f"{k} numbers modulo {p}, half of the points", f"{word} numbers")
                for name, k, p, word in zip(PRINTED, INPUTS, self.moduli, _WORDS, strict=True)
            ),
            self._train(
                SAME_POINTS[2],
                4,
                four,
                f"4 numbers modulo {four}, {of_four} points to train on",
                "four, same points",
                points=of_four,
            ),
            self._train(
                SAME_P[0], 2, three, f"2 numbers modulo {three}, half of the points", "two, same modulus", times=0.5
            ),
            self._train(SAME_P[2], 4, three, f"4 numbers modulo {three}, half of the points", "four, same modulus"),
            self._train(
                SAME_BOTH[1],
                4,
                three,
                f"4 numbers modulo {three}, {of_three} points to train on",
                "four, same otherwise",
                points=of_three,
            ),
            self._train(
                LARGER, 2, self.larger, f"2 numbers modulo {self.larger}, half of the points", "two, larger modulus"
            ),
            self._train(
                FEWER,
                3,
                three,
                f"3 numbers modulo {three}, three tenths of the points",
                "three, fewer points",
                share=0.3,
                times=0.5,
            ),
            self._train(
                MORE, 3, three, f"3 numbers modulo {three}, nine tenths of the points", "three, more points", share=0.9
            ),
            *(
                self._train(
                    name, k, p, f"{k} numbers modulo {p}, no weight decay", f"{word}, no decay", "control", decay=0.0
                )
                for name, k, p, word in zip(NO_DECAY, (2, 3), (two, three), _WORDS[:2], strict=True)
            ),
        ]

    def _train(
        self,
        name: str,
        inputs: int,
        modulus: int,
        about: str,
        label: str,
        role: Role = "arm",
        share: float = 0.5,
        points: int = 0,
        decay: float | None = None,
        times: float = 1.0,
    ) -> Arm[Training]:
        steps = max(1, round(times * self.steps))
        data = ModularAddition(inputs, modulus, points / modulus**inputs if points else share)
        recipe = Training(
            data,
            Decoder(self.layers, self.width, self.heads, self.head_dim),
            BatchCrossEntropy(self.batch),
            DecayingAdamW(self.lr, last=1.0, over=steps, weight_decay=self.decay if decay is None else decay),
            {"crossings": probes.Crossings()},
            steps=steps,
            probe_every=max(1, self.steps // 24),
        )
        return Arm(name, recipe, about, label, role, stop_at=probes.LEARNED)

    def trained_on(self, arm: str) -> int:
        """Points to train on of an arm."""
        data = self.arm(arm).recipe.data
        return round(data.share * data.count)

    def watch(self, experiment: GradientTraining) -> Mapping[str, Measurement]:
        """Accuracy, spectra and norm on the way."""
        return probes.progress(experiment)


def same_points(study: GrokkingArms) -> tuple[str, ...]:
    """Those of `SAME_POINTS` that have about as many points to train on as its first, which is among them."""
    first = study.trained_on(SAME_POINTS[0])
    return tuple(arm for arm in SAME_POINTS if abs(study.trained_on(arm) - first) <= _ALIKE * first)
