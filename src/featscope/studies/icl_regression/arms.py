"""What `icl-regression` runs: models set by hand on noisy prompts, and three ways to find them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

from featscope.axes import Axis
from featscope.data import RegressionPrompts
from featscope.options import require
from featscope.studies.base import Arm, Assay, Role, Study
from featscope.studies.icl_regression import online, probes
from featscope.studies.icl_regression.population import Population
from featscope.studies.icl_regression.sampling import Evaluated, Pretrained
from featscope.theory import icl_regression as theory
from featscope.training import Cooling, Iteration, TorchOptimizer, Training

EVALUATION, COVERED, LENGTHS, LARGE, FEW = "evaluation", "covered", "lengths", "long-pretraining", "few-directions"
LAST, LOSS, OTHERS = "last-directions", "pretraining-loss", "other-blocks"
SQUARES, DESCENT, TIED = "least-squares", "descent", "equal-eigenvalues"
ONLINE, UNRELATED, FREE, BLOCK = "online", "unrelated-labels", "free-blocks", "rank-of-a-block"
BLOCK_DIMENSION, BLOCK_SAMPLES = 4, 100
"""d and N where the rank of U alone is limited."""
OF_USE = ceil(theory.examples_for_a_rank(RegressionPrompts(BLOCK_DIMENSION, BLOCK_SAMPLES).spectrum, 1))
"""N from which on other blocks are of use there."""
LONG = 100_000
"""N at which approximations for large N are looked at."""


@dataclass(frozen=True)
class IclRegressionArms(Study):
    """Models of rank 0 to d of linear self-attention (Chapter 5).

    Attributes:
        dimension: of an input, d.
        samples: examples in a prompt of pretraining, N.
        examples: in one of evaluation, M.
        noises: variances of label noise in evaluation, smallest first.
        covered: coordinates of the task that are not zero where it is covered by a small rank.
        prompts: of a Monte-Carlo step.
        steps: of Monte Carlo.
        training_steps: of online training.
        rank: r of the layer that has all its blocks free.
    """

    name = "icl-regression"

    dimension: int = 8
    samples: int = 20
    examples: int = 16
    noises: tuple[float, ...] = (0.0, 1.0, 4.0, 16.0)
    covered: int = 3
    prompts: int = 1000
    steps: int = 60
    training_steps: int = 1500
    rank: int = 2

    def __post_init__(self) -> None:
        require(self, "dimension", self.dimension >= 3, ">= 3")
        for name in ("covered", "rank"):
            require(self, name, 1 <= getattr(self, name) < self.dimension, f"1 to dimension - 1 = {self.dimension - 1}")
        require(self, "steps", self.steps >= 5, ">= 5")
        require(self, "training_steps", self.training_steps >= 1, ">= 1")

    def smallest(self) -> "IclRegressionArms":
        """Five directions and a fifth of the prompts."""
        return replace(self, dimension=5, covered=2, rank=1, prompts=500, steps=40, training_steps=600)

    def arms(self) -> Sequence[Arm]:
        """Evaluation of hand-set models, the loss of pretraining, and four ways down it."""
        data = RegressionPrompts(self.dimension, self.samples)
        evaluation = Evaluated(data, self.examples, self.noises, prompts=self.prompts)
        covered = replace(evaluation, covered=self.covered)

        def judged(
            name: str,
            learner: Evaluated | Pretrained,
            about: str,
            label: str = "",
            *over: Axis,
            role: Role = "arm",
            share: int = 1,
            by: Assay = probes.evaluated,
        ) -> Arm[Iteration]:
            steps = self.steps // share
            return Arm(name, Iteration(learner, steps, steps), about, label, role, at_end=(by,), over=over)

        few = replace(covered, data=replace(data, directions=self.covered))
        long = replace(evaluation, data=replace(data, samples=LONG))
        return [
            judged(EVALUATION, evaluation, "prompts of a task with something in every direction", "every direction"),
            judged(COVERED, covered, f"of a task within the first {self.covered} directions", "a covered task"),
            judged(
                LENGTHS,
                covered,
                "the same with fewer and more examples",
                "over examples",
                Axis("learner.examples", (4, 16, 64)),
                share=2,
            ),
            judged(LARGE, long, f"models of {LONG:,} examples in pretraining", "long pretraining", share=2),
            judged(FEW, few, f"inputs in {self.covered} directions only", "few directions", share=5),
            judged(
                LAST,
                replace(evaluation, kept="last"),
                "models that keep the directions of least variance",
                "last directions",
                role="control",
                share=5,
            ),
            judged(
                LOSS,
                Pretrained(data, "zero", self.prompts),
                "the loss of pretraining, through the layer as printed",
                "pretraining loss",
                by=probes.pretrained,
            ),
            judged(
                OTHERS,
                Pretrained(data, "random", self.prompts),
                "the same with random blocks beside u and U",
                "other blocks",
                by=probes.pretrained,
            ),
            self._population(
                SQUARES, Population(data, "least-squares", 10, scale=1.0), 40, "alternating least squares"
            ),
            self._population(DESCENT, Population(data, "descent", 1000), 40, "gradient descent from small weights"),
            self._population(
                TIED,
                Population(replace(data, decay=0.0), "least-squares", 10, scale=1.0),
                20,
                "alternating least squares where all eigenvalues are equal",
            ),
            self._trained(ONLINE, data, "models of every rank, by Adam on fresh prompts", evaluation),
            self._trained(
                UNRELATED, replace(data, related=False), "the same, shown labels of another task", evaluation
            ),
            self._free(FREE, data, "all blocks trained, W_KQ of rank", False),
            self._free(
                BLOCK, RegressionPrompts(BLOCK_DIMENSION, BLOCK_SAMPLES), "all blocks trained, U alone of rank", True
            ),
        ]

    def _population(self, name: str, learner: Population, steps: int, about: str) -> Arm[Iteration]:
        return Arm(
            name,
            Iteration(learner, steps, max(1, steps // 20)),
            f"{about}, on all prompts at once",
            about.split(" from")[0].split(" where")[0] if name != TIED else "equal eigenvalues",
            watch=probes.progress,
        )

    def _recipe(self, data: RegressionPrompts, learner: online.EveryRank | online.AllBlocks) -> Training:
        rate, prompts = 0.01, 256 if data.samples == self.samples else 64
        return Training(
            data,
            learner,
            online.SquaredError(prompts),
            TorchOptimizer("Adam", lr=rate),
            {"cooling": Cooling(self.training_steps, rate)},
            self.training_steps,
            max(1, self.training_steps // 20),
        )

    def _trained(self, name: str, data: RegressionPrompts, about: str, by: Evaluated) -> Arm[Training]:
        role: Role = "arm" if data.related else "control"
        assay = partial(probes.ranks, options=replace(by, data=data))
        return Arm(
            name,
            self._recipe(data, online.EveryRank()),
            about,
            name.replace("-", " "),
            role,
            at_end=(assay,),
        )

    def _free(self, name: str, data: RegressionPrompts, about: str, of_block: bool) -> Arm[Training]:
        rank = 1 if of_block else self.rank
        recipe = self._recipe(data, online.AllBlocks(rank, of_block))
        if of_block:
            recipe = replace(recipe, steps=2 * recipe.steps, rules={"cooling": Cooling(2 * recipe.steps, 0.01)})
        return Arm(name, recipe, f"{about} {rank}", name.replace("-", " "), at_end=(probes.blocks,))
