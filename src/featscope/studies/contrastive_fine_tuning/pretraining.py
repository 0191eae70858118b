"""Pre-training from scratch on growing unions of data sets and on ever more kinds, and probes of what came of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featscope.evaluation import linear_probe
from featscope.losses import ContrastiveRegularizer
from featscope.streams import Draws, Streams
from featscope.studies.contrastive_fine_tuning import adapter
from featscope.studies.contrastive_fine_tuning.adapter import Weights
from featscope.studies.contrastive_fine_tuning.recipe import TEMPERATURE, balanced, two_of
from featscope.studies.contrastive_fine_tuning.source import Data, Samples, samples_of
from featscope.training import Answer, Questionnaire

SETS = ("images", "photos", "sketches", "cartoons")
"""Pre-training data in the order in which they are added; the target is the first."""
_POOL = 500  # samples of each set in a union, so that none is in more batches than another
_FEW = 2  # stored views of each; the sets that are only pre-trained on have no more
_APART = 1000  # more than the classes of a set


@dataclass(frozen=True)
class Pretraining(Questionnaire):
    """Training an adapter without labels, always from the same random start and in as many steps.

    Attributes:
        data: see `samples_of`.
        labels: labelled samples of each set that probes are fitted to.
        units: in the hidden layer; it has a quarter as many outputs.
        batch: samples in a batch, of all sets together.
        steps_each: of Adam, in each training.
        rate: its learning rate.
    """

    on_cpu = True  # as features and adapters are, whatever the device
    data: Data
    labels: int
    units: int
    batch: int
    steps_each: int
    rate: float

    def pretrained(self, pool: Float[Tensor, "sample view feature"], streams: Streams) -> Weights:
        """An adapter after NT-Xent alone on two views of samples of ``pool``."""
        draws: Draws = streams.at("batches")
        outputs = max(2, self.units // 4)
        weights = adapter.start(1, pool.shape[-1], self.units, outputs, 1, streams.at("adapter"))
        optimizer = torch.optim.Adam(weights[:4], lr=self.rate)
        term = ContrastiveRegularizer(None, TEMPERATURE, 1.0)
        with torch.enable_grad():
            for _ in range(self.steps_each):
                one, other = two_of(pool[draws.choice(len(pool), min(self.batch, len(pool)))[0]], draws)
                phi = adapter.adapted(weights, torch.cat([one, other]))[0]
                optimizer.zero_grad()
                term.of_features(phi[: len(one)], phi[len(one) :]).backward()
                optimizer.step()
        return Weights(*(part.detach() for part in weights))

    def labelled(self, samples: Samples, place: int, streams: Streams) -> Int[Tensor, " labelled"]:
        """What a probe of the set at ``place`` is fitted to."""
        return balanced(samples.labels, samples.classes, self.labels, streams.at("labelled", place))


@dataclass(frozen=True)
class Unions(Pretraining):
    """A question is how much of the target, and how many sets, are pre-trained on.

    Attributes:
        shares: of the target's samples, in percent.
    """

    shares: tuple[int, ...] = (100,)

    @property
    def grid(self) -> Mapping[str, Sequence[int]]:
        """Shares of the target, numbers of sets."""
        return {"share": self.shares, "sets": range(1, len(SETS) + 1)}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """Accuracy of a probe on each set, and how alike features of the target are to those of pre-training on it."""
        return {
            "accuracy": Answer("test accuracy of a linear probe", axes={"target": len(SETS)}),
            "similarity": Answer("linear CKA of the target's features with those of one set"),
        }

    def asker(self, streams: Streams) -> Callable[[int, int], Mapping[str, float | Sequence[float]]]:
        """Pre-trains on a share of the first set and on all of the next, and fits probes.

        Raises:
            ConfigError: data cannot be read.
            MissingExtraError: what reads them, or the encoder, is not installed.
        """
        every = [samples_of(name, self.data) for name in SETS]
        rows = [self.labelled(one, place, streams) for place, one in enumerate(every)]
        pools = [one.views[:_POOL, :_FEW] for one in every]

        def adapter_of(share: int, sets: int) -> Weights:
            target = pools[0][: max(2, len(pools[0]) * share // 100)]
            return self.pretrained(torch.cat([target, *pools[1:sets]]), streams)

        specific = adapter.adapted(adapter_of(self.shares[0], 1), every[0].test)[0]

        def ask(share: int, sets: int) -> Mapping[str, float | Sequence[float]]:
            weights, found = adapter_of(share, sets), list[float]()
            for one, chosen in zip(every, rows, strict=True):
                x, test = (adapter.adapted(weights, part)[0] for part in (one.features[chosen], one.test))
                found.append(linear_probe(x, one.labels[chosen], test, one.test_labels).value)
            return {"accuracy": found, "similarity": cka(adapter.adapted(weights, every[0].test)[0], specific)}

        return ask


@dataclass(frozen=True)
class Kinds(Pretraining):
    """A question is of how many kinds the images are that are pre-trained on beside the target's.

    A kind is a class of one of the other sets. There are always as many images, those that the fewest kinds have.

    Attributes:
        parts: a seventh, a third and all of the kinds; of PACS these are 3, 7 and 21.
    """

    parts: tuple[int, ...] = (7, 3, 1)

    @property
    def grid(self) -> Mapping[str, Sequence[int]]:
        """Parts of all kinds."""
        return {"part": self.parts}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """Accuracy of a probe on the target, and what was pre-trained on beside it."""
        return {
            "accuracy": Answer("test accuracy of a linear probe"),
            "kinds": Answer("kinds of the images beside the target's"),
            "beside": Answer("images beside the target's"),
        }

    def asker(self, streams: Streams) -> Callable[[int], Mapping[str, float | Sequence[float]]]:
        """Pre-trains on the target and on images of so many kinds, and fits a probe.

        Raises:
            ConfigError: data cannot be read.
            MissingExtraError: what reads them, or the encoder, is not installed.
        """
        target, *others = (samples_of(name, self.data) for name in SETS)
        rows = self.labelled(target, 0, streams)
        views = torch.cat([one.views[:, :_FEW] for one in others])
        names = torch.cat([place * _APART + one.labels for place, one in enumerate(others)])
        order = streams.at("kinds").choice(len(present := names.unique()), len(present))[0]
        counts = {part: max(1, len(present) // part) for part in self.parts}
        fewest = min(int(torch.isin(names, present[order[:count]]).sum()) for count in counts.values())

        def ask(part: int) -> Mapping[str, float | Sequence[float]]:
            kinds = counts[part]
            (of_kind,) = torch.nonzero(torch.isin(names, present[order[:kinds]]), as_tuple=True)
            chosen = of_kind[streams.at("beside", kinds).choice(len(of_kind), fewest)[0]]
            weights = self.pretrained(torch.cat([target.views[:_POOL, :_FEW], views[chosen]]), streams)
            x, test = (adapter.adapted(weights, part)[0] for part in (target.features[rows], target.test))
            accuracy = linear_probe(x, target.labels[rows], test, target.test_labels).value
            return {"accuracy": accuracy, "kinds": len(names[chosen].unique()), "beside": len(chosen)}

        return ask


def cka(one: Float[Tensor, "sample neuron"], other: Float[Tensor, "sample unit"]) -> float:
    """Linear centred kernel alignment (Kornblith et al. 2019): 1 for features that are rotations of each other."""
    a, b = ((part - part.mean(0)).double() for part in (one, other))
    return float((b.T @ a).square().sum() / ((a.T @ a).norm() * (b.T @ b).norm()))
