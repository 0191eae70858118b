"""How tight the classes lie in features that were fine-tuned with a contrastive term, and without."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from featscope.probes.readout import silhouette, tsne
from featscope.streams import Streams
from featscope.studies.contrastive_fine_tuning import adapter
from featscope.studies.contrastive_fine_tuning.recipe import BARE, ONE, ONE_TERM, TWO, TWO_TERM, FineTuning, balanced
from featscope.studies.contrastive_fine_tuning.source import samples_of
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

    def asker(self, streams: Streams) -> Callable[[int, int, int], Mapping[str, float | Sequence[float]]]:
        """Trains all methods and lays out their features.

        Raises:
            ConfigError: data cannot be read, or the contrastive term begins at nothing.
            MissingExtraError: what reads them, or an encoder, is not installed.
        """
        every = samples_of(self.source, self.data)

        def ask(labels: int, views: int, classes: int) -> Mapping[str, float | Sequence[float]]:
            rows = balanced(every.labels, every.classes, labels, streams.at("labelled", classes))
            weights = self.start(every, streams.at("adapter"))
            stored = every.views[rows, :views]
            self.fit(weights, every.features[rows], stored, every.labels[rows], streams.at("batches", labels))
            with torch.no_grad():
                adapted = adapter.adapted(weights, every.test)
            found = [every.test if place is None else adapted[place - BARE] for place in FEATURES.values()]
            shown = torch.arange(_MAPPED) % len(every.test)
            return {
                "silhouette": [silhouette(features, every.test_labels) for features in found],
                "position": torch.stack([tsne(features[shown]) for features in found[:MAPS]]).flatten().tolist(),
                "named": every.test_labels[shown].double().tolist(),
            }

        return ask
