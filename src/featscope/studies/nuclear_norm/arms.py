"""What `nuclear-norm` runs: convex problems on samples of many features and of the plane, and gradient descent."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from featscope.data import SpuriousFeatures
from featscope.options import require
from featscope.studies.base import Arm, Role, Study
from featscope.studies.nuclear_norm import descent
from featscope.studies.nuclear_norm.exact import SingularValues
from featscope.studies.nuclear_norm.solved import Dimensions, Plane, Ranks, Sums, Whole
from featscope.studies.untrained import found
from featscope.theory import nuclear_norm as theory
from featscope.training import Iteration, TorchOptimizer, Training
from featscope.training.recursion import IteratedConfig

CONFIGURATIONS = {"r=37": (37, 0.496, 200), "r=50": (50, 0.45, 310), "r=100": (100, 0.35, 950)}
"""Arms with r, γ and d to which Proposition 6.3 applies."""
CROSSINGS = {"dimensions": (20, 0.2), "dimensions-r=50": (50, 0.45)}
"""Arms over d - r, with r and γ."""
NO_SHIFT, WHOLE, RANK = "no-shift", "all-weights", "bounded-rank"
PLANE, STILL = "plane", "plane-no-shift"
FREE_ERM, FREE_NU, FIXED_NU = "descent-erm", "descent-nu", "descent-fixed-head"
SINGULAR = "singular-values"
MATCHED = 0.2
"""Training loss at which the story compares."""
_LR = 0.3


@dataclass(frozen=True)
class NuclearNormArms(Study):
    """Weight decay, a bounded rank and the nuclear norm under a shift of domain (Sections 6.3.1 and 6.4).

    Attributes:
        samples: to train on with many features.
        plane_samples: in the plane, to train on; four times as many judge.
        descent_samples: of gradient descent.
        descent_steps: of it.
        strength: λ of the nuclear norm in gradient descent.
    """

    name = "nuclear-norm"
    default_replicas = 40  # with 8, shares of 0.993 stay undecided

    samples: int = 4000
    plane_samples: int = 20_000
    descent_samples: int = 1000
    descent_steps: int = 2000
    strength: float = 0.1

    def __post_init__(self) -> None:
        for name in ("samples", "plane_samples", "descent_samples"):
            require(self, name, getattr(self, name) >= 2, ">= 2")
        require(self, "descent_steps", self.descent_steps >= 1, ">= 1")
        most = theory.critical_strength()
        require(self, "strength", 0 < self.strength < most, f"above 0 and below {most:.3g}", "There w = 0 is best.")

    def smallest(self) -> "NuclearNormArms":
        """A third of the samples, and an eighth of the steps."""
        return replace(self, samples=1500, plane_samples=8000, descent_steps=250)

    def arms(self) -> Sequence[Arm]:
        """Many features, all weights, bounded rank, the plane, descent, singular values."""
        many = {
            name: Sums(SpuriousFeatures(r, d - r, gamma), self.samples, self.samples)
            for name, (r, gamma, d) in CONFIGURATIONS.items()
        }
        still = replace(many["r=50"], data=replace(many["r=50"].data, shifts=False))
        flat = SpuriousFeatures()
        plane = Plane(flat, self.plane_samples, 4 * self.plane_samples)
        return [
            *(
                self._solved(name, one, f"{one.data.invariant} invariant features of {d}")
                for (name, one), (_, _, d) in zip(many.items(), CONFIGURATIONS.values(), strict=True)
            ),
            self._solved(NO_SHIFT, still, "out of domain is as in domain", "no shift", "control"),
            self._solved(WHOLE, Whole(SpuriousFeatures(10, 30)), "all weights of 10 and 30 features"),
            *(
                self._solved(
                    name,
                    Dimensions(SpuriousFeatures(r, round(4 * theory.crossing(r, gamma)), gamma), self.samples),
                    f"more and more environmental features beside {r} invariant ones, γ = {gamma:g}",
                    f"over dimensions, r={r}",
                )
                for name, (r, gamma) in CROSSINGS.items()
            ),
            self._solved(
                RANK,
                Ranks(SpuriousFeatures(3, 3), min(2000, self.samples)),
                "every support of 6 features",
            ),
            self._solved(PLANE, plane, "one feature of each kind, both penalties over λ", "the plane"),
            self._solved(
                STILL,
                replace(plane, data=replace(flat, shifts=False)),
                "the same, out of domain as in domain",
                "plane without shift",
                "control",
            ),
            self._descent(FREE_ERM, 0.0, True, "gradient descent on features and head", "descent, ERM"),
            self._descent(FREE_NU, self.strength, True, "the same with the nuclear norm", "descent, NU"),
            self._descent(FIXED_NU, self.strength, False, "the same with a fixed head of ones", "descent, fixed head"),
            self._solved(SINGULAR, SingularValues(), "random features and linear maps"),
        ]

    def _solved(
        self, name: str, learner: IteratedConfig, about: str, label: str = "", role: Role = "arm"
    ) -> Arm[Iteration]:
        label = label or name.replace("-", " ")
        return Arm(name, Iteration(learner, 1, 1), about, label, role, at_end=(found,))

    def _descent(self, name: str, strength: float, free: bool, about: str, label: str) -> Arm[Training]:
        recipe = Training(
            SpuriousFeatures(),
            descent.LinearFeatures(free_head=free),
            descent.PenalisedRisk(strength, self.descent_samples),
            TorchOptimizer("SGD", lr=_LR),
            steps=self.descent_steps,
            probe_every=max(1, self.descent_steps // 5),
        )
        return Arm(name, recipe, about, label, at_end=(descent.ended,), watch=descent.progress)
