"""Closed forms whose continuation is known, none of which was used to make the method.

Each is a function of a size N >= 8, from probability, statistics, number theory or learning.
"""

from collections.abc import Callable, Mapping

import numpy as np
from scipy import special, stats

Law = Callable[[np.ndarray], np.ndarray]


def _harmonic(n: np.ndarray) -> np.ndarray:
    return special.digamma(n + 1) + np.euler_gamma


def _cosine(n: np.ndarray) -> np.ndarray:
    return np.exp(special.gammaln(n / 2) - special.gammaln((n + 1) / 2)) / np.sqrt(np.pi)


def _chi(n: np.ndarray) -> np.ndarray:
    return np.exp(special.gammaln((n + 1) / 2) - special.gammaln(n / 2)) * np.sqrt(2 / n)


def _birthday(n: np.ndarray) -> np.ndarray:
    """Ramanujan's Q: mean number of draws from N days before one comes again."""
    return np.exp(n - n * np.log(n) + special.gammaln(n + 1)) * special.gammaincc(n + 1, n)


def _stieltjes(n: np.ndarray) -> np.ndarray:
    """Stieltjes transform of the Marchenko-Pastur law at -0.1, 16 features and N samples."""
    ratio, at = 16 / n, 0.1
    b = 1 - ratio + at
    return 2 / (b + np.sqrt(b**2 + 4 * ratio * at))


LAWS: Mapping[str, Law] = {
    "N-th harmonic number": _harmonic,
    "variance of the number of records": lambda n: _harmonic(n) - np.pi**2 / 6 + special.polygamma(1, n + 1),
    "comparisons of quicksort, over N": lambda n: 2 * (1 + 1 / n) * _harmonic(n) - 4,
    "largest share of a stick in N pieces": lambda n: _harmonic(n) / n,
    "median of the largest of N normals": lambda n: stats.norm.isf(-np.expm1(np.log(0.5) / n)),
    "median of the largest of N Pareto(3)": lambda n: (-np.expm1(np.log(0.5) / n)) ** (-1 / 3),
    "mean distance to the nearest of N points in a ball": lambda n: (
        special.gamma(4 / 3) * np.exp(special.gammaln(n + 1) - special.gammaln(n + 4 / 3))
    ),
    "mean range of N uniforms": lambda n: (n - 1) / (n + 1),
    "mean cosine of random directions": _cosine,
    "mean norm of a normal vector, over sqrt N": _chi,
    "mean resultant of von Mises, concentration N": lambda n: special.ive(1, n) / special.ive(0, n),
    "logarithmic integral times log N / N": lambda n: special.expi(np.log(n)) * np.log(n) / n,
    "99 % quantile of Student's t": lambda n: stats.t.ppf(0.99, n),
    "95 % quantile of chi squared, over N": lambda n: stats.chi2.ppf(0.95, n) / n,
    "99 % quantile of F(8, N)": lambda n: stats.f.ppf(0.99, 8, n),
    "return of a walk after N steps": lambda n: np.exp(
        special.gammaln(n + 1) - 2 * special.gammaln(n / 2 + 1) - n * np.log(2)
    ),
    "draws until a birthday comes again, over sqrt N": lambda n: _birthday(n) / np.sqrt(n),
    "upper edge of Marchenko-Pastur, 32 / N": lambda n: (1 + np.sqrt(32 / n)) ** 2,
    "squared cosine to a spike of 2, ratio 8 / N": lambda n: (1 - 2 / n) / (1 + 4 / n),
    "ridge resolvent, 16 features, penalty 0.1": _stieltjes,
    "Stirling's formula, relative error": lambda n: np.expm1(
        special.gammaln(n + 1) + n - (n + 0.5) * np.log(n) - np.log(2 * np.pi) / 2
    ),
    "ratio of Catalan numbers": lambda n: (4 * n + 2) / (n + 2),
    "sum of k^-1.2 up to N": lambda n: special.zeta(1.2) - special.zeta(1.2, n + 1),
    "law of the iterated logarithm": lambda n: np.sqrt(2 * np.log(np.log(n))),
    "union bound of N normals": lambda n: np.sqrt(2 * np.log(n)),
    "1 / log N": lambda n: 1 / np.log(n),
    "loss of a language model, two powers": lambda n: 1.69 + 4.1 * n**-0.34 + 8.2 * n**-0.56,
}

CLIFFS: Mapping[str, Law] = {
    "probability to separate N points with 512 weights": lambda n: stats.binom.cdf(511, np.round(n) - 1, 0.5),
    "share of 2048 boxes that N balls miss": lambda n: np.exp(n * np.log1p(-1 / 2048)),
    "a step of the normal law at 4096": lambda n: stats.norm.cdf(2 * np.log(n / 4096)),
}
"""Flat at first, then steep: what no ladder shows."""

SHARES: Mapping[str, Law] = {
    "odds N / 60": lambda n: n / (n + 60),
    "odds (90 / N)^0.7": lambda n: 1 / (1 + (n / 90) ** 0.7),
    "normal in log N": lambda n: stats.norm.cdf((np.log(n) - 5) / 3),
    "0.8 - N^-1/2": lambda n: 0.8 - n**-0.5,
    "0.1 + 1 / log N": lambda n: 0.1 + 1 / np.log(n),
    "exp(-5 / sqrt N)": lambda n: np.exp(-5 / np.sqrt(n)),
}
