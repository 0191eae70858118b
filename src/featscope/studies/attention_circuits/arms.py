"""What `attention-circuits` trains: three, four and five numbers, another place for the answer, and controls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from featscope.data.modular_addition import ModularAddition
from featscope.models.attention_only import AttentionOnly, Read
from featscope.options import require
from featscope.studies.addition import BatchCrossEntropy
from featscope.studies.attention_circuits import probes
from featscope.studies.base import Arm, Role, Study
from featscope.studies.fourier_circuits.training import DecayingAdamW
from featscope.training import GradientTraining, Measurement, Training

THREE, FOUR, FIVE = "three-inputs", "four-inputs", "five-inputs"
EQUALS, SHUFFLED, WIDE = "read-at-equals", "shuffled-labels", "wide-start"
INPUTS = {THREE: 3, FOUR: 4, FIVE: 5}


@dataclass(frozen=True)
class AttentionCircuitsArms(Study):
    """One layer of attention, and nothing else, adds numbers modulo p (Section 4.5, Figures 4.3, C.5 and C.6).

    Attributes:
        moduli: p for three, four and five numbers, odd.
        heads: for the same.
        hidden: dimension of embeddings for the same.
        head_dim: of keys, queries and values.
        decay: weight decay for the same.
        steps: of training.
        batch: points in a batch.
        lr: largest step size of AdamW, which falls along a cosine.
    """

    name = "attention-circuits"

    moduli: tuple[int, ...] = (17, 7, 5)
    heads: tuple[int, ...] = (32, 32, 64)
    hidden: tuple[int, ...] = (32, 32, 64)
    head_dim: int = 8
    decay: tuple[float, ...] = (0.5, 0.3, 0.1)
    steps: int = 1000
    batch: int = 512
    lr: float = 5e-3

    def __post_init__(self) -> None:
        odd = all(p >= 5 and p % 2 == 1 for p in self.moduli)
        require(self, "moduli", len(self.moduli) == 3 and odd, "three odd numbers >= 5")
        for name in ("heads", "hidden"):
            sizes = getattr(self, name)
            require(self, name, len(sizes) == 3 and min(sizes) >= 1, "three numbers >= 1")
        require(self, "decay", len(self.decay) == 3 and min(self.decay) >= 0, "three numbers >= 0")
        require(self, "head_dim", self.head_dim >= 1, ">= 1")
        require(self, "steps", self.steps >= 1, ">= 1")
        require(self, "batch", self.batch >= 1, ">= 1")
        require(self, "lr", self.lr > 0, "> 0")

    def smallest(self) -> "AttentionCircuitsArms":
        """Smaller moduli, fewer heads and steps."""
        return replace(self, moduli=(11, 5, 5), heads=(8, 8, 8), hidden=(16, 16, 16), steps=150, batch=128)

    def arms(self) -> Sequence[Arm]:
        """Three to five numbers, read at the last; the answer read elsewhere; controls."""
        return [
            self._train(THREE, THREE, "three numbers", "three numbers"),
            self._train(FOUR, FOUR, "four numbers", "four numbers"),
            self._train(FIVE, FIVE, "five numbers", "five numbers"),
            self._train(
                EQUALS, THREE, "three numbers, the answer read at a token after them", "three, read at =", read="equals"
            ),
            self._train(
                SHUFFLED,
                THREE,
                "three numbers, labels of other points",
                "shuffled labels",
                role="control",
                shuffled=True,
            ),
            self._untrained(),
        ]

    def _train(
        self,
        name: str,
        like: str,
        about: str,
        label: str,
        read: Read = "last",
        role: Role = "arm",
        shuffled: bool = False,
    ) -> Arm[Training]:
        place = list(INPUTS).index(like)
        recipe = Training(
            ModularAddition(INPUTS[like], self.moduli[place], share=0.5),
            AttentionOnly(self.heads[place], self.hidden[place], self.head_dim, read),
            BatchCrossEntropy(self.batch, shuffled),
            DecayingAdamW(self.lr, last=0.1, over=self.steps, weight_decay=self.decay[place]),
            steps=self.steps,
            probe_every=max(1, self.steps // 15),
        )
        measured = (probes.at_start,), (probes.at_end,)
        return Arm(name, recipe, about, label, role, at_start=measured[0], at_end=measured[1])

    def _untrained(self) -> Arm[Training]:
        """Heads so wide that entries of their matrices are near to independent."""
        recipe = replace(
            self._train(WIDE, THREE, "", "").recipe,
            learner=AttentionOnly(16, 256, 256),
            steps=0,
        )
        about = "random weights, 256 dimensions in embeddings and heads"
        return Arm(
            WIDE,
            recipe,
            about,
            "wide, untrained",
            "reference",
            at_start=(probes.at_start,),
            watch=lambda experiment: {},
        )

    def watch(self, experiment: GradientTraining) -> Mapping[str, Measurement]:
        """Accuracy and spectra on the way."""
        return probes.progress(experiment)
