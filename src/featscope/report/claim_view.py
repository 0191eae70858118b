"""How one claim reads on the page: tone, words, numbers, a small picture, and what would decide it."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal

from markupsafe import Markup

from featscope.claims import Claim, Law, not_after_holm
from featscope.report.numbers import chosen, decimals_apart, decimals_for, exact, number
from featscope.report.typeset import typeset

Tone = Literal["holds", "calm", "control", "undecided", "loud"]
TONES: Mapping[Tone, tuple[str, str, str]] = {  # the verdict in words; what is said of one such claim, and of several
    "holds": ("holds", "holds", "hold"),
    "calm": (
        "fails, as expected beforehand",
        "fails, as expected beforehand",
        "fail, as expected beforehand",
    ),
    "control": ("fails on a control, as it must", "fails on a control, as it must", "fail on a control, as they must"),
    "undecided": ("undecided", "undecided", "undecided"),
    "loud": ("fails, against expectation", "against expectation", "against expectation"),
}
NOT_AT_DEFAULTS: Mapping[Tone, tuple[str, str, str]] = {
    **TONES,
    "calm": ("fails", "fails where nothing was expected", "fail where nothing was expected"),
}
"""The same where options are not at their defaults, for which expectations were made."""
SO_FAR: Mapping[Tone, tuple[str, str, str]] = {**TONES, "calm": ("fails", "fails", "fail")}
"""The same of a run that is not done, at whose end things are expected."""
ORDER: Sequence[Tone] = ("holds", "calm", "control", "undecided", "loud")
_WANTED = {"=": "", "<=": "at most ", ">=": "at least ", "<": "less than ", ">": "more than "}
LAWS: Mapping[Law, str] = {
    "mean": "mean over replicas",
    "share": "share of things counted",
    "draws": "share of independent draws",
    "yes/no": "share of replicas",
    "extreme": "worst of all draws",
    "exact": "no chance enters",
}
"""What a measurement is, in words."""
_MANY = 0.8  # of what is undecided, for the one number that is said of all
_ROUNDING = 1e-6
_OF_BOUNDS = 1e-12  # the same for inequalities, where what is small may be what is told


@dataclass(frozen=True)
class View:
    """What the template shows of a claim.

    Attributes:
        key: its anchor.
        claim: the claim.
        arm: the arm's label.
        tone: how loud it is, and in which colour.
        verdict: the verdict in words.
        title, measures, statement, note: words, typeset.
        wanted: the bound or prediction, in words.
        measured, interval: numbers as people read them.
        glyph: accepted values, interval and mean as a small picture.
        decides: what would decide it, where it is undecided.
        more: about how many more replicas would.
        doubt: what Holm's correction would say of the verdict; empty if it would stay.
        exactly: the numbers with all their digits.
    """

    key: str
    claim: Claim
    arm: str
    tone: Tone
    verdict: str
    title: Markup
    measures: Markup
    statement: Markup
    note: Markup
    wanted: str
    measured: str
    interval: str
    glyph: Markup
    decides: str
    more: int | None
    doubt: str
    exactly: list[tuple[str, str]]


def views(
    claims: Sequence[Claim], labels: Mapping[str, str], controls: Collection[str], loud: bool = True
) -> list[View]:
    """All claims as the page shows them.

    Args:
        claims: in order.
        labels: arm -> two or three words.
        controls: arms on which claims must not hold.
        loud: whether what goes against expectation is; not at options for which nothing was expected.
    """
    lost = {(claim.id, claim.arm) for claim in not_after_holm(claims)}
    return [
        _view(f"c{i}", claim, labels, claim.arm in controls, loud, (claim.id, claim.arm) in lost)
        for i, claim in enumerate(claims, 1)
    ]


def _view(key: str, claim: Claim, labels: Mapping[str, str], control: bool, loud: bool, lost: bool) -> View:
    tone = tone_of(claim, control, loud)
    least, most = claim.within
    low, high = (_shown(claim, min(max(end, least), most)) for end in claim.interval)
    mean = _shown(claim, claim.measured)
    decimals = decimals_for(low, high)
    if decimals is not None and abs(mean) >= 0.01:
        decimals = min(decimals, 4)  # all digits stand under "exactly"
    accepted = claim.tolerance if claim.relation == "=" else None
    decimals, of_bound, of_tolerance = decimals_apart(claim.predicted, (low, mean, high), accepted, decimals)
    wanted = _WANTED[claim.relation] + chosen(claim.predicted, of_bound)
    if accepted is not None:
        wanted += f" ± {chosen(accepted, of_tolerance)}"
    sure = not claim.chance
    known, worst = isfinite(low) and isfinite(high), claim.law == "extreme"
    title = claim.title or claim.statement
    more = claim.replicas_needed - claim.n if tone == "undecided" and claim.replicas_needed else None
    return View(
        key=key,
        claim=claim,
        arm=labels.get(claim.arm, claim.arm),
        tone=tone,
        verdict=_verdict(claim, tone, loud),
        title=typeset(title),
        measures=typeset(claim.measures),
        statement=typeset(claim.statement if claim.statement != title else ""),
        note=typeset(claim.note),
        wanted=wanted,
        measured=number(mean, decimals) if isfinite(mean) else "nothing finite",
        interval="exact"
        if sure
        else _worst(claim)
        if worst
        else _ends(low, high, decimals, claim.interval[0] == claim.interval[1])
        if known
        else "no interval",
        glyph=_glyph(claim, low, high),
        decides=_decides(claim, more) if tone == "undecided" else "",
        more=more,
        doubt="Not after Holm's correction for so many claims." if lost else "",
        exactly=[
            ("measured", exact(claim.measured)),
            ("interval", "none: no chance enters" if sure else " to ".join(exact(end) for end in claim.interval)),
            ("predicted", exact(claim.predicted)),
            *([("tolerance", exact(claim.tolerance))] if claim.relation == "=" else []),
            ("measured as", LAWS[claim.law]),
            *([("counted", f"{sum(claim.trials):g}")] if claim.trials else []),
            ("replicas", str(claim.n)),
            ("kind", claim.kind),
            ("expected", "to hold" if claim.expected else "not to hold"),
        ],
    )


def _shown(claim: Claim, value: float) -> float:
    """``value``, or 0 where it is no more than rounding: of an equation, or beside a bound that is not large."""
    wanted = max(abs(claim.predicted), claim.tolerance)
    nothing = _ROUNDING * wanted if claim.relation == "=" else _OF_BOUNDS * min(wanted, 1.0)
    return 0.0 if abs(value) < nothing else value


def _verdict(claim: Claim, tone: Tone, loud: bool) -> str:
    if tone == "loud" and claim.verdict == "holds":
        return "holds, against expectation"
    return (TONES if loud else NOT_AT_DEFAULTS)[tone][0]


def tone_of(claim: Claim, control: bool, loud: bool = True) -> Tone:
    """Undecided is never a surprise; a failure is one only where the claim was expected to hold."""
    if claim.verdict == "undecided":
        return "undecided"
    if claim.verdict == "holds":
        return "holds" if claim.expected or not loud else "loud"
    if claim.expected and loud:
        return "loud"
    return "control" if control else "calm"


def _decides(claim: Claim, more: int | None) -> str:
    if more is not None and claim.law != "extreme":
        return f"About {more} more replica{'s' if more > 1 else ''} would decide."
    if claim.undecided_because.startswith("The interval"):
        return "It lies at the bound; more replicas are unlikely to decide."
    return claim.undecided_because


def outlook(shown: Sequence[View]) -> str:
    """How many more replicas would decide most of what is undecided."""
    undecided = [view for view in shown if view.tone == "undecided"]
    needed = sorted(view.more for view in undecided if view.more is not None)
    if not needed:
        return ""
    most = needed[max(1, int(_MANY * len(needed))) - 1]
    decided = sum(more <= most for more in needed)
    if 2 * decided < len(undecided):
        return ""  # what it would take for few says nothing of the run
    what = f"{decided} of the {len(undecided)} undecided" if decided < len(undecided) else "what is undecided"
    rough = " A rough guess: the spread is known from so few." if undecided[0].claim.n < 4 else ""
    several = "s (repetitions" if most > 1 else " (a repetition"
    return f"About {most} more replica{several} with other random numbers) would decide {what}.{rough}"


def grouped(shown: Sequence[View]) -> list[list[View]]:
    """Claims of one statement together, one case an arm; what is against expectation first."""
    groups: dict[str, list[View]] = {}
    for view in shown:
        groups.setdefault(view.claim.id, []).append(view)
    return sorted(groups.values(), key=lambda own: all(view.tone != "loud" for view in own))


def by_source(shown: Sequence[View]) -> list[tuple[str, list[View]]]:
    """All claims by where they are stated: theorems, corollaries, lemmas, the rest."""
    order = ("Theorem", "Corollar", "Lemma", "Fact", "Definition", "Hypothesis")
    groups: dict[str, list[View]] = {}
    for view in shown:
        groups.setdefault(view.claim.source, []).append(view)
    rank = {source: next((i for i, w in enumerate(order) if w in source), len(order)) for source in groups}
    return sorted(groups.items(), key=lambda group: (rank[group[0]], _by_numbers(group[0])))


def _by_numbers(source: str) -> list[str | int]:
    """What puts Lemma 9 before Lemma 10: words and numbers take turns."""
    parts = re.split(r"([0-9]+)", source)
    return [int(part) if place % 2 else part for place, part in enumerate(parts)]


def chosen_views(shown: Sequence[View], wanted: Sequence[str]) -> list[View]:
    """Those that ``wanted`` names, as "id" or "id@arm", in its order."""
    return [v for key in wanted for v in shown if key in (v.claim.id, f"{v.claim.id}@{v.claim.arm}")]


def _worst(claim: Claim) -> str:
    return f"the worst of {sum(claim.trials) or claim.n:g} draws"


def _ends(low: float, high: float, decimals: int | None, alike: bool) -> str:
    if alike:
        return "the same in every replica"
    return f"{number(low, decimals)} to {number(high, decimals)}" if low != high else number(low, decimals)


def _glyph(claim: Claim, low: float, high: float) -> Markup:
    """Accepted values as a band, the interval as a bar, the mean as a dot, in a box 160 wide and 22 high."""
    width, edge = 160.0, 8.0
    if not isfinite(claim.measured):
        return Markup("")
    finite = [value for value in (claim.predicted, claim.measured, low, high) if isfinite(value)]
    if claim.relation == "=" and claim.tolerance:
        start, end = claim.predicted - 2.5 * claim.tolerance, claim.predicted + 2.5 * claim.tolerance
    elif claim.within == (0.0, 1.0) and 0 <= claim.predicted <= 1:
        start, end = 0.0, 1.0
    else:
        air = 0.2 * (max(finite) - min(finite)) or 1.0
        start, end = min(finite) - air, max(finite) + air

    def at(value: float) -> float:
        share = (value - start) / (end - start)
        return round(min(width - edge, max(edge, edge + share * (width - 2 * edge))), 1)

    accepted = (at(claim.predicted - claim.tolerance), at(claim.predicted + claim.tolerance))
    if claim.relation != "=":
        below = claim.relation in ("<=", "<")
        accepted = (edge, at(claim.predicted)) if below else (at(claim.predicted), width - edge)
    x, beyond = at(claim.measured), not start <= claim.measured <= end
    sign = 1 if claim.measured > end else -1
    dot = (
        f'<path class="g-dot" d="M{x - 3 * sign},6l{7 * sign},5l{-7 * sign},5z"/>'
        if beyond
        else f'<circle class="g-dot" cx="{x}" cy="11" r="4"/>'
    )
    return Markup(
        f'<svg class="glyph" viewBox="0 0 160 22" aria-hidden="true">'
        f'<path class="g-axis" d="M{edge},11h{width - 2 * edge}"/>'
        f'<rect class="g-ok" x="{accepted[0]}" y="4" width="{max(2.0, accepted[1] - accepted[0])}" height="14" rx="2"/>'
        f'<path class="g-int" d="M{at(low)},11H{at(high)}"/>{dot}</svg>'
    )
