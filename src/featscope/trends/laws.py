"""The laws that a measurement may follow as a problem grows.

In x = log N, one of: constant; a + b log N; a + b N^c, which approaches a limit (c < 0) or grows (c > 0); and
a + b N^-c + e log N, a slow term behind a fast one. On a logarithmic scale a + b log N is a power of N. Each law may
also bend, by an integrated random walk in log N, as none is exact. Coefficients have wide Gaussian priors, so that a
law is a Gaussian process: fit, prediction and weight are one conditional Gaussian.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from jaxtyping import Float

POWERS = (-2.0, -1.5, -1.0, -0.75, -0.5, -0.35, -0.25, -0.15, -0.1, 0.1, 0.15, 0.25, 0.35, 0.5, 0.75, 1.0)
FAST = (-2.0, -1.5, -1.25, -1.0, -0.75, -0.5, -0.35)  # powers of the fast term before a slow logarithm
BENDS = {0.0: 0.7, 0.01: 0.15, 0.03: 0.1, 0.1: 0.05}  # change of slope per doubling, in spans of the ladder -> prior
FAMILIES: dict[str, tuple[float, list[tuple[float, ...]]]] = {  # prior, shared evenly by the members; their powers
    "constant": (0.15, [()]),
    "logarithm": (0.15, [(0.0,)]),
    "limit": (0.15, [(c,) for c in POWERS if c < 0]),
    "growth": (0.15, [(c,) for c in POWERS if c > 0]),
    "fast and slow": (0.4, [(c, 0.0) for c in FAST]),
}
LEVEL, TERM = 10.0, 2.0  # prior widths of the level and of what a term adds over the ladder, in spans of the ladder


@dataclass(frozen=True)
class Law:
    """A linear model in functions of log N, and how far the truth may bend away from it.

    Attributes:
        family: what it is called.
        powers: c of each term N^c; 0 stands for log N.
        bend: standard deviation of the change of slope per doubling of N, in spans of the ladder.
        prior: its weight before anything is measured.
    """

    family: str
    powers: tuple[float, ...]
    bend: float
    prior: float


LAWS = tuple(
    Law(family, powers, bend, share / len(members) * likely)
    for family, (share, members) in FAMILIES.items()
    for powers, (bend, likely) in product(members, BENDS.items())
)


@lru_cache(maxsize=64)
def covariances(ladder: tuple[float, ...], beyond: tuple[float, ...]) -> Float[np.ndarray, "law point point"]:
    """Prior covariance of every law at all sizes, for a ladder whose measurements span 1.

    Args:
        ladder: log N of the sizes that were run, ascending.
        beyond: log N of those to foretell.
    """
    x = np.array([*ladder, *beyond])
    steps = (x - ladder[0]) / np.log(2)
    low, high = np.minimum.outer(steps, steps), np.maximum.outer(steps, steps)
    walk = low**2 * high / 2 - low**3 / 6  # of an integrated random walk that begins at the smallest size
    return np.stack([_covariance_of_terms(law.powers, x, ladder) + law.bend**2 * walk for law in LAWS])


def _covariance_of_terms(
    powers: tuple[float, ...], x: Float[np.ndarray, " point"], ladder: tuple[float, ...]
) -> Float[np.ndarray, "point point"]:
    columns = [LEVEL * np.ones_like(x)]
    for power in powers:
        past_last = x - ladder[-1]
        term = past_last if power == 0 else np.expm1(power * past_last) / power
        columns.append(TERM * term / abs(term[0]))
    rows = np.stack(columns, axis=1)
    return rows @ rows.T
