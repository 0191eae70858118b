"""Claims, and the arithmetic of a verdict."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import ceil, inf, isfinite, nan, sqrt
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import special

from featscope.claims.intervals import (
    COUNTED,
    LEVEL,
    PROBABILITIES,
    Law,
    all_alike,
    draws_for_extremes,
    go_together,
    interval,
    interval_if_repeated,
    pooled,
    quantile,
)
from featscope.claims.samples import require_of_law
from featscope.claims.soundness import Relation, holding, never, require_sound
from featscope.claims.summary import Summary, welch

Kind = Literal["identity", "bound", "ordering", "scaling"]
Verdict = Literal["holds", "fails", "undecided"]

_UNLIKELY = 0.2  # chance that the spread is above what `Claim.replicas_needed` takes it for
_MOST = 3000  # replicas that anybody would run
_SURE = 1e-9  # p-values are not looked for below


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
        measured: mean over replicas; over all things of a share, or all draws; the worst of an extreme and of what is
            exact.
        interval: confidence interval of ``measured`` by its law; both ends equal it where no chance enters.
        n: number of replicas, of both sides of a published difference; 1 for a single number, 0 if it is not known.
        expected: whether theory, read critically, expects the claim to hold at this size.
        note: reason of the tolerance, where paper and derivation differ, what else to know.
        title: the statement in plain words, in a line.
        measures: what is measured, in plain words; empty if the statement says it.
        range: ends of what the measurement can be.
        values: the measurement of each replica; empty for a single number.
        law: what the measurement is, which decides its interval.
        trials: things that each replica counted: those of a share, draws, those that an extreme or a mean is of.
        error: standard error of ``measured``, where nothing but it is known of the samples.
        freedom: degrees of freedom of ``error``, where they are not n - 1.
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
    law: Law = "mean"
    trials: tuple[float, ...] = ()
    error: float | None = None
    freedom: float | None = None

    @classmethod
    def from_samples(
        cls,
        samples: ArrayLike | float,
        relation: Relation,
        predicted: float,
        tolerance: float = 0.0,
        *,
        law: Law = "mean",
        trials: ArrayLike | Sequence[float] = (),
        range: tuple[float, float] = (-inf, inf),
        **about: Any,
    ) -> "Claim":
        """The claim that what ``samples`` measure stands to ``predicted`` as ``relation`` says.

        Args:
            samples: one value a replica ``[replica]``, or a single number where no chance enters.
            relation: "=", "<=", ">=", "<" or ">".
            predicted: the predicted value, or the bound.
            tolerance: half-width allowed around it for "=".
            law: what a sample is.
            trials: things that each replica counted ``[replica]``: those of a share and draws, which need them;
                independent draws of an extreme; those that a mean is over.
            range: ends of what a sample can be.
            **about: the other fields.

        Raises:
            ValueError: see `require_sound` and `require_of_law`.
        """
        tolerance, range = float(tolerance), (float(range[0]), float(range[1]))
        require_sound(relation, law, tolerance, range)
        found = np.asarray(samples, dtype=np.float64)
        counted = np.asarray(trials, dtype=np.float64)
        require_of_law(found, law, counted)
        single = found.ndim == 0
        found = np.atleast_1d(found)
        if law in PROBABILITIES:
            range = (0.0, 1.0)
        upwards = _upwards(found, relation, predicted)
        within = holding(range, found)
        ends = interval(found, law, trials=counted.tolist(), within=within, upwards=upwards)
        return cls(
            predicted=float(predicted),
            relation=relation,
            tolerance=tolerance,
            measured=_measured(found, law, counted, upwards),
            interval=ends,
            n=found.size,
            values=() if single else tuple(found.tolist()),
            law=law,
            trials=tuple(counted.tolist()),
            range=range,
            **about,
        )

    @classmethod
    def from_summary(
        cls,
        summary: Summary,
        relation: Relation,
        predicted: float,
        tolerance: float = 0.0,
        *,
        against: Summary | None = None,
        **about: Any,
    ) -> "Claim":
        """The claim that a mean, of which only the error is known, stands to ``predicted`` as ``relation`` says.

        Args:
            summary: mean, error and number of replicas. If that number is not known, the claim is undecided.
            relation: "=", "<=", ">=", "<" or ">".
            predicted: the predicted value, or the bound.
            tolerance: half-width allowed around it for "=".
            against: the mean of other replicas, which is taken off; degrees of freedom are those of `welch`. If
                either error is 0, nothing is known of that side's spread, and the claim is undecided.
            **about: the other fields.

        Raises:
            ValueError: see `require_sound`.
        """
        tolerance = float(tolerance)
        require_sound(relation, "mean", tolerance, (-inf, inf))
        sides = [side for side in (summary, against) if side is not None]
        known = all(side.n for side in sides)
        error = freedom = None
        if known:
            error, freedom = welch(summary, against) if against else (summary.standard_error, None)
            error = error if all(side.error > 0 for side in sides) else 0.0
        claim = cls(
            predicted=float(predicted),
            relation=relation,
            tolerance=tolerance,
            measured=summary.mean - (against.mean if against else 0.0),
            interval=(-inf, inf),
            n=sum(side.n or 0 for side in sides) if known else 0,
            error=error,
            freedom=freedom,
            **about,
        )
        return replace(claim, interval=claim._interval_at(LEVEL)) if known else claim

    @property
    def chance(self) -> bool:
        """Whether chance enters, so that the verdict may be wrong."""
        return self.law != "exact"

    @property
    def within(self) -> tuple[float, float]:
        """`range`, where what was measured lies in it; else none."""
        return holding(self.range, np.array([*self.values, self.measured]))

    @property
    def verdict(self) -> Verdict:
        """Whether the whole interval agrees, the whole interval disagrees, or neither."""
        return "undecided" if self.undecided_because else self._verdict_of(self.interval)

    @property
    def outside(self) -> float | None:
        """A measurement beyond the ends of what it can be, by more than rounding; None if there is none."""
        every = (*self.values, self.measured)
        return next((value for value in every if holding(self.range, np.array([value])) != self.range), None)

    @property
    def stands(self) -> bool:
        """Whether the measured value itself is as it should be, whatever its interval."""
        return isfinite(self.measured) and self._verdict_of((self.measured, self.measured)) == "holds"

    @property
    def undecided_because(self) -> str:
        """Why there is no verdict, in a sentence; empty where there is one."""
        if 0 < (lost := sum(not isfinite(value) for value in self.values)) < self.n:
            return f"{lost} of {self.n} replicas measured nothing finite, and the others are a selection."
        if not isfinite(self.measured):
            return "Nothing finite was measured; more replicas will not help."
        if not isfinite(self.predicted):
            return "What is predicted is not finite."
        if self.relation == "=" and not isfinite(self.tolerance):
            return "What is accepted around the prediction is not finite."
        if (outside := self.outside) is not None and self._verdict_of(self.interval) == "holds":
            low, high = self.range
            return f"It measured {outside:.6g}, outside of what it can be, {low:g} to {high:g}."
        if self.n == 0:
            return "How many replicas it is the mean of is not known."
        if self.error == 0:
            return "The error is 0 as it is given: nothing is known of how much replicas differ."
        if self.law == "mean" and len(self.values) > 1 and self.interval[0] == self.interval[1]:
            return "Every replica measured the same: nothing is known of how much they differ."
        if self._verdict_of(self.interval) != "undecided":
            return ""
        if never(self.relation, self.predicted, self.tolerance, self.law, self.range) == "hold":
            return "It can fail and not hold: it accepts a single value, and an interval over replicas has a width."
        if not all(map(isfinite, self.trials)):
            return "How many things some replica counted is not known."
        if self.law == "extreme":
            draws = int(sum(self.trials)) or self.n
            return f"No exception in {draws} draws; {draws_for_extremes()} without one would decide."
        if self.n < 2 and self.law not in ("draws", "exact"):
            return "One replica gives no interval; a few more would."
        if self.law in COUNTED and min(self.trials, default=1) == 0:
            return "Some replica had nothing to count."
        if self._together:
            return "Replicas differ by more than independent draws do; draws of one are taken to go together."
        return "The interval has values on both sides of the bound."

    def _verdict_of(self, ends: tuple[float, float]) -> Verdict:
        return verdict_of(ends, self.relation, self.predicted, self.tolerance)

    def _interval_at(self, level: float) -> tuple[float, float]:
        if self.error is not None:
            half = quantile(1 + self._freedom, level) * self.error
            return self.measured - half, self.measured + half
        values = np.array(self.values)
        upwards = _upwards(values, self.relation, self.predicted)
        return interval(values, self.law, trials=self.trials, within=self.within, upwards=upwards, level=level)

    @property
    def _together(self) -> bool:
        """Whether it is of draws that should be independent, and replicas differ by more than those do."""
        several = self.law == "draws" and self.n > 1
        return several and go_together(np.array(self.values), np.array(self.trials))

    @property
    def _freedom(self) -> float:
        return self.n - 1 if self.freedom is None else self.freedom

    @cached_property
    def p_value(self) -> float:
        """The smallest 1 - level at which an interval still gives this verdict; 1 if undecided, 0 without chance."""
        verdict = self.verdict
        if verdict == "undecided":
            return 1.0
        if (
            not self.chance
            or (not self.values and self.error is None)
            or (verdict == "fails" and self.law == "extreme")
        ):
            return 0.0
        low, high = _SURE, 1 - LEVEL
        if self._verdict_of(self._interval_at(1 - low)) == verdict:
            return low
        while high / low > 1.01:
            middle = sqrt(low * high)
            if self._verdict_of(self._interval_at(1 - middle)) == verdict:
                high = middle
            else:
                low = middle
        return high

    @property
    def replicas_needed(self) -> int | None:
        """About how many replicas decide it, if the mean stays and the spread is at its upper 80 % bound.

        Few replicas may look closer together than they are, hence the bound. As many as there are if it is decided;
        None if thousands would not do, if nothing is known of the spread, or if no more of them would decide it, as
        where a measurement lies outside of what it can be.
        """
        if self.verdict != "undecided":
            return self.n
        if not all(map(isfinite, (*self.trials, self.predicted, self.tolerance))):
            return None
        if self.outside is not None and self.stands:  # it never holds
            return None
        if self.law == "extreme" and isfinite(self.measured):
            each = sum(self.trials) / self.n or 1
            return ceil(draws_for_extremes() / each)
        known = all(map(isfinite, (self.measured, *self.interval)))
        if not known or self.law == "exact" or (self.n < 2 and self.law != "draws"):
            return None
        if (self.law in PROBABILITIES and not self.values) or self.interval[0] == self.interval[1]:
            return None

        def decided(n: int) -> bool:
            values, trials = np.array(self.values), np.array(self.trials)
            return self._verdict_of(interval_if_repeated(values, self.law, n, trials, self.within)) != "undecided"

        def narrow(n: int) -> bool:
            return quantile(1 + each * (n - 1)) * spread / sqrt(n) <= gap

        more = range(self.n + 1, _MOST)
        if self.law in PROBABILITIES or (self.trials and all_alike(np.array(self.values))):
            place = bisect_left(more, True, key=decided)
        else:
            each = self._freedom / (self.n - 1)  # degrees of freedom that a replica brings
            error = float(np.std(self.values, ddof=1)) / sqrt(self.n) if self.error is None else self.error
            spread = error * sqrt(self.n * self._freedom / (2 * special.gammaincinv(self._freedom / 2, _UNLIKELY)))
            edges = {self.predicted - self.tolerance, self.predicted + self.tolerance}
            gap = min(abs(self.measured - edge) for edge in (edges if self.relation == "=" else [self.predicted]))
            place = bisect_left(more, True, key=lambda n: narrow(n) and (not self.values or decided(n)))
        return more[place] if place < len(more) else None

    def to_json(self) -> dict[str, Any]:
        """The claim as it stands in ``claims.json``; numbers that are not finite become null."""
        plain = asdict(self) | {"verdict": self.verdict}
        for field in ("predicted", "measured", "tolerance"):
            plain[field] = _finite(plain[field])
        several = ("interval", "range", "values", "trials")
        return plain | {name: [_finite(value) for value in plain[name]] for name in several}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Claim":
        """The claim that `to_json` wrote."""
        fields = {name: value for name, value in plain.items() if name != "verdict"}
        for field in ("predicted", "measured", "tolerance"):
            fields[field] = nan if fields[field] is None else fields[field]
        for field in {"interval", "range"} & fields.keys():
            low, high = fields[field]
            fields[field] = (-inf if low is None else low, inf if high is None else high)
        for field in ("values", "trials"):
            fields[field] = tuple(nan if value is None else value for value in fields.get(field, ()))
        return cls(**fields)


def verdict_of(ends: tuple[float, float], relation: Relation, bound: float, room: float = 0.0) -> Verdict:
    """Whether all from one end to the other agrees with the bound, all disagrees, or neither."""
    low, high = ends
    holds, fails = {
        "=": (bound - room <= low and high <= bound + room, high < bound - room or low > bound + room),
        "<=": (high <= bound, low > bound),
        ">=": (low >= bound, high < bound),
        "<": (high < bound, low >= bound),
        ">": (low > bound, high <= bound),
    }[relation]
    return "holds" if holds else "fails" if fails else "undecided"


def _upwards(values: Float[np.ndarray, " n"], relation: Relation, predicted: float) -> bool:
    """Whether the worst of ``values`` is the largest; for an equation, the farther end from what is predicted."""
    if not (np.isfinite(values).all() and isfinite(predicted)):
        return True
    if relation == "=":
        return bool(values.max() - predicted >= predicted - values.min())
    return relation in ("<=", "<")


def _measured(values: Float[np.ndarray, " n"], law: Law, trials: Float[np.ndarray, " counted"], upwards: bool) -> float:
    if law in ("extreme", "exact"):
        return float(values.max() if upwards else values.min())
    return pooled(values, trials) if law in COUNTED and (trials > 0).all() else float(values.mean())


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
