"""What spectra of attention matrices look like before training: shares of the largest of many bins (derived here)."""

import numpy as np
from jaxtyping import Float

_MATRICES = 4000  # of a Monte Carlo estimate


def exponential_share(bins: int, largest: int) -> float:
    """Expected share that the ``largest`` bins have of a power that is independent and exponential in each.

    Shares are then spacings of uniform points, whatever the total: the i-th largest of n has (1/n) Σ_{j=i}^n 1/j on
    average. Power of independent Gaussian entries at a frequency and its opposite is so.
    """
    tails = np.cumsum(1 / np.arange(bins, 0, -1))[::-1]  # Σ_{j=i}^n 1/j
    return float(tails[:largest].sum() / bins)


def half_plane(modulus: int) -> int:
    """Bins of a p x p matrix but for what is constant along rows or columns, of (i, j) and (-i, -j) one, p odd."""
    return (modulus - 1) ** 2 // 2


def power_at_start(modulus: int, hidden: int, head_dim: int, matrices: int) -> Float[np.ndarray, "matrix bin"]:
    """2-D power of Eᵀ W^K W^Qᵀ E with Gaussian E and W, one row a matrix; sixteen heads have one E.

    Fourier transforms of E's rows are Gaussian themselves, so that no p x p matrix is made.
    """
    chance, heads = np.random.default_rng(0), 16
    half = (modulus - 1) // 2
    found = []
    for _ in range(-(-matrices // heads)):
        parts = chance.normal(size=(2, half, hidden))
        waves = parts[0] + 1j * parts[1]  # of frequencies 1 to (p-1)/2; those of the others are conjugate
        keys, queries = (chance.normal(size=(heads, hidden, head_dim)) for _ in range(2))
        rows, columns = np.concatenate([waves, waves.conj()]) @ keys, waves @ queries
        found.append((np.abs(rows @ columns.transpose(0, 2, 1)) ** 2).reshape(heads, -1))
    return np.concatenate(found)[:matrices]


def share_at_start(modulus: int, hidden: int, head_dim: int, largest: int) -> float:
    """Mean share that the ``largest`` bins have before training, by Monte Carlo: above `exponential_share`.

    Few dimensions make the power of a bin a product, whose tail is heavier than exponential.
    """
    power = power_at_start(modulus, hidden, head_dim, _MATRICES)
    return float((np.sort(power, 1)[:, -largest:].sum(1) / power.sum(1)).mean())
