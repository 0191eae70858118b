"""Fourier spectra of weights over residues modulo p: of the vectors of any module that is indexed by residues."""

from math import nan, prod

import torch
from jaxtyping import Float, Int
from torch import Tensor


def power_spectrum(vectors: Float[Tensor, "*batch residue"]) -> Float[Tensor, "*batch frequency"]:
    """|v̂(j)|² of frequencies j = 1 to p/2; the constant is left out, and -j, which has the power of j.

    At an even p the last one, p/2, has no -j beside it and counts half. So shares are those of ‖v - v̄‖² at every p.
    """
    wide = vectors.double()
    power = torch.fft.rfft(wide).abs().square()[..., 1:]
    if vectors.shape[-1] % 2 == 0:
        power[..., -1] /= 2
    return _above_rounding(power, wide, 1)


def peak_share(vectors: Float[Tensor, "*batch residue"]) -> Float[Tensor, "*batch"]:
    """Largest share of the power that one frequency has: 1 for a cosine. NaN where there is no power."""
    power = power_spectrum(vectors)
    total = power.sum(-1)
    return torch.where(total > 0, power.amax(-1) / total, nan)


def peak_frequency(vectors: Float[Tensor, "*batch residue"]) -> Int[Tensor, "*batch"]:
    """The frequency of the largest power, from 1."""
    return power_spectrum(vectors).argmax(-1) + 1


def matrix_power_spectrum(
    matrices: Float[Tensor, "*batch row column"],
) -> Float[Tensor, "*batch row_frequency column_frequency"]:
    """|M̂(i, j)|² of rows' frequencies i = 1 to p - 1 and columns' j = 1 to p/2: a half plane, p odd.

    What is constant along rows or columns is left out, and (-i, -j), which has the power of (i, j). A product of a
    cosine of rows and one of columns has power at (i, j) and (-i, j), a cosine of a sum at one of them.

    Raises:
        ValueError: the number of columns is even; its last frequency would count twice.
    """
    if matrices.shape[-1] % 2 == 0:
        raise ValueError(f"matrices have {matrices.shape[-1]} columns: expected an odd number")
    wide = matrices.double()
    return _above_rounding(torch.fft.rfft2(wide).abs().square()[..., 1:, 1:], wide, 2)


def _above_rounding(power: Tensor, of: Tensor, axes: int) -> Tensor:
    """0 where all the ``power`` of the last ``axes`` is what rounding leaves of a constant; NaN stays."""
    last = tuple(range(-axes, 0))
    size = of.square().sum(last, keepdim=True) * prod(of.shape[-axes:])
    return power.where(~(power.sum(last, keepdim=True) <= torch.finfo(of.dtype).eps ** 2 * size), 0.0)


def share_of_largest(power: Float[Tensor, "*batch bin"], count: int) -> Float[Tensor, "*batch"]:
    """Share of the power that the ``count`` largest bins have. NaN where there is no power."""
    total = power.sum(-1)
    return torch.where(total > 0, power.topk(min(count, power.shape[-1])).values.sum(-1) / total, nan)


def phase_at(vectors: Float[Tensor, "*batch residue"], frequency: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """θ of cos(θ + 2πjx/p), the part of each vector at its ``frequency`` j, in radians."""
    spectrum = torch.fft.rfft(vectors.double())
    return spectrum.gather(-1, frequency[..., None])[..., 0].angle()
