"""What a ladder says of larger sizes."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from featscope.claims.claim import Relation, Verdict, verdict_of

FEWEST_SIZES = 6
SURPRISED = 2.5  # standard errors by which the backtest may miss
LEVEL = 0.95  # share of curves on one side of a bound that decides, so that intervals have nine tenths of them
TOWARD, AWAY = 0.998, 0.975  # share of curves that must agree; to say "toward" wrongly is worse


class Foretold(NamedTuple):
    """What is foretold of one size.

    Attributes:
        size: the size.
        verdict: whether the whole interval agrees, the whole interval disagrees, or neither.
        probability: share of the curves on which the statement holds.
        interval: of the measurement's mean: 5 % of the curves lie below, 5 % above.
    """

    size: float
    verdict: Verdict
    probability: float
    interval: tuple[float, float]


class Direction(NamedTuple):
    """Whether a measurement moves to where its statement holds, and up to which size that is said.

    Attributes:
        word: "toward", "away" or "cannot be told".
        up_to: the largest size that it is said of; never the limit.
    """

    word: Literal["toward", "away", "cannot be told"]
    up_to: float


class Crossing(NamedTuple):
    """The first size beyond the ladder at which the statement turns true or false; infinite beyond the last foretold.

    Attributes:
        median: half of the curves have crossed there.
        interval: 90 % interval.
    """

    median: float
    interval: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Trend:
    """Curves drawn from all laws by weight, beside a prediction. Probabilities are shares of the curves.

    Attributes:
        sizes: where the curves are, from the ladder's largest size on ``[point]``.
        curves: the measurement's mean ``[draw, point]``.
        relation: how the measurement should stand to the prediction.
        predicted: the predicted value, or the bound.
        tolerance: half-width allowed around it for "=".
        families: weight of each family of laws.
        surprise: standard errors from the largest size to what all but the last two sizes foretold of it.
        unseen: why nothing can be foretold whatever laws say; empty if something can.
    """

    sizes: Float[np.ndarray, " point"]
    curves: Float[np.ndarray, "draw point"]
    relation: Relation
    predicted: float
    tolerance: float
    families: dict[str, float]
    surprise: float
    unseen: str = ""

    @property
    def silent(self) -> str:
        """Why nothing is said of larger sizes; empty if something is."""
        if self.unseen or self.surprise <= SURPRISED:
            return self.unseen
        return f"the largest size was {self.surprise:.1f} standard errors from what the smaller ones foretold"

    @property
    def room(self) -> Float[np.ndarray, "draw point"]:
        """How far the curves are inside of the bound; negative where the statement fails."""
        if self.relation == "=":
            return self.tolerance - np.abs(self.curves - self.predicted)
        return self.predicted - self.curves if self.relation in ("<=", "<") else self.curves - self.predicted

    @property
    def holds(self) -> Bool[np.ndarray, "draw point"]:
        """Where the statement holds on the curves, which a strict one does not at its bound."""
        return self.room > 0 if self.relation in ("<", ">") else self.room >= 0

    def band(self) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, " point"], Float[np.ndarray, " point"]]:
        """Median of the curves at each size, and the ends of their 90 % interval."""
        low, middle, high = np.quantile(self.curves, [1 - LEVEL, 0.5, LEVEL], axis=0)
        return middle, low, high

    def at(self, factor: float) -> Foretold:
        """What is foretold at ``factor`` times the ladder's largest size, or the nearest size that was drawn."""
        place = self._place(factor)
        probability = float(self.holds[:, place].mean())
        _, low, high = self.band()
        ends = float(low[place]), float(high[place])
        verdict = "undecided" if self.silent else verdict_of(ends, self.relation, self.predicted, self.tolerance)
        return Foretold(float(self.sizes[place]), verdict, probability, ends)

    def direction(self, factor: float = 16.0) -> Direction:
        """Where it moves from the largest size to ``factor`` times that; the last quarter of the way must agree."""
        room, last = self.room, self._place(factor)
        whole, late = room[:, last] - room[:, 0], room[:, last] - room[:, last - max(last // 4, 1)]
        up_to = float(self.sizes[last])
        if not self.silent and min((whole > 0).mean(), (late > 0).mean()) >= TOWARD:
            return Direction("toward", up_to)
        if not self.silent and min((whole < 0).mean(), (late < 0).mean()) >= AWAY:
            return Direction("away", up_to)
        return Direction("cannot be told", up_to)

    def crossing(self) -> Crossing | None:
        """Where the verdict changes; None where nothing is said."""
        if self.silent:
            return None
        changed = self.holds != (self.holds[:, 0].mean() >= 0.5)
        first = np.where(changed.any(axis=1), self.sizes[changed.argmax(axis=1)], np.inf)
        low, middle, high = np.quantile(first, [1 - LEVEL, 0.5, LEVEL], method="nearest")
        return Crossing(float(middle), (float(low), float(high)))

    def _place(self, factor: float) -> int:
        return int(np.abs(np.log(self.sizes / (self.sizes[0] * factor))).argmin())
