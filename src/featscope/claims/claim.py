"""Statements of theories, claims about them, and the arithmetic of a verdict."""

from dataclasses import asdict, dataclass
from math import inf, isfinite
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from featscope.claims.intervals import interval_of_mean

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


@dataclass(frozen=True)
class Statement:
    """What a theory says, before anything is measured. Its methods put it to the test.

    ``measured`` is one value a replica ``[replica]``, or a single number for a deterministic quantity.

    Attributes:
        id: short name.
        source: where it is made (theorem, lemma, figure).
        text: the statement, in one or two sentences.
        kind: "identity" (an equation), "bound", "ordering" (of two measurements) or "scaling" (an exponent).
        expected: whether theory, read critically, expects it to hold at the default size.
        note: where paper and derivation differ, what else to know.
    """

    id: str
    source: str
    text: str
    kind: Kind
    expected: bool = True
    note: str = ""

    def equals(
        self,
        measured: ArrayLike | float,
        predicted: float,
        tolerance: float,
        *,
        arm: str,
        why: str,
        expected: bool | None = None,
    ) -> Claim:
        """The claim that ``measured`` is ``predicted`` up to ``tolerance``, for the reason ``why``."""
        return self._claim("=", measured, predicted, tolerance, arm, why, expected)

    def at_least(
        self, measured: ArrayLike | float, bound: float, *, arm: str, why: str = "", expected: bool | None = None
    ) -> Claim:
        """The claim that ``measured`` is at least ``bound``; ``why`` says where the bound comes from."""
        return self._claim(">=", measured, bound, 0.0, arm, why, expected)

    def at_most(
        self, measured: ArrayLike | float, bound: float, *, arm: str, why: str = "", expected: bool | None = None
    ) -> Claim:
        """The claim that ``measured`` is at most ``bound``; ``why`` says where the bound comes from."""
        return self._claim("<=", measured, bound, 0.0, arm, why, expected)

    def _claim(
        self,
        relation: Relation,
        measured: ArrayLike | float,
        predicted: float,
        tolerance: float,
        arm: str,
        why: str,
        expected: bool | None,
    ) -> Claim:
        samples = np.asarray(measured, dtype=np.float64)
        if samples.ndim == 0:
            mean, interval, n = float(samples), (float(samples), float(samples)), 1
        else:
            mean, interval, n = float(samples.mean()), interval_of_mean(samples), samples.size
        return Claim(
            id=self.id,
            source=self.source,
            statement=self.text,
            kind=self.kind,
            arm=arm,
            predicted=float(predicted),
            relation=relation,
            tolerance=tolerance,
            measured=mean,
            interval=interval,
            n=n,
            expected=self.expected if expected is None else expected,
            note=" ".join(part for part in (self.note, why) if part),
        )
