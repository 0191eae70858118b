"""The verdict table's words, numbers and small pictures."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal, NamedTuple

from featscope.claims import LEVEL, Claim
from featscope.report.numbers import chosen, decimals_for, exact, interval, number

Tone = Literal["holds", "fails", "as-expected", "undecided"]

LEVEL_TEXT = f"{100 * LEVEL:.3g} %"
_RELATION = {"=": "=", "<=": "≤", ">=": "≥"}
_SYMBOL = {"holds": "✓", "fails": "✗", "undecided": "?"}


class Count(NamedTuple):
    """How many claims came out in one way."""

    number: int
    words: str
    tone: Tone


class Glyph(NamedTuple):
    """Interval against accepted values, in a box 140 wide; a length of None is not drawn."""

    accepted: tuple[float, float]
    low: float
    high: float
    measured: float | None
    predicted: float


@dataclass(frozen=True)
class ClaimRow:
    """One claim as the table shows it. Texts only; `tone` chooses the colour."""

    key: str
    claim: Claim
    control: bool
    symbol: str
    tone: Tone
    remark: str
    unexpected: bool
    expected: str
    predicted: str
    measured: str
    interval: str
    interval_note: str
    reason: str
    exactly: list[tuple[str, str]]
    glyph: Glyph


def rows(claims: Sequence[Claim], controls: Collection[str]) -> list[ClaimRow]:
    """The table's rows, in the order given."""
    return [_row(f"claim-{i + 1}", claim, claim.arm in controls) for i, claim in enumerate(claims)]


def unexpected(claim: Claim) -> bool:
    """Whether a claim that should hold does not, or one that should not does."""
    return claim.expected != (claim.verdict == "holds")


def tally(claims: Sequence[Claim], controls: Collection[str]) -> list[Count]:
    """How many claims hold, fail and are undecided, those against expectation apart; only what occurs."""
    kinds: dict[str, tuple[str, str, Tone]] = {
        "holds": ("holds", "hold", "holds"),
        "fails, as expected": ("fails as expected", "fail as expected", "as-expected"),
        "fails, as it must": (
            "fails on a control, as it must",
            "fail on a control, as they must",
            "as-expected",
        ),
        "undecided": ("undecided", "undecided", "undecided"),
        "fails": ("fails unexpectedly", "fail unexpectedly", "fails"),
        "holds, unexpected": ("holds unexpectedly", "hold unexpectedly", "fails"),
    }
    counts = Counter(_kind(claim, claim.arm in controls) for claim in claims)
    return [
        Count(counts[k], one if counts[k] == 1 else many, tone) for k, (one, many, tone) in kinds.items() if counts[k]
    ]


def _kind(claim: Claim, control: bool) -> str:
    if claim.verdict == "fails" and not claim.expected:
        return "fails, as it must" if control else "fails, as expected"
    if claim.verdict == "holds" and not claim.expected:
        return "holds, unexpected"
    return claim.verdict


def _row(key: str, claim: Claim, control: bool) -> ClaimRow:
    low, high = claim.interval
    kind = _kind(claim, control)
    remarks = {
        "fails, as it must": "as it must",
        "fails, as expected": "as expected",
        "fails": "unexpected: should hold",
        "holds, unexpected": "unexpected: must not hold here" if control else "unexpected",
        "undecided": "unexpected: should hold" if claim.expected else "",
    }
    tones: dict[str, Tone] = {
        "holds, unexpected": "fails",
        "fails, as it must": "as-expected",
        "fails, as expected": "as-expected",
    }
    tone: Tone = tones.get(kind) or claim.verdict
    decimals = decimals_for(low, high)
    sure = low == high and claim.n == 1
    predicted = f"{_RELATION[claim.relation]} {chosen(claim.predicted, decimals)}"
    if claim.relation == "=" and claim.tolerance:
        predicted += f" ± {chosen(claim.tolerance)}"
    return ClaimRow(
        key=key,
        claim=claim,
        control=control,
        symbol=_SYMBOL[claim.verdict],
        tone=tone,
        remark=remarks.get(kind, ""),
        unexpected=unexpected(claim),
        expected="to hold" if claim.expected else "to fail",
        predicted=predicted,
        measured=number(claim.measured, decimals),
        interval="exact" if sure else interval(low, high) if isfinite(low) or isfinite(high) else "unbounded",
        interval_note="deterministic" if sure else f"n = {claim.n}",
        reason=_reason(claim),
        exactly=_exactly(claim, sure),
        glyph=_glyph(claim),
    )


def _accepted(claim: Claim) -> str:
    if claim.relation == "=":
        return f"{chosen(claim.predicted)} ± {chosen(claim.tolerance)}"
    return f"values {_RELATION[claim.relation]} {chosen(claim.predicted)}"


def _reason(claim: Claim) -> str:
    """Why the verdict is what it is."""
    low, high = claim.interval
    if not isfinite(claim.measured):
        return "Nothing finite was measured, so the claim is undecided."
    subject = "The value" if low == high and claim.n == 1 else f"The whole {LEVEL_TEXT} interval"
    if claim.verdict == "holds":
        return f"{subject} agrees with {_accepted(claim)}."
    if claim.verdict == "fails":
        return f"{subject} lies outside {_accepted(claim)}."
    if not (isfinite(low) and isfinite(high)):
        return "One replica gives no interval, so the claim is undecided: run more replicas."
    return f"The interval lies partly inside and partly outside {_accepted(claim)}; more replicas narrow it."


def _exactly(claim: Claim, sure: bool) -> list[tuple[str, str]]:
    """The numbers with all their digits."""
    low, high = (exact(end) for end in claim.interval)
    shown = [("predicted", f"{_RELATION[claim.relation]} {exact(claim.predicted)}")]
    if claim.relation == "=":
        shown.append(("tolerance", f"± {exact(claim.tolerance)}"))
    shown += [
        ("measured", exact(claim.measured)),
        (
            "interval",
            "none: the quantity is deterministic" if sure else f"[{low}, {high}] at {LEVEL_TEXT}",
        ),
        ("replicas", "1, deterministic" if sure else str(claim.n)),
        ("expected", "to hold" if claim.expected else "to fail"),
        ("kind", claim.kind),
    ]
    return shown


def _glyph(claim: Claim) -> Glyph:
    width, edge = 140.0, 6.0
    low, high = claim.interval
    near = [claim.predicted, claim.measured, low, high]
    if claim.relation == "=":
        near += [claim.predicted - claim.tolerance, claim.predicted + claim.tolerance]
    finite = [v for v in near if isfinite(v)] or [0.0]
    start, end = min(finite), max(finite)
    air = 0.18 * (end - start) or 1.0
    start, end = start - air, end + air

    def place(value: float) -> float:
        return min(width, max(0.0, edge + (value - start) / (end - start) * (width - 2 * edge)))

    predicted = place(claim.predicted) if isfinite(claim.predicted) else width / 2
    if claim.relation == "=":
        accepted = place(claim.predicted - claim.tolerance), place(claim.predicted + claim.tolerance)
    else:
        accepted = (0.0, predicted) if claim.relation == "<=" else (predicted, width)
    centre = place(claim.measured) if isfinite(claim.measured) else None
    return Glyph(accepted, place(low), place(high), centre, predicted)
