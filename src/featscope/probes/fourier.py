"""Fourier spectra of weights over residues modulo p: of the vectors of any module that is indexed by residues."""

from math import nan

import torch
from jaxtyping import Float, Int
from torch import Tensor


def power_spectrum(vectors: Float[Tensor, "*batch residue"]) -> Float[Tensor, "*batch frequency"]:
    """|v̂(j)|² of frequencies j = 1 to p/2; the constant is left out, and -j, which has the power of j."""
    return torch.fft.rfft(vectors.double()).abs().square()[..., 1:]


def peak_share(vectors: Float[Tensor, "*batch residue"]) -> Float[Tensor, "*batch"]:
    """Largest share of the power that one frequency has: 1 for a cosine. NaN where there is no power."""
    power = power_spectrum(vectors)
    total = power.sum(-1)
    return torch.where(total > 0, power.amax(-1) / total, nan)


def peak_frequency(vectors: Float[Tensor, "*batch residue"]) -> Int[Tensor, "*batch"]:
    """The frequency of the largest power, from 1."""
    return power_spectrum(vectors).argmax(-1) + 1


def phase_at(vectors: Float[Tensor, "*batch residue"], frequency: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """θ of cos(θ + 2πjx/p), the part of each vector at its ``frequency`` j, in radians."""
    spectrum = torch.fft.rfft(vectors.double())
    return spectrum.gather(-1, frequency[..., None])[..., 0].angle()
