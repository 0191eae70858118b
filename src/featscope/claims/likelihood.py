"""Shares by their likelihood under a beta-binomial law: things of a replica may go together."""

from functools import lru_cache

import numpy as np
from jaxtyping import Float
from scipy import optimize, special

Counts = tuple[tuple[tuple[float, float], int], ...]
"""How many things are so, of how many, and in how many replicas it is so many."""

_PRIOR_FLOOR = 0.01
"""The prior of the correlation c of things in a replica is (1 - c)² plus this, so that replicas which are so or not as
a whole are unlikely, and not impossible."""
_CORRELATIONS = np.linspace(-16.0, 14.0, 21), np.linspace(-1.5, 1.5, 11), np.linspace(-0.3, 0.3, 11)
"""Logits at which the likeliest correlation is looked for: first of all, then about the one that was found."""
_END = 30.0
"""Logit of a share that is 1."""


@lru_cache(maxsize=1024)  # p-values and pages ask again
def likely_shares(counts: Counts, cutoff: float) -> tuple[float, float]:
    """The least and the largest share whose profile log-likelihood is at most ``cutoff`` below that of the likeliest.

    Counts follow a beta-binomial law (Skellam 1948), whose two parameters are the share and the correlation of things
    in a replica. The profile is the largest likelihood over the correlation, with its prior.

    Args:
        counts: how many things are so, of how many, and in how many replicas; none is without things.
        cutoff: in natural logarithms.
    """
    best, largest = _likeliest_share(counts)

    def above(logit: float) -> float:
        return _profile(counts, logit) - (largest - cutoff)

    low, high = (optimize.brentq(above, best, end, xtol=1e-9) if above(end) < 0 else end for end in (-_END, _END))
    return float(special.expit(low)), float(special.expit(high))


@lru_cache(maxsize=1024)
def _likeliest_share(counts: Counts) -> tuple[float, float]:
    """Logit of the share, and its profile."""
    logits = special.logit([so / trials for (so, trials), _ in counts]).clip(-_END, _END)
    found = optimize.minimize_scalar(
        lambda logit: -_profile(counts, logit),
        bounds=(float(logits.min()), float(logits.max())),
        method="bounded",
        options={"xatol": 1e-6},
    )
    so, trials = (sum(times * kind[of] for kind, times in counts) for of in (0, 1))
    pooled = float(special.logit(so / trials).clip(-_END, _END))  # where numbers of things differ widely there are two
    return max(((at, _profile(counts, at)) for at in (float(found.x), pooled)), key=lambda one: one[1])


def _profile(counts: Counts, logit: float) -> float:
    """Log-likelihood and log prior, the largest over correlations, but for constants."""
    (so, trials), times = np.array([kind for kind, _ in counts]).T[:, :, None], np.array([n for _, n in counts])
    at = 0.0
    for grid in _CORRELATIONS:
        logits = at + grid
        both = np.exp(-logits)  # the two parameters of the beta law add up to (1 - c) / c
        yes, no = special.expit(logit) * both, special.expit(-logit) * both
        of_replicas = (
            _log_rising_factorial(yes, so)
            + _log_rising_factorial(no, trials - so)
            - _log_rising_factorial(both, trials)
        )
        found = times @ of_replicas + np.log(special.expit(-logits) ** 2 + _PRIOR_FLOOR)
        best = int(found.argmax())
        at = float(logits[best])
    below, middle, beyond = found[np.clip([best - 1, best, best + 1], 0, len(found) - 1)]
    bend = below - 2 * middle + beyond
    return float(middle - (beyond - below) ** 2 / (8 * bend) if bend < 0 else middle)  # top of a parabola


def _log_rising_factorial(
    start: Float[np.ndarray, " c"], steps: Float[np.ndarray, "kind 1"]
) -> Float[np.ndarray, "kind c"]:
    """Logarithm of start (start + 1) ... (start + steps - 1)."""
    return special.gammaln(start + steps) - special.gammaln(start)
