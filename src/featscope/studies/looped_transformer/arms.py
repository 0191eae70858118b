"""What `looped-transformer` runs: prompts of several lengths, wrong masks, real examples, and free weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from featscope.axes import Axis
from featscope.data import LinearPrompts
from featscope.models.looped_attention import Mask
from featscope.options import require
from featscope.studies.base import Arm, Role, Study
from featscope.studies.looped_transformer import free, probes
from featscope.studies.looped_transformer.loops import Loops
from featscope.training import Iteration, Measurement, Recursion, TorchOptimizer, Training

ANY, SIZES, FEW, LARGE, REAL = "any-start", "step-sizes", "few-samples", "large", "diabetes"
TRAINED, TUNED = "trained", "tuned"
ITSELF: Mask = "query-and-itself"
CAUSAL: Mask = "causal"
BEYOND = 2.05
"""A step size at which descent diverges, in units of 1/L."""


@dataclass(frozen=True)
class LoopedTransformerArms(Study):
    """A linear transformer that goes through one layer again and again, its weights set by hand (Chapter 8).

    Attributes:
        dimension: of an example, d.
        samples: examples in a prompt, n, an arm each, fewest first.
        prompts: in a replica.
        loops: T.
        training_loops: loops of the layer that is trained.
        training_steps: of it.
    """

    name = "looped-transformer"

    dimension: int = 4
    samples: tuple[int, ...] = (16, 32, 64, 128)
    prompts: int = 20
    loops: int = 200
    training_loops: int = 4
    training_steps: int = 600

    def __post_init__(self) -> None:
        require(self, "dimension", self.dimension >= 2, ">= 2")
        ascending = len(self.samples) >= 2 and list(self.samples) == sorted(set(self.samples))
        allowed = f"two or more numbers > dimension = {self.dimension}, smallest first"
        require(self, "samples", ascending and self.samples[0] > self.dimension, allowed)
        require(self, "prompts", self.prompts >= 1, ">= 1")
        require(self, "loops", self.loops >= 2, ">= 2")
        require(self, "training_loops", self.training_loops >= 1, ">= 1")
        require(self, "training_steps", self.training_steps >= 1, ">= 1")

    @property
    def lengths(self) -> list[str]:
        """The arms of different n, fewest examples first."""
        return [f"n={n}" for n in self.samples]

    def smallest(self) -> "LoopedTransformerArms":
        """Six prompts: in eight replicas there are the 44 draws that decide what is said of every prompt."""
        return replace(self, prompts=6, training_steps=200)

    def arms(self) -> Sequence[Arm]:
        """Lengths, starts and step sizes, few and many examples, real ones, wrong masks, free weights."""
        few = self.samples[0]

        def arm(
            name: str,
            data: LinearPrompts,
            about: str,
            label: str,
            *over: Axis,
            role: Role = "arm",
            loops: int = self.loops,
            every: int = 1,
            **of: object,
        ) -> Arm[Iteration]:
            recipe = Iteration(Loops(data, **{"count": self.prompts, **of}), loops, every)  # type: ignore[arg-type]
            return Arm(name, recipe, about, label, role, at_start=(probes.prompts, probes.many_prompts), over=over)

        def wrong(mask: Mask, about: str, label: str) -> Arm[Iteration]:
            return arm(mask, LinearPrompts(few, self.dimension), about, label, role="control", loops=20, mask=mask)

        return [
            *(
                arm(
                    name,
                    LinearPrompts(n, self.dimension),
                    f"{n} examples, the query from 0, step size 1/L",
                    f"{n} examples",
                )
                for name, n in zip(self.lengths, self.samples, strict=True)
            ),
            arm(
                ANY,
                LinearPrompts(few, self.dimension, start="random"),
                "queries, α and step sizes at random, another one at each loop",
                "any start and steps",
                steps="random",
            ),
            arm(
                SIZES,
                LinearPrompts(few, self.dimension),
                "step sizes around 2/L, beyond which descent diverges",
                "over step sizes",
                Axis("learner.step_size", (0.5, 1.0, 1.5, 1.9, BEYOND)),
                loops=60,
            ),
            arm(
                FEW,
                LinearPrompts(self.dimension, 4 * self.dimension),
                "fewer examples than dimensions",
                "fewer examples than dimensions",
                loops=5 * self.loops,
                every=20,
            ),
            arm(
                LARGE,
                LinearPrompts(dimension=100),
                "100 dimensions, where condition numbers have a limit law",
                "100 dimensions",
                Axis("learner.data.samples", (400, 700, 1111)),
                loops=20,
                count=8,
            ),
            arm(
                REAL,
                LinearPrompts(300, 10, inputs="diabetes"),
                "300 patients of a data set of 442, ten measures each",
                "patients",
                loops=5 * self.loops,
                every=10,
            ),
            wrong(ITSELF, "the query attends to itself, too", "query sees itself"),
            wrong(CAUSAL, "every token attends to all before it", "causal mask"),
            self._trained(TRAINED, "random", "with free matrices, random at first", "trained"),
            self._trained(TUNED, "construction", "trained on from the hand-set matrices", "tuned"),
        ]

    def _trained(self, name: str, start: Literal["random", "construction"], about: str, label: str) -> Arm[Training]:
        recipe = Training(
            LinearPrompts(32, self.dimension),
            free.FreeLoops(self.training_loops, start),
            free.PromptError(),
            TorchOptimizer("Adam", lr=0.01),
            steps=self.training_steps,
            probe_every=50,
        )
        about = f"the same layer {about}; {self.training_loops} loops, 32 examples"
        return Arm(name, recipe, about, label, at_end=(free.judged,), watch=lambda experiment: {})

    def watch(self, experiment: Recursion) -> Mapping[str, Measurement]:
        """Errors after each loop."""
        return probes.progress(experiment)
