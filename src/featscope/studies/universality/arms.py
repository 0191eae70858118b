"""What `universality` runs: tables of finite hidden spaces, linear representations in training, predictors on them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

from featscope.data import TaskFeatures
from featscope.options import require
from featscope.studies import untrained
from featscope.studies.base import Arm, Role, Study
from featscope.studies.universality import pretraining
from featscope.studies.universality.labelled import Labelled, TwoOptima
from featscope.studies.universality.pretraining import LinearRepresentation, NearStart, NormBounds, PairLoss
from featscope.studies.universality.tables import FourStates, RandomTables, SearchedTables
from featscope.training import Cooling, Iteration, TorchOptimizer, Training
from featscope.training.gradient import RuleConfig
from featscope.training.recursion import IteratedConfig

RANDOM, UNPAIRED = "random-tables", "random-tables-unrelated"
SEARCHED, PLAIN = "searched-tables", "searched-tables-plain"
FOUR, SPHERE = "four-states", "four-states-3d"
JOINT, EIGHT, FEW = "joint", "joint-T=8", "joint-s=3"
UNEVEN, SPECIFIC = "uneven", "specific"
KEPT, UNRELATED = "no-augmentation", "unrelated-pairs"
TUNED, TUNED_EIGHT, FAR, TURNED = "finetuned", "finetuned-T=8", "finetuned-far", "finetuned-superposed"
TWO, LABELS = "two-optima", "labels"
MIXTURE = (0.5, 0.3, 0.15, 0.05)
"""Weights of tasks where they are uneven."""
_LR = 0.5
_FLAT_LR = 2.0  # where features of a task add up to so much that slopes of the loss are small


@dataclass(frozen=True)
class UniversalityArms(Study):
    """What joint and specific contrastive pre-training keep, and what labels it takes (Section 7.2, Appendix F.1, F.2).

    Attributes:
        steps: of pre-training; fine-tuning takes half of them.
        batch: pairs of a step.
        gamma: γ, how far fine-tuning may go.
        table_steps: of a search for tables.
        repeats: tasks and samples on which predictors are fitted.
    """

    name = "universality"

    steps: int = 500
    batch: int = 1024
    gamma: float = 0.5
    table_steps: int = 600
    repeats: int = 60

    def __post_init__(self) -> None:
        for name in ("steps", "table_steps"):
            require(self, name, getattr(self, name) >= 1, ">= 1")
        for name in ("batch", "repeats"):
            require(self, name, getattr(self, name) >= 2, ">= 2")
        most = 2 * (1 - sqrt(1 / 4))
        require(self, "gamma", 0 < self.gamma < most, f"above 0 and below {most:g}", "There β = 1.")

    def smallest(self) -> "UniversalityArms":
        """Fewer steps and smaller batches."""
        return replace(self, steps=120, batch=256, table_steps=250, repeats=20)

    def arms(self) -> Sequence[Arm]:
        """Tables, pre-training, fine-tuning, predictors."""
        data = TaskFeatures()
        alone = replace(data, weights=(1.0, 0.0, 0.0, 0.0))
        eight = replace(data, tasks=8)
        searched = SearchedTables(steps=self.table_steps)
        return [
            self._once(RANDOM, RandomTables(), "tables that nobody trained, every expectation a sum"),
            self._once(UNPAIRED, RandomTables(related=False), "the two of a pair are independent", "control"),
            self._once(SEARCHED, searched, "tables of least logistic loss at four norms"),
            self._once(PLAIN, replace(searched, augmented=False), "the two of a pair are equal", "control"),
            self._once(FOUR, FourStates(), "four states on a circle"),
            self._once(SPHERE, FourStates(3), "four states on a sphere in three dimensions"),
            self._trained(SPECIFIC, alone, "pre-trained on the first of four tasks", lr=_FLAT_LR),
            self._trained(JOINT, data, "pre-trained on an even mixture of four tasks"),
            self._trained(EIGHT, eight, "the same with eight tasks"),
            self._trained(FEW, replace(data, shared=3, private=5), "the same with 3 of 8 features shared"),
            self._trained(
                UNEVEN,
                replace(data, shared=2, weights=MIXTURE),
                "four tasks of unlike weights, exponential loss",
                PairLoss(self.batch, "exponential"),
            ),
            self._trained(KEPT, replace(data, augmented=False), "the two of a pair are equal", lr=_FLAT_LR),
            self._trained(UNRELATED, replace(data, related=False), "the two of a pair are independent", role="control"),
            self._tuned(TUNED, alone, self.gamma, "the joint optimum, fine-tuned on the first task"),
            self._tuned(
                TUNED_EIGHT, replace(eight, weights=(1.0,) + (0.0,) * 7), self.gamma, "the same of eight tasks"
            ),
            self._tuned(FAR, alone, 1.2, "the same of four, as far as it takes"),
            self._tuned(TURNED, alone, self.gamma, "the same from an optimum with fewer outputs", "superposed"),
            self._once(TWO, TwoOptima(data), "two optima of one loss"),
            self._once(LABELS, Labelled(self.repeats), "predictors from few labels"),
        ]

    def data(self, arm: str) -> TaskFeatures:
        """Features and tasks of an arm that trains."""
        found: TaskFeatures = self.arm(arm).recipe.data
        return found

    def _once(self, name: str, learner: IteratedConfig, about: str, role: Role = "arm") -> Arm[Iteration]:
        recipe = Iteration(learner, 1, 1)
        return Arm(name, recipe, about, name.replace("-", " "), role, at_end=(untrained.found,))

    def _trained(
        self,
        name: str,
        data: TaskFeatures,
        about: str,
        loss: PairLoss | None = None,
        role: Role = "arm",
        lr: float = _LR,
    ) -> Arm[Training]:
        return self._training(name, data, LinearRepresentation(), NormBounds(), about, loss, role, lr)

    def _tuned(self, name: str, data: TaskFeatures, gamma: float, about: str, start: str = "joint") -> Arm[Training]:
        learner = LinearRepresentation("superposed" if start == "superposed" else "joint")
        return self._training(name, data, learner, NearStart(gamma), about)

    def _training(
        self,
        name: str,
        data: TaskFeatures,
        learner: LinearRepresentation,
        bounds: RuleConfig,
        about: str,
        loss: PairLoss | None = None,
        role: Role = "arm",
        lr: float = _LR,
    ) -> Arm[Training]:
        steps = self.steps if learner.start == "random" else max(1, self.steps // 2)
        rules: dict[str, RuleConfig | None] = {"cooling": Cooling(steps, lr), "bounds": bounds}
        optimizer, loss = TorchOptimizer("SGD", lr=lr), loss or PairLoss(self.batch)
        recipe = Training(data, learner, loss, optimizer, rules, steps, max(1, steps // 10))
        label = name.replace("-", " ")
        return Arm(name, recipe, about, label, role, at_end=(pretraining.ended,), watch=pretraining.progress)
