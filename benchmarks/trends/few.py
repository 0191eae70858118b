"""Ladders of few replicas: how often intervals hold a measurement that no size moves, and what is said at its bound."""

from collections.abc import Callable

import numpy as np

from featscope.trends import fit_trend

LADDERS = 400
REPLICAS = (2, 3, 4, 8)
SIZES = 8 * 2.0 ** np.arange(6)
TRUTH, ERROR, THINGS, ALIKE = 0.9, 0.05, 1000, 0.1  # of a replica: relative error of a mean; things, their correlation
HEAD = "| measurement | replicas | silent | covered at 4N | at 16N | at its bound: holds | fails |\n|" + " --- |" * 7

Draw = Callable[[np.random.Generator, int], np.ndarray]


def means(rng: np.random.Generator, replicas: int) -> np.ndarray:
    """A normal quantity ``[size, replica]``."""
    return TRUTH * (1 + ERROR * rng.standard_normal((len(SIZES), replicas)))


def skewed(rng: np.random.Generator, replicas: int) -> np.ndarray:
    """A lognormal quantity that spreads as much as it is large ``[size, replica]``."""
    return TRUTH * rng.lognormal(-0.5, 1.0, (len(SIZES), replicas))


def shares(rng: np.random.Generator, replicas: int) -> np.ndarray:
    """Shares of things that go together in a replica ``[size, replica]``."""
    around = (1 - ALIKE) / ALIKE
    of_replica = rng.beta(TRUTH * around, (1 - TRUTH) * around, (len(SIZES), replicas))
    return rng.binomial(THINGS, of_replica) / THINGS


KINDS: dict[str, tuple[Draw, dict]] = {
    "a mean, normal": (means, {}),
    "a mean, lognormal with σ = 1": (skewed, {"within": (0.0, np.inf)}),
    "a share of 1,000 things, correlated 0.1": (shares, {"trials": THINGS, "within": (0.0, 1.0)}),
}


def table(seed: int) -> str:
    """A row for each kind and number of replicas."""
    lines = [HEAD]
    for kind, (draw, about) in KINDS.items():
        for replicas in REPLICAS:
            rng, said, covered, verdicts = np.random.default_rng(seed), 0, np.zeros(2), []
            for number in range(LADDERS):
                trend = fit_trend(SIZES, draw(rng, replicas), "<", TRUTH, draws=1000, seed=number, **about)
                if trend.silent:
                    continue
                ends = [trend.at(factor).interval for factor in (4, 16)]
                said, covered = said + 1, covered + [low <= TRUTH <= high for low, high in ends]
                verdicts.append(trend.at(4).verdict)
            counts = [*covered, verdicts.count("holds"), verdicts.count("fails")]
            cells = [kind, str(replicas), str(LADDERS - said), *(f"{100 * count / said:.0f} %" for count in counts)]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
