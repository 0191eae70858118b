"""What two views of a sample have in common to a network, by sampling.

Wen & Li 2021 (arXiv 2105.15134): x⁺ and x⁺⁺ are the views, h_i the neurons, f all of them, ξ the noise.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from featscope.data import SparseCodingSource, SparseSample
from featscope.models import SymmetricReLUNetwork
from featscope.streams import Draws, Streams
from featscope.theory.decoupling import (
    activity,
    mask_perturbation,
    masked_positive_term,
    noise_variance,
    pair_covariance,
)
from featscope.views import View

SAMPLES = 8192
BATCH = 1024
MASKS = 64


@dataclass(frozen=True)
class TwoViews:
    """Means over `SAMPLES` samples and a pair of views of each, in float64, as a network has them.

    Attributes:
        network: what looks at the views.
        source: samples.
        view: makes the pair.
        streams: random numbers.
    """

    network: SymmetricReLUNetwork
    source: SparseCodingSource
    view: View
    streams: Streams

    def _mean(self, purpose: str, summed: Callable[[SparseSample, Draws], Tensor]) -> Tensor:
        """Mean over samples; ``summed`` sums over those of a batch, whose views come from the same draws."""
        total = torch.zeros((), dtype=torch.float64)
        for part in range(SAMPLES // BATCH):
            draws = self.streams.at(purpose, part)
            total = total + summed(self.source.sample(draws, BATCH), draws).double()
        return total / SAMPLES

    def positive_term(self, purpose: str) -> Float[Tensor, "replica neuron input"]:
        """E[h_i(x⁺⁺) x⁺]: where positive pairs pull the weights, at b = 0. ``purpose`` is the address of the draws."""

        def summed(sample: SparseSample, draws: Draws) -> Tensor:
            anchor, positive = self.view(sample.x, draws)
            return self.network(positive).mT @ anchor

        return self._mean(purpose, summed)

    def growth(self) -> tuple[Float[Tensor, "replica"], Float[Tensor, "replica"]]:
        """Rates at which the positive term grows weights along features and orthogonal to them, at b = 0."""
        term = self.positive_term("plain rates")
        weight, dictionary = self.network.weight.double(), self.source.dictionary.double()
        inside = weight @ dictionary
        outside = weight - inside @ dictionary.mT
        along = ((term @ dictionary) * inside).sum((-2, -1)) / inside.square().sum((-2, -1))
        return along, (term * outside).sum((-2, -1)) / outside.square().sum((-2, -1))

    def noise_left(self) -> Float[Tensor, "replica"]:
        """Noise variance that is left in the positive term at b = 0, in units of s²: 0 under RandomMask (Lemma C.2)."""
        data, (weight, dictionary) = self.source.config, self._in_numpy()
        predicted = masked_positive_term(weight, dictionary, activity(data.features, data.sparsity))
        excess = self.positive_term("mask leak").cpu().numpy() - predicted
        left = (excess * weight).sum((-2, -1)) / np.square(weight).sum((-2, -1))
        return torch.from_numpy(left / noise_variance(data.features, data.noise))

    def covariance_ratio(self) -> Float[Tensor, "replica"]:
        """Covariance of <w_i, x⁺> and <w_i, x⁺⁺> over what it is under RandomMask, both summed over neurons."""

        def summed(sample: SparseSample, draws: Draws) -> Tensor:
            anchor, positive = (view @ self.network.weight.mT for view in self.view(sample.x, draws))
            return (anchor * positive).double().sum(-2)

        data = self.source.config
        closed = pair_covariance(*self._in_numpy(), activity(data.features, data.sparsity))
        return torch.from_numpy(self._mean("pair statistics", summed).cpu().numpy().sum(-1) / closed.sum(-1))

    def crosstalk(self) -> Float[Tensor, "replica"]:
        """Mean over features j, j' and masks of <M_j, (I - 2D) M_j'>², times d1: 1 for flat features (Lemma B.3)."""
        features = self.source.dictionary.mT
        total = torch.zeros((), dtype=torch.float64)
        for part in range(MASKS):
            spilt = self.view(features, self.streams.at("mask crosstalk", part))[0] - features
            total = total + (spilt @ self.source.dictionary).double().square().mean((-2, -1))
        return total / MASKS * features.shape[-1]

    def perturbation_ratio(self) -> Float[Tensor, "replica"]:
        """E<w_i, (I - 2D)x>² over what it is under RandomMask, both summed over neurons (Lemma B.4)."""

        def summed(sample: SparseSample, draws: Draws) -> Tensor:
            moved = self.view(sample.x, draws)[0] - sample.x
            return (moved @ self.network.weight.mT).double().square().sum((-2, -1))

        data = self.source.config
        weight, dictionary = self._in_numpy()
        p, s2 = activity(data.features, data.sparsity), noise_variance(data.features, data.noise)
        closed = mask_perturbation(weight, dictionary, p, s2).sum(-1)
        return torch.from_numpy(self._mean("mask moves", summed).cpu().numpy() / closed)

    def agreement_on_noise(self) -> Float[Tensor, "replica"]:
        """E<f(ξ⁺), f(ξ⁺⁺)> over E||f(ξ)||², of views of the noise alone: 0 under RandomMask (Section 3)."""

        def summed(sample: SparseSample, draws: Draws) -> Tensor:
            noise = sample.noise
            first, second, whole = (self.network(seen) for seen in (*self.view(noise, draws), noise))
            return torch.stack([(first * second).double().sum((-2, -1)), whole.double().square().sum((-2, -1))])

        inner, norm = self._mean("dense decoupling", summed)
        return inner / norm

    def _in_numpy(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights and dictionary."""
        return self.network.weight.double().cpu().numpy(), self.source.dictionary.double().cpu().numpy()
