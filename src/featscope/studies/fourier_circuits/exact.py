"""Questions about networks whose weights are written down, and about single neurons: nothing is trained.

Each replica shifts the phases of every frequency at random, which the theory allows: its networks are not the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import factorial, pi
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featscope.data.modular_addition import all_labels, all_points
from featscope.models.polynomial_network import (
    PolynomialNetwork,
    cosine_network,
    label_margins,
    lattice_phases,
    max_margin_phases,
)
from featscope.options import require
from featscope.probes.fourier import peak_frequency, peak_share, phase_at
from featscope.streams import Streams
from featscope.theory import fourier_circuits as theory
from featscope.training import Answer
from featscope.training.evaluation import Ask, Questionnaire

Sizes = tuple[tuple[int, int], ...]
"""(k, p)."""


@dataclass(frozen=True)
class OfSizes(Questionnaire):
    """A question for each size.

    Attributes:
        sizes: (k, p).
    """

    on_cpu = True
    sizes: Sizes = ()

    def __post_init__(self) -> None:
        require(self, "sizes", len(self.sizes) >= 1, "one or more (k, p)")

    @property
    def grid(self) -> Mapping[str, Sequence[Any]]:
        """Places in the list of sizes."""
        return {"size": range(len(self.sizes))}

    def asker(self, streams: Streams) -> Ask:
        """Answers for one size after another, each with draws of its own."""

        def ask(size: int) -> Mapping[str, float]:
            with torch.no_grad():
                return self.answer(*self.sizes[size], streams, size)

        return ask

    def answer(self, k: int, p: int, streams: Streams, place: int) -> Mapping[str, float]:
        """What is found at one size."""
        raise NotImplementedError


def _shifts(streams: Streams, place: int, frequencies: int, k: int) -> Tensor:
    return 2 * pi * streams.at("phases", place).uniform(frequencies, k, dtype=torch.float64)


def _frequencies(p: int) -> Tensor:
    return torch.arange(1, (p + 1) // 2)


def _ends(network: PolynomialNetwork, k: int, p: int) -> tuple[float, float]:
    """Least and largest margin on all points over γ* ‖θ‖^(k+1), one block of points at a time."""
    labels, size = all_labels(k, p), p ** (k - 1)
    least, largest = np.inf, -np.inf
    for row, logits in enumerate(network.in_blocks()):
        low, high = label_margins(logits[0], labels[row * size : (row + 1) * size])
        least, largest = min(least, float(low.min())), max(largest, float(high.max()))
    gamma = theory.best_margin(k, p) * float(network.norm()) ** (k + 1)
    return least / gamma, largest / gamma


class Constructed(OfSizes):
    """The construction of Lemma 4.11 at odd p: its margin on every point, its logits, their DFT; one frequency less."""

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is found at each size."""
        return {
            "least": Answer("least margin on all points over γ*"),
            "largest": Answer("largest margin over γ*"),
            "apart": Answer("largest difference between wrong logits over γ*"),
            "off_values": Answer("largest difference of logits to (p - 1)/2 and -1/2, once scaled"),
            "off_printed": Answer("the same to the printed (p - 1)/2 and 0"),
            "neurons": Answer("neurons of a frequency"),
            "on_line": Answer("DFT at (j, ..., j, -j), j ≠ 0, over γ* p^k: largest difference to 1"),
            "off_line": Answer("DFT elsewhere with the last index not 0, over γ* p^k: the largest"),
            "deleted": Answer("least margin over γ* with one frequency deleted; NaN-free: 0 where none is left"),
        }

    def answer(self, k: int, p: int, streams: Streams, place: int) -> Mapping[str, float]:
        """The construction with random shifts at (k, p)."""
        frequencies, phases = _frequencies(p), max_margin_phases(k)
        shifts = _shifts(streams, place, len(frequencies), k)
        network = cosine_network(p, frequencies, phases, shifts)
        logits, labels = network.on_all_points()[0], all_labels(k, p)
        low, high = label_margins(logits, labels)
        gamma = theory.best_margin(k, p) * float(network.norm()) ** (k + 1)
        beta = (1 / network.readout.shape[1]) ** (1 / (k + 1)) * (2 / ((k + 1) * p)) ** 0.5
        scaled = logits / (beta ** (k + 1) * 2 ** (k - 1) * factorial(k))
        right = torch.nn.functional.one_hot(labels, p).double()
        line = torch.fft.fftn(logits.view(*[p] * (k + 1))) / (theory.best_margin(k, p) * p**k)
        j = torch.arange(1, p)
        on_line = line[(*[j] * k, p - j)].clone()
        line[(*[j] * k, p - j)] = 0
        line[..., 0] = 0
        deleted = 0.0
        if p > 3:
            gone = int(streams.at("deleted", place).choice(len(frequencies), 1))
            rest = torch.tensor([f for f in range(len(frequencies)) if f != gone])
            deleted = _ends(cosine_network(p, frequencies[rest], phases, shifts[:, rest]), k, p)[0]
        return {
            "least": float(low.min()) / gamma,
            "largest": float(high.max()) / gamma,
            "apart": float((high - low).max()) / gamma,
            "off_values": float((scaled - right * p / 2 + 0.5).abs().max()),
            "off_printed": float((scaled - right * (p - 1) / 2).abs().max()),
            "neurons": network.readout.shape[1] / len(frequencies),
            "on_line": float((on_line - 1).abs().max()),
            "off_line": float(line.abs().max()),
            "deleted": deleted,
        }


@dataclass(frozen=True)
class AtRandomPoints(OfSizes):
    """The same construction at sizes whose points are too many: its margin at random ones.

    Attributes:
        points: of a size.
    """

    points: int = 400

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is found at each size."""
        return {
            "least": Answer("least margin over γ*"),
            "largest": Answer("largest margin over γ*"),
        }

    def answer(self, k: int, p: int, streams: Streams, place: int) -> Mapping[str, float]:
        """Margins at random points of (k, p)."""
        frequencies = _frequencies(p)
        shifts = _shifts(streams, place, len(frequencies), k)
        network = cosine_network(p, frequencies, max_margin_phases(k), shifts)
        points = (streams.at("points", place).uniform(self.points, k, dtype=torch.float64) * p).long()
        low, high = label_margins(network(points), points.sum(-1) % p)
        gamma = theory.best_margin(k, p)
        return {"least": float(low.min()) / gamma, "largest": float(high.max()) / gamma}


class Lattices(OfSizes):
    """Rank-one lattices of phases: fewer neurons than the construction."""

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is found at each size."""
        return {
            "least": Answer("least margin on all points over γ*"),
            "largest": Answer("largest margin over γ*"),
            "of_printed": Answer("neurons over 2^(2k-2) (p - 1)"),
        }

    def answer(self, k: int, p: int, streams: Streams, place: int) -> Mapping[str, float]:
        """The lattice with random shifts at (k, p)."""
        frequencies = _frequencies(p)
        shifts = _shifts(streams, place, len(frequencies), k)
        network = cosine_network(p, frequencies, lattice_phases(*theory.LATTICES[k]), shifts)
        least, largest = _ends(network, k, p)
        share = network.readout.shape[1] / (2 ** (2 * k - 2) * (p - 1))
        return {"least": least, "largest": largest, "of_printed": share}


class Even(OfSizes):
    """Even p: the construction has no frequency p/2; with it, in the right mass, it does better."""

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is found at each size."""
        return {
            "least": Answer("least margin on all points over the formula of γ*"),
            "with_all": Answer("the same with frequency p/2"),
        }

    def answer(self, k: int, p: int, streams: Streams, place: int) -> Mapping[str, float]:
        """Both constructions at (k, p)."""
        frequencies = _frequencies(p)
        shifts = _shifts(streams, place, len(frequencies), k)
        network = cosine_network(p, frequencies, max_margin_phases(k), shifts)
        signs = max_margin_phases(k)[: 2 ** (k - 1)]  # the first choice has no sines: phases 0 and π alone
        last = cosine_network(p, torch.tensor([p // 2]), signs)
        mass = theory.nyquist_mass(k) / len(frequencies)
        scale = mass ** (1 / (k + 1))
        both = PolynomialNetwork(
            torch.cat([network.embedding, scale * last.embedding], -1),
            torch.cat([network.readout, scale * last.readout], 1),
        )
        return {"least": _ends(network, k, p)[0], "with_all": _ends(both, k, p)[0]}


@dataclass(frozen=True)
class OneNeuron(OfSizes):
    """Random neurons, and such as climb to the largest margin that one neuron can have, in two ways.

    Attributes:
        restarts: random neurons of a size.
        rounds: in each of which one vector of a neuron after another is set to the best given the others.
        ascents: steps of gradient ascent, in which norms of vectors are free.
    """

    restarts: int = 20
    rounds: int = 30
    ascents: int = 200

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is found at each size."""
        return {
            "off_formula": Answer("margin by Fourier formula less that over all points, over γ*, largest at random"),
            "worst": Answer("margin after either climb over γ*, over all points: the smallest"),
            "best": Answer("largest margin on the way over γ*"),
            "peak_share": Answer("share of power at the largest frequency: smallest over neurons and vectors"),
            "frequencies": Answer("whether all vectors of all neurons have their neuron's frequency"),
            "phase_rule": Answer("cosine of the sum of the phases of u less that of w: the smallest"),
            "balance": Answer("largest difference of (k + 1)‖v‖² of a vector to 1, at the end of gradient ascent"),
        }

    def answer(self, k: int, p: int, streams: Streams, place: int) -> Mapping[str, float]:
        """Random neurons at (k, p)."""
        vectors = streams.at("neurons", place).normal(self.restarts, k + 1, p, dtype=torch.float64)[0]
        vectors = vectors / _length(vectors)
        gamma = theory.best_margin(k, p)
        off = (by_formula(vectors) - over_all_points(vectors)).abs().max() / gamma
        best, free = float(by_formula(vectors).max()), vectors
        for _ in range(self.rounds):
            vectors = climb(vectors)
            best = max(best, float(by_formula(vectors).max()))
        for _ in range(self.ascents):
            free = ascend(free)
            best = max(best, float(by_formula(free).max()))
        found = peak_frequency(vectors)
        phases = phase_at(vectors, found)
        sizes = free.square().sum(-1) * (k + 1)
        return {
            "off_formula": float(off),
            "worst": float(over_all_points(torch.cat([vectors, free])).min()) / gamma,
            "best": best / gamma,
            "peak_share": float(peak_share(vectors - vectors.mean(-1, keepdim=True)).min()),
            "frequencies": float((found == found[:, :1]).all()),
            "phase_rule": float((phases[:, :k].sum(-1) - phases[:, k]).cos().min()),
            "balance": float((sizes - 1).abs().max()),
        }


def by_formula(vectors: Tensor) -> Tensor:
    """J of neurons ``[neuron, k + 1, residue]`` by Eq. C.10."""
    each = vectors.numpy()
    return torch.from_numpy(theory.neuron_margin(each[:, :-1], each[:, -1]))


def over_all_points(vectors: Tensor) -> Tensor:
    """The same as a mean over all points: the right logit less the mean wrong one."""
    k, p = vectors.shape[1] - 1, vectors.shape[2]
    points = all_points(k, p)
    sums = sum((vectors[:, place, points[:, place]] for place in range(k)), torch.zeros(()))
    right = vectors[:, -1, all_labels(k, p)]
    others = (vectors[:, -1].sum(-1, keepdim=True) - right) / (p - 1)
    return (sums**k * (right - others)).mean(1)


def climb(vectors: Tensor) -> Tensor:
    """One vector after another set to the best of norm 1/√(k + 1) given the others: J is linear in each."""
    degree, p = vectors.shape[1:]
    spectra = torch.fft.fft(vectors)
    spectra[:, -1] = spectra[:, -1].conj()
    for place in range(degree):
        others = torch.cat([spectra[:, :place], spectra[:, place + 1 :]], 1).prod(1).conj()
        others[:, 0] = 0
        norm = others.abs().square().sum(-1, keepdim=True).sqrt()
        spectra[:, place] = others / norm * (p / degree) ** 0.5
    spectra[:, -1] = spectra[:, -1].conj()
    return torch.fft.ifft(spectra).real


def ascend(vectors: Tensor) -> Tensor:
    """A step up the gradient of the margin over all points, back to norm 1 as a whole: vectors' own norms are free.

    All k + 1 phases move at once: with steps of 1/k of the neuron's length they do not overshoot.
    """
    with torch.enable_grad():
        at = vectors.clone().requires_grad_()
        (slope,) = torch.autograd.grad(over_all_points(at).sum(), at)
    moved = vectors + slope / _length(slope) / (vectors.shape[1] - 1)
    return moved / _length(moved)


def _length(vectors: Tensor) -> Tensor:
    return vectors.square().sum((-2, -1), keepdim=True).sqrt()
