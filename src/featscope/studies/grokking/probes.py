"""When accuracy is reached on points to train on and on others, and what changes in between."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featscope.options import require
from featscope.probes.fourier import power_spectrum
from featscope.training import GradientTraining, Measurement

REACHED = 0.95
"""Accuracy from which on a part counts as learned."""
BEYOND_CHANCE = 0.9
"""The same if chance, 1/p, counts as nothing; smaller, so that it is reached before."""
LEARNED = "learned"
"""The event after which nothing more is looked for: both parts."""


def frequencies_in_use(embeddings: Float[Tensor, "replica number width"]) -> Float[Tensor, "replica"]:
    """Share of frequencies that the power of embeddings is spread over, 1/Σq²: 1 if all have the same, less if few."""
    power = power_spectrum(embeddings.mT).sum(1)
    share = power / power.sum(1, keepdim=True)
    return 1 / share.square().sum(1) / share.shape[1]


def progress(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Accuracy on both parts, spread of spectra, and norm."""
    learner, batches = experiment.learner, experiment.objective
    return {
        "accuracy": Measurement(batches.right_on_shown(learner), "accuracy on points to train on"),
        "test_accuracy": Measurement(batches.right_on_hidden(learner), "accuracy on other points"),
        "spread": Measurement(frequencies_in_use(learner.numbers), "share of frequencies that embeddings use"),
        "norm": Measurement(learner.norm(), "norm of all weights"),
    }


@dataclass(frozen=True)
class Crossings:
    """Options of `CrossingsRule`.

    Attributes:
        every: steps between looks.
    """

    every: int = 20

    def __post_init__(self) -> None:
        require(self, "every", self.every >= 1, ">= 1")

    def build(self, experiment: Any) -> "CrossingsRule":
        """The rule for ``experiment``."""
        return CrossingsRule(self.every, len(experiment.streams.replicas))


class CrossingsRule(nn.Module):
    """Remembers when each replica first reaches `REACHED` on both parts; -1 where it has not.

    ``fitted`` and ``generalised`` are of the accuracy as it is; ``fitted_beyond_chance`` and
    ``generalised_beyond_chance`` of `BEYOND_CHANCE`. ``learned`` is when all have happened.

    Args:
        every: steps between looks.
        replicas: how many.
    """

    NAMES = ("fitted", "generalised", "fitted_beyond_chance", "generalised_beyond_chance", LEARNED)

    def __init__(self, every: int, replicas: int) -> None:
        super().__init__()
        self.every = every
        for name in self.NAMES:
            self.register_buffer(name, torch.full((replicas,), -1, dtype=torch.int64))

    def forward(self, experiment: GradientTraining, step: int) -> None:
        """Look, if it is time."""
        if step % self.every:
            return
        learner, batches = experiment.learner, experiment.objective
        shown, hidden = batches.right_on_shown(learner), batches.right_on_hidden(learner)
        beyond = 1 - (1 - BEYOND_CHANCE) * (1 - 1 / batches.modulus)
        now = [shown >= REACHED, hidden >= REACHED, shown >= beyond, hidden >= beyond]
        for name, there in zip(self.NAMES, now, strict=False):
            self._first(name, there, step)
        happened = torch.stack([self.get_buffer(name) >= 0 for name in self.NAMES[:-1]])
        self._first(LEARNED, happened.all(0), step)

    def _first(self, name: str, there: Tensor, step: int) -> None:
        times = self.get_buffer(name)
        times.masked_fill_(there & (times < 0), step)

    def events(self) -> dict[str, Int[Tensor, "replica"]]:
        """The steps."""
        return {name: self.get_buffer(name) for name in self.NAMES}
