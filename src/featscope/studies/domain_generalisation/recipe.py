"""One algorithm on the domains of a data set: each is left out once, and trained on are the others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featscope.evaluation import held_out
from featscope.losses import NuclearNorm
from featscope.streams import Streams
from featscope.studies.domain_generalisation import algorithms
from featscope.studies.domain_generalisation.algorithms import AlgorithmName
from featscope.studies.domain_generalisation.networks import Networks, Weights, judged, losses, seen
from featscope.studies.domain_generalisation.ranks import ranks
from featscope.studies.domain_generalisation.source import Domains, Trained, domains_of, images_of
from featscope.training import Answer, Questionnaire

HELD_OUT = 0.2
"""Share of each domain that is not trained on, as in DomainBed: of training domains it chooses among trainings."""
LEFT_OUT = "accuracy in the domain left out, of "
"""What is said of accuracies; names of domains, in their order, follow with commas between."""


def frobenius(
    phi: Float[Tensor, "penalty sample unit"], weights: Float[Tensor, " penalty"]
) -> Float[Tensor, " penalty"]:
    """λ √min(sample, unit) ‖Φ‖_F over samples: the least bound of the nuclear norm that the Frobenius norm gives.

    Both are equal, and have gradients of one size, where all singular values are equal.
    """
    samples, units = phi.shape[-2:]
    squares = phi.square().sum((-2, -1))
    return weights * sqrt(min(samples, units)) / samples * squares.clamp(min=1e-12).sqrt()


class Penalty(NamedTuple):
    """What is added to the loss of one training: λ times a norm of its features."""

    norm: Literal["none", "nuclear", "frobenius"]
    strength: float


@dataclass(frozen=True)
class LeaveOneOut(Questionnaire):
    """A question is a domain: how well is it recognised by what was trained on the others?

    Networks with no penalty, with the nuclear norm and with the Frobenius norm are trained, at each strength, from the
    same start on the same batches. What is kept of each training is the look with the best accuracy on the fifth of the
    training domains that is held out; for SWAD the average of weights in the valley.

    Attributes:
        algorithm: what is minimised.
        strengths: λ of both norms.
        data, digits, encoder, trained, units: see `domains_of`.
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
    encoder: str
    trained: Trained
    units: int
    batch: int
    steps_each: int
    rate: float
    looks: int
    shuffled: bool = False

    @property
    def penalties(self) -> Sequence[Penalty]:
        """Those of the trainings, in their order."""
        norms: Sequence[Literal["nuclear", "frobenius"]] = ("nuclear", "frobenius")
        return [Penalty("none", 0.0), *(Penalty(norm, strength) for norm in norms for strength in self.strengths)]

    @cached_property
    def domain_names(self) -> Sequence[str]:
        """Names of the domains; real data are read for them, once: to look at all files of a folder takes a while."""
        return images_of(self.data, self.digits).domain_names

    @property
    def grid(self) -> Mapping[str, Sequence[int]]:
        """Domains, each left out once."""
        return {"target": range(len(self.domain_names))}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """Accuracies and ranks of each training; what is said of the first has the names of the domains."""
        axes = {"training": len(self.penalties)}
        return {
            "accuracy": Answer(f"{LEFT_OUT}{', '.join(self.domain_names)}", axes=axes),
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
        source, networks = domains_of(
            self.data, self.digits, self.encoder, self.trained, self.units, str(streams.device)
        )
        domains = source.domains
        if self.shuffled:
            domains = domains[streams.at("shuffled domains").choice(len(domains), len(domains))[0].cpu()]
        held = held_out(domains, HELD_OUT, streams.at("held out"))

        def ask(target: int) -> Mapping[str, Sequence[float]]:
            trained = [_where((domains == d) & ~held) for d in range(len(source.domain_names)) if d != target]
            parts = trained, _where((domains != target) & held), _where((domains == target) & ~held)
            training = _Training(self, source, networks, *parts, streams, target)
            # Each group sees the same start and the same batches: draws are addressed.
            every = [
                self.penalties[i : i + networks.together] for i in range(0, len(self.penalties), networks.together)
            ]
            found = [training.answers(group) for group in every]
            return {name: [value for group in found for value in group[name].tolist()] for name in found[0]}

        return ask


@dataclass(frozen=True)
class _Training:
    """One domain left out: which images are trained on, from which is chosen, and which are asked about."""

    recipe: LeaveOneOut
    source: Domains
    networks: Networks
    trained: Sequence[Int[Tensor, "..."]]
    checked: Int[Tensor, " checked"]
    asked: Int[Tensor, " asked"]
    streams: Streams
    target: int

    def answers(self, penalties: Sequence[Penalty]) -> Mapping[str, Tensor]:
        """Trains a network with each penalty, and judges what is kept of them."""
        kept = self._kept(penalties)
        validation, _ = self._judged(kept, self.checked)
        with torch.no_grad():
            phi, logits = seen(self.networks, kept, self.source.inputs, self.asked)
        accuracy, _ = judged(logits, self.source.labels[self.asked])
        return {"accuracy": accuracy, "validation": validation, **ranks(phi)}

    def _judged(self, weights: Weights, index: Int[Tensor, " image"]) -> tuple[Tensor, Tensor]:
        _, logits = seen(self.networks, weights, self.source.inputs, index)
        return judged(logits, self.source.labels[index])

    @torch.enable_grad()
    def _kept(self, penalties: Sequence[Penalty]) -> Weights:
        recipe, streams = self.recipe, self.streams
        weights = self.networks.start(len(penalties), len(self.source.class_names), streams, self.target)
        optimizer = torch.optim.Adam(weights, lr=recipe.rate)
        picks = streams.at("batches", self.target).uniform(recipe.steps_each, len(self.trained), recipe.batch)[0].cpu()
        objective = self._objective(penalties)
        every = max(1, recipe.steps_each // recipe.looks)
        segments = _Segments(weights) if recipe.algorithm.startswith("swad") else _Best(weights)
        for step in range(recipe.steps_each):
            chosen = torch.cat(
                [part[(pick * len(part)).long()] for part, pick in zip(self.trained, picks[step], strict=True)]
            )
            x = self.networks.view(self.source.inputs[chosen], streams.at(f"view {self.target}", step))
            optimizer.zero_grad()
            objective(weights, x, self.source.labels[chosen], step).sum().backward()
            optimizer.step()
            segments.stepped(weights)
            if (step + 1) % every == 0 or step + 1 == recipe.steps_each:
                segments.looked(weights, *self._judged(weights, self.checked))
        return segments.kept()

    def _objective(self, penalties: Sequence[Penalty]) -> Callable[[Weights, Tensor, Tensor, int], Tensor]:
        recipe, count, device = self.recipe, len(self.trained), self.streams.device
        warmup = recipe.steps_each // 50  # the released code's 100 of 5000 steps
        norm = _Norms(penalties, device)
        grouped = algorithms.GroupDRO(len(penalties), count, device) if recipe.algorithm == "group-dro" else None

        def objective(weights: Weights, x: Tensor, y: Tensor, step: int) -> Tensor:
            if recipe.algorithm == "mixup":
                x, y, other, share = algorithms.mixed(x, y, count, self.streams.at(f"mixed {self.target}", step))
                phi, logits = self.networks.outputs(weights, x)
                loss = algorithms.mixed_losses(logits, y, other, share).mean(-1)
            else:
                phi, logits = self.networks.outputs(weights, x)
                each = losses(logits, y)
                loss = grouped(each) if grouped else each.mean(-1)
            if recipe.algorithm.endswith("coral"):
                loss = loss + algorithms.coral(phi, count)
            return loss if step < warmup else loss + norm(phi)

        return objective


class _Norms:
    """The penalties of networks side by side."""

    def __init__(self, penalties: Sequence[Penalty], device: torch.device) -> None:
        self._strengths = torch.tensor([penalty.strength for penalty in penalties], device=device)
        self._places = {
            norm: torch.tensor([i for i, one in enumerate(penalties) if one.norm == norm], device=device).long()
            for norm in ("nuclear", "frobenius")
        }

    def __call__(self, phi: Float[Tensor, "penalty sample unit"]) -> Float[Tensor, " penalty"]:
        """Zero where there is none."""
        found = phi.new_zeros(len(phi))
        for norm, places in self._places.items():
            if len(places):
                strengths = self._strengths[places]
                values = NuclearNorm(strengths)(phi[places]) if norm == "nuclear" else frobenius(phi[places], strengths)
                found = found.index_add(0, places, values)
        return found


def _where(chosen: Tensor) -> Int[Tensor, " image"]:
    return torch.nonzero(chosen)[:, 0]


class _Best:
    """Of each training the weights with the best validation accuracy, the first of equals."""

    def __init__(self, weights: Weights) -> None:
        self._weights = [part.detach().clone() for part in weights]
        self._best = torch.full((len(weights[0]),), -1.0, dtype=torch.float64, device=weights[0].device)

    def stepped(self, weights: Weights) -> None:
        """Nothing between looks."""

    def looked(self, weights: Weights, accuracy: Tensor, loss: Tensor) -> None:
        better = accuracy > self._best
        self._best = torch.where(better, accuracy, self._best)
        for known, part in zip(self._weights, weights, strict=True):
            known[better] = part.detach()[better]

    def kept(self) -> Weights:
        return self._weights


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
        return found
