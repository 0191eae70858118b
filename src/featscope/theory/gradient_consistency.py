"""What cosines with a mean are where nothing agrees, and what a table of cosines implies."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares


class Implied(NamedTuple):
    """What fits a table of cosines best.

    Attributes:
        norms: of the averages after the first, over the first.
        off: largest difference of a cosine to what the norms give.
    """

    norms: tuple[float, ...]
    off: float


def unrelated_to_mean(count: int) -> float:
    """Cosine of one of ``count`` orthogonal vectors of one length with their mean."""
    return 1 / count**0.5


def implied(to_mean: Sequence[float], pairs: Sequence[float]) -> Implied:
    """Lengths of three vectors with cosines ``pairs`` (12, 13, 23) that have cosines ``to_mean`` with their mean."""
    one, two, three = pairs
    gram = np.array([[1, one, two], [one, 1, three], [two, three, 1]])

    def off(logarithms: np.ndarray) -> np.ndarray:
        lengths = np.exp(np.append(0.0, logarithms))
        return (gram @ lengths) / np.sqrt(lengths @ gram @ lengths) - np.asarray(to_mean)

    best = least_squares(off, np.zeros(2), xtol=1e-15, ftol=1e-15, gtol=1e-15)
    return Implied(tuple(float(x) for x in np.exp(best.x)), float(abs(best.fun).max()))
