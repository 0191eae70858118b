"""Pre-training from scratch on growing unions of data sets, and probes of what came of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.evaluation import linear_probe
from featscope.losses import ContrastiveRegularizer
from featscope.streams import Draws, Streams
from featscope.studies.contrastive_fine_tuning import adapter
from featscope.studies.contrastive_fine_tuning.adapter import Weights
from featscope.studies.contrastive_fine_tuning.recipe import TEMPERATURE, balanced, two_of
from featscope.studies.contrastive_fine_tuning.source import Samples, samples_of
from featscope.training import Answer, Questionnaire

SETS = ("images", "photos", "sketches", "cartoons")
"""Pre-training data in the order in which they are added; the target is the first."""
_POOL = 500  # samples of each set, so that none is in more batches than another
_FEW = 2  # stored views of each; the sets that are only pre-trained on have no more


@dataclass(frozen=True)
class Unions(Questionnaire):
    """A question is how many sets are pre-trained on, always from the same random start and in as many steps.

    Attributes:
        data: see `samples_of`.
        labels: labelled samples of each set that probes are fitted to.
        units: in the hidden layer; it has a quarter as many outputs.
        batch: samples in a batch, of all sets together.
        steps_each: of Adam, in each training.
        rate: its learning rate.
    """

    data: str
    labels: int
    units: int
    batch: int
    steps_each: int
    rate: float

    @property
    def grid(self) -> Mapping[str, Sequence[int]]:
        """Numbers of sets."""
        return {"sets": range(1, len(SETS) + 1)}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """Accuracy of a probe on each set, and how alike features of the target are to those of pre-training on it."""
        return {
            "accuracy": Answer("test accuracy of a linear probe", axes={"target": len(SETS)}),
            "similarity": Answer("linear CKA of the target's features with those of one set"),
        }

    def asker(self, streams: Streams) -> Callable[[int], Mapping[str, float | Sequence[float]]]:
        """Pre-trains on the first sets and fits probes.

        Raises:
            ConfigError: data cannot be read.
            MissingExtraError: what reads them, or the encoder, is not installed.
        """
        every = [samples_of(name, self.data) for name in SETS]
        rows = [
            balanced(one.labels, one.classes, self.labels, streams.at("labelled", place))
            for place, one in enumerate(every)
        ]
        pretrained = [self._pretrained(every[:count], streams) for count in self.grid["sets"]]
        specific = adapter.adapted(pretrained[0], every[0].test)[0]

        def ask(sets: int) -> Mapping[str, float | Sequence[float]]:
            weights, found = pretrained[sets - 1], list[float]()
            for one, chosen in zip(every, rows, strict=True):
                x, test = (adapter.adapted(weights, part)[0] for part in (one.features[chosen], one.test))
                found.append(linear_probe(x, one.labels[chosen], test, one.test_labels).value)
            return {"accuracy": found, "similarity": cka(adapter.adapted(weights, every[0].test)[0], specific)}

        return ask

    def _pretrained(self, sets: Sequence[Samples], streams: Streams) -> Weights:
        features = sets[0].features.shape[1]
        draws: Draws = streams.at("batches")
        outputs = max(2, self.units // 4)
        weights = adapter.start(1, features, self.units, outputs, 1, streams.at("adapter"))
        optimizer = torch.optim.Adam(weights[:4], lr=self.rate)
        term = ContrastiveRegularizer(None, TEMPERATURE, 1.0)
        pool = torch.cat([one.views[:_POOL, :_FEW] for one in sets])
        with torch.enable_grad():
            for _ in range(self.steps_each):
                one, other = two_of(pool[draws.choice(len(pool), min(self.batch, len(pool)))[0]], draws)
                phi = adapter.adapted(weights, torch.cat([one, other]))[0]
                optimizer.zero_grad()
                term.of_features(phi[: len(one)], phi[len(one) :]).backward()
                optimizer.step()
        return Weights(*(part.detach() for part in weights))


def cka(one: Float[Tensor, "sample neuron"], other: Float[Tensor, "sample unit"]) -> float:
    """Linear centred kernel alignment (Kornblith et al. 2019): 1 for features that are rotations of each other."""
    a, b = ((part - part.mean(0)).double() for part in (one, other))
    return float((b.T @ a).square().sum() / ((a.T @ a).norm() * (b.T @ b).norm()))
