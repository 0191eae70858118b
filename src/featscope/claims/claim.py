"""Claims, and the arithmetic of a verdict."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf, isfinite, nan, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from featscope.claims.intervals import interval_of_mean, quantile

Kind = Literal["identity", "bound", "ordering", "scaling"]
Relation = Literal["=", "<=", ">="]
Verdict = Literal["holds", "fails", "undecided"]

_UNLIKELY = 0.2  # chance that the spread is above what `Claim.replicas_needed` takes it for
_MOST = 3000  # replicas that anybody would run


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
        title: the statement in plain words, in a line.
        measures: what is measured, in plain words; empty if the statement says it.
        range: ends of what the measurement can be.
        values: the measurement of each replica; empty for a deterministic quantity.
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
    title: str = ""
    measures: str = ""
    range: tuple[float, float] = (-inf, inf)
    values: tuple[float, ...] = ()

    @classmethod
    def from_samples(
        cls, samples: ArrayLike | float, relation: Relation, predicted: float, tolerance: float = 0.0, **about: Any
    ) -> "Claim":
        """The claim that the mean of ``samples`` stands to ``predicted`` as ``relation`` says.

        Args:
            samples: one value a replica ``[replica]``, or a single number for a deterministic quantity.
            relation: "=", "<=" or ">=".
            predicted: the predicted value, or the bound.
            tolerance: half-width allowed around it for "=".
            **about: the other fields.
        """
        found = np.asarray(samples, dtype=np.float64)
        if found.ndim == 0:
            mean, interval, n, values = float(found), (float(found), float(found)), 1, ()
        else:
            mean, interval, n = float(found.mean()), interval_of_mean(found), found.size
            values = tuple(found.tolist())
        return cls(
            predicted=float(predicted),
            relation=relation,
            tolerance=tolerance,
            measured=mean,
            interval=interval,
            n=n,
            values=values,
            **about,
        )

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

    @property
    def replicas_needed(self) -> int | None:
        """About how many replicas decide it, if the mean stays and the spread is at its upper 80 % bound.

        Few replicas may look closer together than they are, hence the bound. As many as there are if it is decided;
        None if thousands would not do, or if nothing is known of the spread.
        """
        low, high = self.interval
        if self.verdict != "undecided":
            return self.n
        if self.n < 2 or not all(map(isfinite, (self.measured, low, high))):
            return None
        spread = (high - low) / 2 * sqrt(self.n) / quantile(self.n)
        spread *= sqrt((self.n - 1) / stats.chi2.ppf(_UNLIKELY, self.n - 1))
        edges = [self.predicted - self.tolerance, self.predicted + self.tolerance]
        gap = min(abs(self.measured - edge) for edge in (edges if self.relation == "=" else [self.predicted]))
        return next((n for n in range(self.n + 1, _MOST) if quantile(n) * spread / sqrt(n) <= gap), None)

    def to_json(self) -> dict[str, Any]:
        """The claim as it stands in ``claims.json``; numbers that are not finite become null."""
        plain = asdict(self) | {"verdict": self.verdict}
        for field in ("predicted", "measured", "tolerance"):
            plain[field] = _finite(plain[field])
        return plain | {name: [_finite(value) for value in plain[name]] for name in ("interval", "range", "values")}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Claim":
        """The claim that `to_json` wrote."""
        fields = {name: value for name, value in plain.items() if name != "verdict"}
        for field in ("predicted", "measured", "tolerance"):
            fields[field] = nan if fields[field] is None else fields[field]
        for field in {"interval", "range"} & fields.keys():
            low, high = fields[field]
            fields[field] = (-inf if low is None else low, inf if high is None else high)
        fields["values"] = tuple(nan if value is None else value for value in fields.get("values", ()))
        return cls(**fields)


def how_many_hold(claims: Sequence[Claim]) -> str:
    """How many of the claims that are expected to hold do, in a sentence; empty if there are none."""
    verdicts = [claim.verdict for claim in claims if claim.expected]
    return (
        f"{verdicts.count('holds')} of the {len(verdicts)} claims expected to hold at this size do." if claims else ""
    )


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
