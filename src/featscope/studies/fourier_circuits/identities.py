"""Identities behind the max-margin network: on random numbers, beside what the dissertation prints of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import factorial, pi
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featscope.probes.fourier import peak_share
from featscope.streams import Streams
from featscope.theory import fourier_circuits as theory
from featscope.training import Answer
from featscope.training.evaluation import Ask, Questionnaire

_SMALL = 5  # residues for which a DFT of seven indices is small


@dataclass(frozen=True)
class Identities(Questionnaire):
    """Lemma C.16 and Eq. C.21 on random numbers, k = 2 to 6.

    Attributes:
        numbers: random draws for each k.
    """

    on_cpu = True
    numbers: int = 50

    @property
    def grid(self) -> Mapping[str, Sequence[Any]]:
        """k."""
        return {"inputs": range(2, 7)}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is found for each k."""
        return {
            "signed": Answer("Σ ± (Σ e_j d_j)^k less 2^k k! Π d, over the largest power, largest over draws"),
            "half": Answer("the same of the half with e_1 = +1"),
            "expansion": Answer("cos(a_1 + ... + a_k - c) less its terms, largest over draws"),
            "terms": Answer("its terms, over 2^k"),
            "terms_without": Answer("terms of cos(a_1 + ... + a_k), over 2^k"),
            "first_printed": Answer("share of the power of û_1(a_1)^k w(c) where j_1 = 0"),
            "first": Answer("share of it where j_2 = ... = j_k = 0"),
            "larger": Answer("share of power at the larger of two cosines, of sizes 1 and 2"),
        }

    def asker(self, streams: Streams) -> Ask:
        """Answers for one k after another."""

        def ask(inputs: int) -> Mapping[str, float]:
            drawn = streams.at("numbers", inputs).normal(self.numbers, inputs + 1, dtype=torch.float64)[0].numpy()
            values, angles = drawn[:, :inputs], 2 * pi * drawn
            scale = np.abs(values).sum(-1) ** inputs
            wanted = theory.product_of_values(values)
            terms, without = theory.cosine_terms(angles), theory.cosine_terms(angles[:, :inputs])
            return {
                "signed": float(np.abs((theory.signed_powers(values) - wanted) / scale).max()),
                "half": float(np.abs((theory.signed_powers(values, half=True) - wanted / 2) / scale).max()),
                "expansion": float(np.abs(terms.sum(-1) - np.cos(angles.sum(-1))).max()),
                "terms": (np.abs(terms) > 0).all(0).sum() / 2**inputs,
                "terms_without": (np.abs(without) > 0).all(0).sum() / 2**inputs,
                "larger": _larger_share(2 * inputs + 1),
                **_first_monomial(inputs, streams.at("monomial", inputs).normal(2, _SMALL, dtype=torch.float64)[0]),
            }

        return ask


def _larger_share(p: int) -> float:
    turns = 2 * pi * torch.arange(p, dtype=torch.float64) / p
    return float(peak_share(turns.cos() + 2 * (2 * turns).cos()))


def _first_monomial(k: int, vectors: Tensor) -> dict[str, float]:
    """Where the DFT of u_1(a_1)^k w(c) is, for random u_1 and w."""
    u, w = vectors
    p = len(u)
    values = (u**k).view(p, *[1] * k) * w
    power = torch.fft.fftn(values.expand(*[p] * (k + 1))).abs() ** 2
    first = power[(slice(None), *[0] * (k - 1))]
    return {"first_printed": float(power[0].sum() / power.sum()), "first": float(first.sum() / power.sum())}


@dataclass(frozen=True)
class OneTerm(Questionnaire):
    """The four neurons that the proof of Lemma C.17 gives for -sin sin cos cos, k = 3: by their phases and as written.

    At random angles.
    """

    on_cpu = True
    phases = ((0.5, 0.5, 0, 1), (0.5, 0.5, -1, 0), (0.5, -0.5, 0, 0), (-0.5, 0.5, 0, 0))
    """θ_u1, θ_u2, θ_u3, θ_w as printed, in units of π."""
    signs = ((1, 1, 1, -1), (1, 1, -1, 1), (1, -1, 1, 1), (-1, 1, 1, 1))
    """Signs of sin(a_1), sin(a_2), cos(a_3) and of the neuron as printed."""

    @property
    def grid(self) -> Mapping[str, Sequence[Any]]:
        """The neurons."""
        return {"neuron": range(4)}

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is found for each."""
        return {
            "off": Answer("a neuron by its phases less the neuron as written, largest over random angles"),
            "off_mended": Answer("the same with the other sign of both sines"),
            "sum_off": Answer("sum of the four by their phases less the term, largest over random angles"),
        }

    def asker(self, streams: Streams) -> Ask:
        """Answers for one neuron after another."""
        angles = 2 * pi * streams.at("angles").uniform(50, 4, dtype=torch.float64)[0].numpy()
        parts = np.stack([np.sin(angles[:, 0]), np.sin(angles[:, 1]), np.cos(angles[:, 2])], -1)
        last = np.cos(angles[:, 3])
        by_phases = [self._neuron(np.cos(angles + pi * np.array(phases))) for phases in self.phases]
        term = -factorial(3) * 4 * parts.prod(-1) * last
        sum_off = float(np.abs(sum(by_phases) - term).max())

        def ask(neuron: int) -> Mapping[str, float]:
            *signs, last_sign = self.signs[neuron]

            def off(sine: int) -> float:
                written = (parts * signs * [sine, sine, 1]).sum(-1) ** 3 * last_sign * last
                return float(np.abs(by_phases[neuron] - written).max())

            return {"off": off(1), "off_mended": off(-1), "sum_off": sum_off}

        return ask

    @staticmethod
    def _neuron(cosines: np.ndarray) -> np.ndarray:
        return cosines[:, :3].sum(-1) ** 3 * cosines[:, 3]
