"""A training of one's own as a run folder holds it: what `featscope.integrations` saw. Nothing is run or claimed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from featscope.claims import Claim
from featscope.figures import Curves, Figure, Panel
from featscope.options import ConfigError
from featscope.studies.base import Arm, Runs, Story, Study
from featscope.studies.summaries import chart, curves, over_steps

ARM = "training"
MOST_CLASSES = 20
"""Classes that are told one by one."""


@dataclass(frozen=True)
class OwnTraining(Study):
    """A training of one's own, watched on held-out samples.

    Attributes:
        model: what was trained, the name of its class.
        at: where in it features were taken; its output if empty.
        samples: held-out samples that were looked at.
        about: what its author says of it, such as ``lr=0.1``, for `featscope compare`.
    """

    model: str = ""
    at: str = ""
    samples: int = 0
    about: tuple[str, ...] = ()

    name: ClassVar[str] = "own-training"
    asks: ClassVar[str] = "What happens to the features while this model trains?"
    default_replicas: ClassVar[int] = 1

    @property
    def command(self) -> str:
        """There is none: the training is its author's own."""
        return ""

    def arms(self) -> Iterable[Arm]:
        """None: nothing is run from here."""
        return ()

    def smallest(self) -> "OwnTraining":
        """It cannot be run at any size."""
        raise ConfigError(f"{self.name} cannot be run: its folders are written by featscope.integrations.Monitor")

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """All series over steps, then accuracy class by class."""
        return [*over_steps(runs), *_by_class(runs)]

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """Where features began and where they ended."""
        run = runs[ARM]
        steps = run["step"].values
        rank = run["effective_rank"].isel(replica=0).values
        dimensions = int(run["dimensions"].isel(replica=0))
        found = f"Effective rank {rank[0]:.1f} at the start, {rank[-1]:.1f} after {steps[-1]} steps, of {dimensions}"
        if "accuracy" in run:
            accuracy = 100 * run["accuracy"].isel(replica=0).values
            found += f"; {accuracy[0]:.0f} % and {accuracy[-1]:.0f} % of samples are named rightly by their neighbours"
        where = f"what {self.at!r} puts out" if self.at else "what the model puts out"
        lede = (
            f"Features are {where}, of {self.samples} held-out samples, at {len(steps)} looks. Effective rank is how "
            "many directions they use: near 1 they have collapsed to a line. Nothing is claimed of a single training: "
            "what it would do with another seed is not known from one."
        )
        return Story(f"{found}.", lede)


def _by_class(runs: Runs) -> list[Curves]:
    run = runs[ARM]
    if "accuracy_by_class" not in run or run.sizes["class"] > MOST_CLASSES or run.sizes["step"] < 2:
        return []
    every = curves(100 * run["accuracy_by_class"], "class", lambda one: f"class {one}", within=(0, 100))
    if not (seen := [curve for curve in every if np.isfinite(curve.y).any()]):
        return []
    panel = Panel("by class", "training step", "accuracy (%)", seen)
    about = "Share of each class's held-out samples that their neighbours among the others name rightly."
    return [chart("by-class", "Accuracy class by class", about, panel)]
