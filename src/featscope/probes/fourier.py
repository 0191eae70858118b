"""Fourier spectra of weights over residues modulo p: of the vectors of any module that is indexed by residues."""

from math import prod

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featscope.numbers import in_double, require_tensor


def power_spectrum(vectors: Float[Tensor, "*batch residue"]) -> Float[Tensor, "*batch frequency"]:
    """|v̂(j)|² of frequencies j = 1 to p/2; the constant is left out, and -j, which has the power of j.

    At an even p the last one, p/2, has no -j beside it and counts half. So shares are those of ‖v - v̄‖² at every p.

    Raises:
        ValueError: there are fewer than two residues, which have no frequency.
    """
    if vectors.shape[-1] < 2:
        raise ValueError(f"vectors have shape {list(vectors.shape)}: expected two residues or more in the last axis")
    wide = in_double(vectors)
    power = torch.fft.rfft(wide).abs().square()[..., 1:]
    if vectors.shape[-1] % 2 == 0:
        power[..., -1] /= 2
    return _above_rounding(power, wide, 1)


def peak_share(vectors: Float[Tensor, "*batch residue"]) -> Float[Tensor, "*batch"]:
    """Largest share of the power that one frequency has: 1 for a cosine. NaN where there is no power."""
    power = power_spectrum(vectors)
    return power.amax(-1) / power.sum(-1)


def peak_frequency(vectors: Float[Tensor, "*batch residue"]) -> Int[Tensor, "*batch"]:
    """The frequency of the largest power, from 1; 0, that of a constant, where there is no power, or it is NaN."""
    power = power_spectrum(vectors)
    return torch.where(power.amax(-1) > 0, power.argmax(-1) + 1, 0)


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
    wide = in_double(matrices)
    return _above_rounding(torch.fft.rfft2(wide).abs().square()[..., 1:, 1:], wide, 2)


def _above_rounding(power: Tensor, of: Tensor, axes: int) -> Tensor:
    """0 where all the ``power`` of the last ``axes`` is what rounding leaves of a constant; NaN stays."""
    last = tuple(range(-axes, 0))
    size = of.square().sum(last, keepdim=True) * prod(of.shape[-axes:])
    return power.where(~(power.sum(last, keepdim=True) <= torch.finfo(of.dtype).eps ** 2 * size), 0.0)


def share_of_largest(power: Float[Tensor, "*batch bin"], count: int) -> Float[Tensor, "*batch"]:
    """Share of the power that the ``count`` largest bins have. NaN where there is no power.

    Raises:
        TypeError: the power is no tensor.
    """
    require_tensor(power)
    return power.topk(min(count, power.shape[-1])).values.sum(-1) / power.sum(-1)


def phase_at(vectors: Float[Tensor, "*batch residue"], frequency: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """θ of cos(θ + 2πjx/p), the part of each vector at its ``frequency`` j, in radians.

    Raises:
        ValueError: there is not a frequency for each vector.
    """
    if frequency.shape != vectors.shape[:-1]:
        allowed = f"{list(vectors.shape[:-1])}, one for each vector"
        raise ValueError(f"frequency has shape {list(frequency.shape)}: expected {allowed}")
    spectrum = torch.fft.rfft(in_double(vectors))
    return spectrum.gather(-1, frequency[..., None])[..., 0].angle()
