"""Counting what was foretold rightly, wrongly and not at all."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.trends.laws import Law
from featscope.trends import Trend

FACTORS = (4, 16)
REPLICAS = 8
ERRORS = (0.001, 0.03)  # standard deviation of a replica, relative to the value; drawn between, evenly in its logarithm

Method = Callable[[np.ndarray, np.ndarray], Trend]


@dataclass
class Tally:
    """Pairs of a claim and a window, and how often each thing was said.

    Attributes:
        pairs: how many.
        right, wrong: of these, by factor of the largest size; the others are undecided.
        covered: 90 % intervals that hold the truth, by factor.
        toward: times that "toward" was said.
        false_toward: times that it was said and the truth moves away in the end.
        silent: pairs of which nothing was said.
    """

    pairs: int = 0
    right: dict[int, int] = field(default_factory=lambda: dict.fromkeys(FACTORS, 0))
    wrong: dict[int, int] = field(default_factory=lambda: dict.fromkeys(FACTORS, 0))
    covered: dict[int, int] = field(default_factory=lambda: dict.fromkeys(FACTORS, 0))
    toward: int = 0
    false_toward: int = 0
    silent: int = 0

    def add(self, trend: Trend, truth: np.ndarray) -> None:
        """Count what ``trend`` says beside the true values at its sizes."""
        self.pairs += 1
        self.silent += bool(trend.silent)
        true = replace(trend, curves=truth[None], surprise=0.0, unseen="")
        for factor in FACTORS:
            said, is_so = trend.at(factor), true.at(factor)
            self.right[factor] += said.verdict == is_so.verdict
            self.wrong[factor] += said.verdict not in (is_so.verdict, "undecided")
            self.covered[factor] += said.interval[0] <= is_so.interval[0] <= said.interval[1]
        if trend.direction().word == "toward":
            self.toward += 1
            self.false_toward += true.direction().word != "toward"

    def row(self, label: str) -> str:
        """A line of the table."""
        cells = [label, f"{self.pairs:,}"]
        for factor in FACTORS:
            undecided = self.pairs - self.right[factor] - self.wrong[factor]
            cells += [self._share(count) for count in (self.right[factor], self.wrong[factor], undecided)]
        cells += [self._share(self.covered[factor]) for factor in FACTORS]
        return "| " + " | ".join([*cells, f"{self.false_toward} of {self.toward}", str(self.silent)]) + " |"

    def _share(self, count: int) -> str:
        share = 100 * count / max(self.pairs, 1)
        return f"{share:.1f} %" if 0 < share < 10 else f"{share:.0f} %"


HEAD = (
    "| | pairs | right at 4N | wrong | undecided | right at 16N | wrong | undecided | covered at 4N | at 16N | "
    "false toward | silent |\n|" + " --- |" * 12
)


def replicas_of(truth: np.ndarray, unit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Replicas of the true values ``[size]`` whose errors, relative to ``unit``, are half shared across sizes."""
    error = np.exp(rng.uniform(*np.log(ERRORS))) * unit
    shared, own = rng.standard_normal((1, REPLICAS)), rng.standard_normal((len(truth), REPLICAS))
    return truth[:, None] + error[:, None] * (shared + own) / np.sqrt(2)


def typical(law: Law, last: float, rng: np.random.Generator) -> float:
    """A bound that has nothing to do with the curve's course: up to half below or as much above where it is."""
    return float(law(np.array(last)) * 2 ** (rng.choice([-1, 1]) * rng.uniform(0.3, 1)))


def near(law: Law, last: float, rng: np.random.Generator) -> float:
    """A bound that the curve crosses, somewhere between 2N and 32N."""
    return float(law(np.array(last * 2 ** rng.uniform(1, 5))))


BOUNDS = {"typical bounds": typical, "bounds near the curve": near}
