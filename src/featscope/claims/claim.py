"""A claim, and the arithmetic of its verdict."""

from dataclasses import asdict, dataclass
from math import inf, isfinite
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from featscope.claims.intervals import LEVEL, interval_of_mean

Kind = Literal["identity", "bound", "ordering", "scaling"]
Relation = Literal["=", "<=", ">="]
Verdict = Literal["holds", "fails", "undecided"]


@dataclass(frozen=True)
class Claim:
    """One statement of a theory at the size that was run.

    Attributes:
        id: short name, unique together with ``arm``.
        source: where the statement is made (theorem, lemma, figure).
        statement: the statement, in one or two sentences.
        kind: "identity" (an equation), "bound", "ordering" (of two measurements) or "scaling" (an exponent).
        arm: the arm it was measured on.
        predicted: the predicted value, or the bound.
        relation: how the measurement should stand to the prediction.
        tolerance: half-width allowed around ``predicted`` for "="; its reason stands in ``note``.
        measured: mean over replicas.
        interval: confidence interval of ``measured``; both ends equal it for a deterministic quantity.
        n: number of replicas, 1 for a deterministic quantity.
        expected: whether theory, read critically, expects the claim to hold at this size.
        note: reason of the tolerance, where paper and derivation differ, what else to know.
    """

    id: str
    source: str
    statement: str
    kind: Kind
    arm: str
    predicted: float
    relation: Relation
    tolerance: float
    measured: float
    interval: tuple[float, float]
    n: int
    expected: bool = True
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        """Whether the whole interval agrees, the whole interval disagrees, or neither."""
        low, high = self.interval
        if not isfinite(self.measured):
            return "undecided"
        if self.relation == "=":
            lowest, highest = self.predicted - self.tolerance, self.predicted + self.tolerance
        elif self.relation == "<=":
            lowest, highest = -inf, self.predicted
        else:
            lowest, highest = self.predicted, inf
        if lowest <= low and high <= highest:
            return "holds"
        if high < lowest or low > highest:
            return "fails"
        return "undecided"

    def to_json(self) -> dict[str, Any]:
        """The claim as it stands in ``claims.json``; numbers that are not finite become null."""
        plain = asdict(self) | {"verdict": self.verdict, "interval": list(self.interval)}
        plain["interval"] = [end if isfinite(end) else None for end in self.interval]
        for field in ("predicted", "measured", "tolerance"):
            plain[field] = plain[field] if isfinite(plain[field]) else None
        return plain

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Claim":
        """The claim that `to_json` wrote."""
        fields = {name: value for name, value in plain.items() if name != "verdict"}
        for field in ("predicted", "measured", "tolerance"):
            fields[field] = float("nan") if fields[field] is None else fields[field]
        low, high = fields["interval"]
        fields["interval"] = (-inf if low is None else low, inf if high is None else high)
        return cls(**fields)


def _claim(
    relation: Relation,
    id: str,
    source: str,
    statement: str,
    measured: ArrayLike,
    predicted: float,
    *,
    arm: str,
    kind: Kind,
    tolerance: float = 0.0,
    expected: bool = True,
    note: str = "",
    level: float = LEVEL,
) -> Claim:
    samples = np.asarray(measured, dtype=np.float64)
    if samples.ndim == 0:
        mean, interval, n = float(samples), (float(samples), float(samples)), 1
    else:
        mean, interval, n = float(samples.mean()), interval_of_mean(samples, level), samples.size
    return Claim(
        id, source, statement, kind, arm, float(predicted), relation, tolerance, mean, interval, n, expected, note
    )


def equals(
    id: str,
    source: str,
    statement: str,
    measured: ArrayLike,
    predicted: float,
    *,
    arm: str,
    tolerance: float,
    kind: Kind = "identity",
    expected: bool = True,
    note: str = "",
    level: float = LEVEL,
) -> Claim:
    """The claim that ``measured`` is ``predicted`` up to ``tolerance``.

    ``measured`` is one value a replica, or a single number for a deterministic quantity.
    """
    return _claim(
        "=", id, source, statement, measured, predicted,
        arm=arm, kind=kind, tolerance=tolerance, expected=expected, note=note, level=level,
    )  # fmt: skip


def at_least(
    id: str,
    source: str,
    statement: str,
    measured: ArrayLike,
    bound: float,
    *,
    arm: str,
    kind: Kind = "bound",
    expected: bool = True,
    note: str = "",
    level: float = LEVEL,
) -> Claim:
    """The claim that ``measured`` (one value a replica, or a single number) is at least ``bound``."""
    return _claim(
        ">=", id, source, statement, measured, bound, arm=arm, kind=kind, expected=expected, note=note, level=level
    )


def at_most(
    id: str,
    source: str,
    statement: str,
    measured: ArrayLike,
    bound: float,
    *,
    arm: str,
    kind: Kind = "bound",
    expected: bool = True,
    note: str = "",
    level: float = LEVEL,
) -> Claim:
    """The claim that ``measured`` (one value a replica, or a single number) is at most ``bound``."""
    return _claim(
        "<=", id, source, statement, measured, bound, arm=arm, kind=kind, expected=expected, note=note, level=level
    )
