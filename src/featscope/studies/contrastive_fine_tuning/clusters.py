"""How tight the classes lie in features that were fine-tuned with a contrastive term, and without."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from featscope.probes.readout import silhouette, tsne
from featscope.streams import Draws
from featscope.studies.contrastive_fine_tuning import adapter
from featscope.studies.contrastive_fine_tuning.recipe import BARE, ONE, ONE_TERM, TWO, TWO_TERM, FineTuning
from featscope.studies.contrastive_fine_tuning.source import Samples
from featscope.training import Answer

FEATURES = {
    "the encoder": None,
    "one view": ONE,
    "one view and term, 1": ONE_TERM + 1,
    "two views": TWO,
    "two views and term, 1": TWO_TERM + 1,
}
"""Whose features are looked at, and the place of the method that trained them."""
ENCODER, PLAIN, TERM, BOTH, BOTH_TERM = range(len(FEATURES))
MAPS = 3
"""The first so many are drawn."""
_MAPPED = 200  # samples that are drawn, of those that are tested on; over again where there are fewer


@dataclass(frozen=True)
class Clusters(FineTuning):
    """The training of `FineTuning`; asked is how its features lie, not how often they are right.

    Features are of samples that no training saw.
    """

    @property
    def answers(self) -> Mapping[str, Answer]:
        """How tight classes lie, and maps of some samples, with their classes."""
        return {
            "silhouette": Answer("silhouette of the classes", axes={"features": len(FEATURES)}),
            "position": Answer("t-SNE of features", axes={"mapped": MAPS, "sample": _MAPPED, "axis": 2}),
            "named": Answer("class of the sample", axes={"sample": _MAPPED}),
        }

    def answer(
        self, samples: Samples, rows: Int[Tensor, " labelled"], views: int, draws: Draws, batches: Draws
    ) -> Mapping[str, float | Sequence[float]]:
        """Trains the methods that are told classes, and lays out their features of what is tested on."""
        weights = self.start(samples, draws)
        self.fit(weights, samples.features[rows], samples.views[rows, :views], samples.labels[rows], batches)
        with torch.no_grad():
            adapted = adapter.adapted(weights, samples.test)
        found = [samples.test if place is None else adapted[place - BARE] for place in FEATURES.values()]
        shown = torch.arange(_MAPPED) % len(samples.test)
        return {
            "silhouette": [silhouette(features, samples.test_labels) for features in found],
            "position": torch.stack([tsne(features[shown]) for features in found[:MAPS]]).flatten().tolist(),
            "named": samples.test_labels[shown].double().tolist(),
        }
