"""Fine-tuning an adapter on stored views, with a contrastive term and without, and probes beside it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from featscope.evaluation import linear_probe
from featscope.losses import ContrastiveRegularizer, NTXent
from featscope.streams import Draws, Streams
from featscope.studies.contrastive_fine_tuning import adapter
from featscope.studies.contrastive_fine_tuning.adapter import Weights
from featscope.studies.contrastive_fine_tuning.source import Data, Samples, samples_of
from featscope.training import Answer, Questionnaire

TEMPERATURE, COLD = 0.5, 0.05
"""τ of the term, SimCLR's; and SimCSE's, at which views made by dropout give a term of nothing."""
WEIGHTS = (0.1, 1.0)
"""λ: the dissertation's for MoCo v2, and its for foundation models."""
METHODS = (
    "linear probe",
    "no augmentation",
    "one view",
    "one view and term, 0.1",
    "one view and term, 1",
    "two views",
    "two views and term, 0.1",
    "two views and term, 1",
    "contrastive, then probe",
    "untrained adapter, then probe",
)
PROBE, BARE, ONE, ONE_TERM, TWO, TWO_TERM, CONTRASTIVE, UNTRAINED = 0, 1, 2, 3, 5, 6, 8, 9
"""Places in `METHODS`; of those with a term the first, at the smaller λ."""
_ONE_VIEW = 1 + len(WEIGHTS)
_VIEWED = 2 * _ONE_VIEW
"""Methods that classify views, from `ONE` on."""
_TRAINED = 1 + _VIEWED


@dataclass(frozen=True)
class FineTuning(Questionnaire):
    """A question is how many labels, stored views and classes there are: how well does each method do?

    Networks have one start and see the same batches of the same two views of each sample.

    Attributes:
        source, data: see `samples_of`.
        labels: numbers of labelled samples.
        views: numbers of stored views that are used.
        classes: numbers of classes, chosen at random; 0 for all.
        units: in the adapter's hidden layer; it has half as many outputs.
        batch: samples in a batch.
        steps_each: of Adam, in each training.
        rate: its learning rate.
        wrong_pairs: whether the term takes another sample's view for a positive.
    """

    on_cpu = True  # as features and adapters are, whatever the device
    source: str
    data: Data
    labels: tuple[int, ...]
    views: tuple[int, ...]
    classes: tuple[int, ...]
    units: int
    batch: int
    steps_each: int
    rate: float
    wrong_pairs: bool = False

    @property
    def grid(self) -> Mapping[str, Sequence[int]]:
        """Labels, views and classes."""
        return {"labels": self.labels, "views": self.views, "classes": self.classes}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """The accuracy of each method, the contrastive term before and after, and how much there was to learn from."""
        return {
            "accuracy": Answer("test accuracy", axes={"method": len(METHODS)}),
            "first_term": Answer("contrastive term at the first step, nats"),
            "last_term": Answer("contrastive term after training, nats", axes={"viewed": _VIEWED}),
            "cold_term": Answer(f"the same of the encoder's features at temperature {COLD:g}, nats"),
            "cosine": Answer("cosine of the encoder's features of two views"),
            "labelled": Answer("labelled samples that there were"),
            "told": Answer("classes that there were"),
        }

    def asker(self, streams: Streams) -> Callable[[int, int, int], Mapping[str, float | Sequence[float]]]:
        """Trains all methods.

        Raises:
            ConfigError: data cannot be read, or the contrastive term begins at nothing.
            MissingExtraError: what reads them, or an encoder, is not installed.
        """
        every = samples_of(self.source, self.data)

        def ask(labels: int, views: int, classes: int) -> Mapping[str, float | Sequence[float]]:
            chosen = _of_classes(every, classes, streams.at("classes", classes)) if classes else every
            order = streams.at("labelled", classes)
            rows = balanced(chosen.labels, chosen.classes, labels, order)
            return self.answer(chosen, rows, views, streams.at("adapter"), streams.at("batches", labels))

        return ask

    def answer(
        self, samples: Samples, rows: Int[Tensor, " labelled"], views: int, draws: Draws, batches: Draws
    ) -> Mapping[str, float | Sequence[float]]:
        """Trains all methods on the samples at ``rows``, with so many stored views, and tests them."""
        x, y = samples.features[rows], samples.labels[rows]
        stored = samples.views[:, :views]
        weights = self.start(samples, draws)
        untrained = Weights(*(part[:1].detach().clone() for part in weights))
        first = self.fit(weights, x, stored[rows], y, batches)
        contrastive = Weights(*(part.clone().requires_grad_() for part in untrained))
        self._pull(contrastive, stored, batches)
        with torch.no_grad():
            named = adapter.logits(weights, adapter.adapted(weights, samples.test)).argmax(-1)
        found = (named == samples.test_labels).double().mean(1).tolist()
        probes = [linear_probe(x, y, samples.test, samples.test_labels).value]
        for of in (contrastive, untrained):
            with torch.no_grad():
                phi, test = (adapter.adapted(of, part)[0] for part in (x, samples.test))
            probes.append(linear_probe(phi, y, test, samples.test_labels).value)
        near = stored[rows[: self.batch], :2]
        with torch.no_grad():
            after = adapter.adapted(adapter.some(weights, 1, _TRAINED), torch.cat([near[:, 0], near[:, 1]])).double()
        return {
            "accuracy": [probes[0], *found, *probes[1:]],
            "first_term": first,
            "last_term": [float(NTXent(TEMPERATURE)(*both.chunk(2))) for both in after],
            "cold_term": float(NTXent(COLD)(near[:, 0].double(), near[:, 1].double())),
            "cosine": float(torch.cosine_similarity(near[:, 0].double(), near[:, 1].double(), dim=-1).mean()),
            "labelled": float(len(rows)),
            "told": float(samples.classes),
        }

    def start(self, samples: Samples, draws: Draws) -> Weights:
        """The adapters and heads of all methods that are told classes, before training."""
        return adapter.start(
            _TRAINED, samples.features.shape[1], self.units, max(2, self.units // 2), samples.classes, draws
        )

    @torch.enable_grad()
    def fit(self, weights: Weights, x: Tensor, views: Tensor, y: Tensor, draws: Draws) -> float:
        """Trains the methods that are told classes; how the term begins, in nats."""
        optimizer = torch.optim.Adam(weights, lr=self.rate)
        batch = min(self.batch, len(x))
        terms = [ContrastiveRegularizer(None, TEMPERATURE, weight) for weight in 2 * WEIGHTS]
        for _ in range(self.steps_each):
            rows = draws.choice(len(x), batch)[0]
            one, other = two_of(views[rows], draws)
            bare, viewed = adapter.some(weights, 0, 1), adapter.some(weights, 1, _TRAINED)
            plain = adapter.logits(bare, adapter.adapted(bare, x[rows]))
            phi = adapter.adapted(viewed, torch.cat([one, other]))
            said = adapter.logits(viewed, phi)
            first, second = said[:, :batch], said[:, batch:]
            loss = _entropy(plain, y[rows]).sum() + _entropy(first[:_ONE_VIEW], y[rows]).sum()
            loss = loss + (_entropy(first[_ONE_VIEW:], y[rows]) + _entropy(second[_ONE_VIEW:], y[rows])).sum() / 2
            for place, term in zip((1, 2, 4, 5), terms, strict=True):
                loss = loss + self._term(term, phi[place, :batch], phi[place, batch:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return terms[0].first or 0.0

    @torch.enable_grad()
    def _pull(self, weights: Weights, views: Tensor, draws: Draws) -> None:
        """Trains an adapter with the contrastive loss alone, on all samples of the pool and no label."""
        optimizer = torch.optim.Adam(weights[:4], lr=self.rate)
        term, batch = ContrastiveRegularizer(None, TEMPERATURE, 1.0), min(self.batch, len(views))
        for _ in range(self.steps_each):
            one, other = two_of(views[draws.choice(len(views), batch)[0]], draws)
            phi = adapter.adapted(weights, torch.cat([one, other]))[0]
            optimizer.zero_grad()
            self._term(term, phi[:batch], phi[batch:]).backward()
            optimizer.step()

    def _term(self, term: ContrastiveRegularizer, one: Tensor, other: Tensor) -> Tensor:
        """The term; with ``wrong_pairs`` of views of another image, where those of one image repel each other."""
        return term.of_features(one, other.roll(1, 0) if self.wrong_pairs else other)


def two_of(
    views: Float[Tensor, "sample view feature"], draws: Draws
) -> tuple[Float[Tensor, "sample feature"], Float[Tensor, "sample feature"]]:
    """Two different stored views of each sample, at random."""
    samples, count, _ = views.shape
    order = draws.uniform(samples, count)[0].argsort(-1)
    at = torch.arange(samples)
    return views[at, order[:, 0]], views[at, order[:, 1]]


def _entropy(said: Float[Tensor, "method sample class"], labels: Int[Tensor, " sample"]) -> Float[Tensor, " method"]:
    many = labels.expand(len(said), -1)
    return cross_entropy(said.flatten(0, 1), many.reshape(-1), reduction="none").view(many.shape).mean(1)


def balanced(labels: Int[Tensor, " sample"], classes: int, count: int, draws: Draws) -> Int[Tensor, " labelled"]:
    """``count`` samples at random, of each class as many as of the others while there are any; fewer if there are."""
    order = draws.choice(len(labels), len(labels))[0]
    rank = torch.empty(len(labels), dtype=torch.long)
    for one in range(classes):
        members = order[labels[order] == one]
        rank[members] = torch.arange(len(members))
    return order[rank[order].argsort(stable=True)][:count]


def _of_classes(samples: Samples, count: int, draws: Draws) -> Samples:
    """The samples of ``count`` classes, which become the first."""
    chosen = draws.choice(samples.classes, min(count, samples.classes))[0]
    new = torch.full((samples.classes,), -1)
    new[chosen] = torch.arange(len(chosen))
    labels, test_labels = new[samples.labels], new[samples.test_labels]
    known, asked = labels >= 0, test_labels >= 0
    return Samples(
        samples.features[known],
        samples.views[known],
        labels[known],
        samples.test[asked],
        test_labels[asked],
        len(chosen),
    )
