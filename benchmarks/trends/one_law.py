"""The rival: the one law that foretells the last two sizes best, refitted to all and trusted."""

import numpy as np

from featscope.trends import Trend
from featscope.trends.laws import FAMILIES

DRAWS = 1000


def one_law(sizes: np.ndarray, samples: np.ndarray, reach: float = 16.0, seed: int = 0) -> Trend:
    """A `Trend` whose curves are of that law alone, spread by the error of its coefficients."""
    x, mean = np.log(sizes), samples.mean(axis=1)
    replicas = samples.shape[1]
    error = samples.std(axis=1, ddof=1) / np.sqrt(replicas) if replicas > 1 else np.zeros_like(mean)
    error = np.maximum(error, 1e-9 * np.abs(mean).max())
    grid = np.log(sizes[-1] * np.geomspace(1, reach, 17))
    laws = [(powers, False) for _, members in FAMILIES.values() for powers in members if len(powers) < 2]
    laws += [(powers, True) for powers, _ in laws] if (mean > 0).all() else []

    def fit(powers: tuple[float, ...], log: bool, upto: int, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        y, e = (np.log(mean), error / mean) if log else (mean, error)
        rows, ahead = _columns(powers, x[:upto], x[-1]) / e[:upto, None], _columns(powers, at, x[-1])
        inverse = np.linalg.pinv(rows)
        left = rows @ inverse @ (y[:upto] / e[:upto]) - y[:upto] / e[:upto]
        scale = max(1.0, left @ left / max(upto - rows.shape[1], 1))
        return ahead @ inverse @ (y[:upto] / e[:upto]), scale * (ahead @ inverse @ inverse.T @ ahead.T)

    def missed(powers: tuple[float, ...], log: bool) -> float:
        foretold, _ = fit(powers, log, len(x) - 2, x[-2:])
        return float((((np.exp(foretold) if log else foretold) - mean[-2:]) ** 2).sum())

    powers, log = min(laws, key=lambda law: missed(*law))
    middle, covariance = fit(powers, log, len(x), grid)
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    noise = np.random.default_rng(seed).standard_normal((DRAWS, len(grid)))
    curves = middle + noise @ (vectors * np.sqrt(values.clip(0))).T
    return Trend(np.exp(grid), np.exp(curves) if log else curves, "<=", 0.0, 0.0, {}, 0.0)


def _columns(powers: tuple[float, ...], x: np.ndarray, last: float) -> np.ndarray:
    terms = [x - last if c == 0 else np.expm1(c * (x - last)) / c for c in powers]
    return np.stack([np.ones_like(x), *terms], axis=1)
