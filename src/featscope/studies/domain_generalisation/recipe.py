"""One algorithm on the domains of a data set: each is left out once, and trained on are the others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featscope.evaluation import held_out
from featscope.losses import NuclearNorm
from featscope.streams import Streams
from featscope.studies.domain_generalisation import adapter, algorithms
from featscope.studies.domain_generalisation.adapter import Weights
from featscope.studies.domain_generalisation.algorithms import AlgorithmName
from featscope.studies.domain_generalisation.ranks import ranks
from featscope.studies.domain_generalisation.source import Domains, EncoderName, features_of_domains, images_of
from featscope.training import Answer, Questionnaire

HELD_OUT = 0.2
"""Share of each domain that is not trained on, as in DomainBed: of training domains it chooses among trainings."""


def frobenius(
    phi: Float[Tensor, "penalty sample unit"], weights: Float[Tensor, " penalty"]
) -> Float[Tensor, " penalty"]:
    """λ √min(sample, unit) ‖Φ‖_F over samples: the least bound of the nuclear norm that the Frobenius norm gives.

    Both are equal, and have gradients of one size, where all singular values are equal.
    """
    samples, units = phi.shape[-2:]
    squares = phi.square().sum((-2, -1))
    return weights * sqrt(min(samples, units)) / samples * squares.clamp(min=1e-12).sqrt()


@dataclass(frozen=True)
class LeaveOneOut(Questionnaire):
    """A question is a domain: how well is it recognised by what was trained on the others?

    Networks with no penalty, with the nuclear norm and with the Frobenius norm are trained side by side, at each
    strength, from the same start on the same batches. What is kept of each training is the look with the best accuracy
    on the fifth of the training domains that is held out; for SWAD the average of weights in the valley.

    Attributes:
        algorithm: what is minimised.
        strengths: λ of both norms.
        data, digits, encoder: see `features_of_domains`.
        units: of the adapter.
        batch: samples of each training domain in a batch.
        steps_each: of Adam, in each training.
        rate: its learning rate.
        looks: on the way, at validation samples.
        shuffled: whether images change domains at random, so that leaving one out is no shift.
    """

    algorithm: AlgorithmName
    strengths: tuple[float, ...]
    data: str
    digits: str
    encoder: EncoderName
    units: int
    batch: int
    steps_each: int
    rate: float
    looks: int
    shuffled: bool = False

    @property
    def grid(self) -> Mapping[str, Sequence[int]]:
        """Domains, each left out once; real data are read to count them."""
        return {"target": range(len(images_of(self.data, self.digits).domain_names))}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """Accuracies and ranks of each training."""
        axes = {"training": 1 + 2 * len(self.strengths)}
        return {
            "accuracy": Answer("accuracy in the domain left out", axes=axes),
            "validation": Answer("accuracy on what is held out of the training domains", axes=axes),
            "raw_rank": Answer("stable rank of features in the domain left out", axes=axes),
            "centred_rank": Answer("the same of centred features", axes=axes),
            "entropy_rank": Answer("exp of the entropy of their singular values", axes=axes),
        }

    def asker(self, streams: Streams) -> Callable[[int], Mapping[str, Sequence[float]]]:
        """Trains on all domains but one.

        Raises:
            ConfigError: data cannot be read.
            MissingExtraError: what reads them, or the encoder, is not installed.
        """
        source = features_of_domains(self.data, self.digits, self.encoder)
        domains = source.domains
        if self.shuffled:
            domains = domains[streams.at("shuffled domains").choice(len(domains), len(domains))[0]]
        held = held_out(domains, HELD_OUT, streams.at("held out"))

        def ask(target: int) -> Mapping[str, Sequence[float]]:
            trained = [
                torch.nonzero((domains == d) & ~held)[:, 0] for d in range(len(source.domain_names)) if d != target
            ]
            checked, asked = (domains != target) & held, (domains == target) & ~held
            kept = self._train(source, trained, checked, streams, target)
            validation, _ = adapter.judged(kept, source.features[checked], source.labels[checked])
            accuracy, _ = adapter.judged(kept, source.features[asked], source.labels[asked])
            with torch.no_grad():
                phi, _ = adapter.outputs(kept, source.features[asked])
            found = {"accuracy": accuracy, "validation": validation, **ranks(phi)}
            return {name: values.tolist() for name, values in found.items()}

        return ask

    @torch.enable_grad()
    def _train(
        self, source: Domains, trained: Sequence[Int[Tensor, " image"]], checked: Tensor, streams: Streams, target: int
    ) -> Weights:
        """The weights that are kept of each training."""
        averages, count = self.algorithm.startswith("swad"), len(trained)
        weights = adapter.start(
            1 + 2 * len(self.strengths),
            source.features.shape[1],
            self.units,
            len(source.class_names),
            streams,
            target,
        )
        optimizer = torch.optim.Adam(weights, lr=self.rate)
        draws = streams.at("batches", target)
        sizes = torch.tensor([len(part) for part in trained])[:, None]
        picks = (draws.uniform(self.steps_each, count, self.batch)[0] * sizes).long()
        objective = self._objective(len(weights.inner), count, streams, target)
        every = max(1, self.steps_each // self.looks)
        segments = _Segments(weights) if averages else _Best(weights)
        for step in range(self.steps_each):
            chosen = torch.cat([part[pick] for part, pick in zip(trained, picks[step], strict=True)])
            optimizer.zero_grad()
            objective(weights, source.features[chosen], source.labels[chosen], step).sum().backward()
            optimizer.step()
            segments.stepped(weights)
            if (step + 1) % every == 0 or step + 1 == self.steps_each:
                segments.looked(weights, *adapter.judged(weights, source.features[checked], source.labels[checked]))
        return segments.kept()

    def _objective(
        self, penalties: int, domains: int, streams: Streams, target: int
    ) -> Callable[[Weights, Tensor, Tensor, int], Tensor]:
        strengths = torch.tensor(self.strengths, dtype=torch.float32)
        size, warmup = len(self.strengths), self.steps_each // 50  # the released code's 100 of 5000 steps
        nuclear = NuclearNorm(strengths) if size else None
        grouped = algorithms.GroupDRO(penalties, domains) if self.algorithm == "group-dro" else None

        def objective(weights: Weights, x: Tensor, y: Tensor, step: int) -> Tensor:
            if self.algorithm == "mixup":
                x, y, other, share = algorithms.mixed(x, y, domains, streams.at(f"mixed {target}", step))
                phi, logits = adapter.outputs(weights, x)
                loss = algorithms.mixed_losses(logits, y, other, share).mean(-1)
            else:
                phi, logits = adapter.outputs(weights, x)
                each = adapter.losses(logits, y)
                loss = grouped(each) if grouped else each.mean(-1)
            if self.algorithm.endswith("coral"):
                loss = loss + algorithms.coral(phi, domains)
            if nuclear is None or step < warmup:
                return loss
            norms = nuclear(phi[1 : 1 + size]), frobenius(phi[1 + size :], strengths)
            return loss + torch.cat([torch.zeros(1), *norms])

        return objective


class _Best:
    """Of each training the weights with the best validation accuracy, the first of equals."""

    def __init__(self, weights: Weights) -> None:
        self._weights = [part.detach().clone() for part in weights]
        self._best = torch.full((len(weights.inner),), -1.0, dtype=torch.float64)

    def stepped(self, weights: Weights) -> None:
        """Nothing between looks."""

    def looked(self, weights: Weights, accuracy: Tensor, loss: Tensor) -> None:
        better = accuracy > self._best
        self._best = torch.where(better, accuracy, self._best)
        for known, part in zip(self._weights, weights, strict=True):
            known[better] = part.detach()[better]

    def kept(self) -> Weights:
        return Weights(*self._weights)


class _Segments:
    """Of each training the average of all weights in the valley of validation losses (SWAD)."""

    def __init__(self, weights: Weights) -> None:
        self._sums = [torch.zeros_like(part) for part in weights]
        self._steps, self._averages, self._losses = 0, list[list[Tensor]](), list[Tensor]()

    def stepped(self, weights: Weights) -> None:
        """Weights of every step count."""
        for known, part in zip(self._sums, weights, strict=True):
            known += part.detach()
        self._steps += 1

    def looked(self, weights: Weights, accuracy: Tensor, loss: Tensor) -> None:
        self._averages.append([known / self._steps for known in self._sums])
        self._losses.append(loss)
        self._sums, self._steps = [torch.zeros_like(part) for part in weights], 0

    def kept(self) -> Weights:
        of_look, parts = torch.stack(self._losses), list(zip(*self._averages, strict=True))
        found: list[Tensor] = []
        ends = [algorithms.valley(of_look[:, one]) for one in range(of_look.shape[1])]
        for part in parts:
            looks = torch.stack(part)
            found.append(torch.stack([looks[a : b + 1, one].mean(0) for one, (a, b) in enumerate(ends)]))
        return Weights(*found)
