"""Many verdicts together: how many hold, how many are wrong by chance, which would survive a correction for that."""

from collections.abc import Sequence
from math import isfinite

from featscope.claims.claim import Claim
from featscope.claims.intervals import LEVEL

FEWEST = 4
"""Replicas below which little can be decided: the interval of two is fifteen times as wide as that of four."""
_HUNDREDTH = 0.01


def how_many_hold(claims: Sequence[Claim]) -> str:
    """How many of the claims that are expected to hold do, and how many lack a number, in a sentence or two.

    Empty if there are none.
    """
    expected = [claim for claim in claims if claim.expected]
    if not expected:
        return "No claim is expected to hold at this size." if claims else ""
    hold = sum(claim.verdict == "holds" for claim in expected)
    silent = sum(not isfinite(claim.measured) for claim in expected)
    found = f"{hold} of the {len(expected)} claims expected to hold at this size do."
    return found + (f" {silent} cannot be judged: some replica, or all, measured nothing finite." if silent else "")


def false_expected(claims: Sequence[Claim]) -> float:
    """At most so many false verdicts are to be expected among ``claims``, where intervals keep their level.

    A claim that lies at its bound is decided wrongly where the interval misses on one of its two sides; on its only one
    for an extreme, whose interval ends in the bad direction alone, and on either for an equation that accepts a single
    value. Claims share replicas, so wrong ones may come together; the number expected is the same.
    """

    def whole(claim: Claim) -> bool:
        return claim.law == "extreme" or (claim.relation == "=" and claim.tolerance == 0)

    return sum((1 - LEVEL) / (1 if whole(claim) else 2) for claim in claims if claim.chance)


def not_after_holm(claims: Sequence[Claim]) -> list[Claim]:
    """Verdicts that Holm's correction takes back: with it no verdict of all is wrong, at the level of one interval.

    Every claim that was judged and into which chance enters counts, those that stayed undecided too: to count the
    decided ones alone would be a selection.
    """
    ranked = sorted((claim for claim in claims if claim.chance), key=lambda claim: claim.p_value)
    for place, claim in enumerate(ranked):
        if claim.p_value > (1 - LEVEL) / (len(ranked) - place):
            return [claim for claim in ranked[place:] if claim.verdict != "undecided"]
    return []


def worth(claims: Sequence[Claim]) -> str:
    """How far the verdicts can be trusted, in a sentence or two; empty where no chance enters."""
    by_chance = [claim for claim in claims if claim.chance]
    if not by_chance:
        return ""
    replicas = max(claim.n for claim in by_chance)
    by_replica = [claim for claim in by_chance if claim.law != "draws"]
    if not replicas:
        return f"How many replicas there were is not known of any of the {len(by_chance)} claims: none is decided."
    if replicas < FEWEST and by_replica:
        few = "One replica decides nothing" if replicas == 1 else f"{replicas} replicas decide little"
        few += f" where chance enters, in {len(by_replica)} of the {len(claims)} claims: take {FEWEST} at least."
        drawn = len(by_chance) - len(by_replica)
        return few + (f" Independent draws, in {drawn} more, need no more of them." if drawn else "")
    expected, lost = false_expected(by_chance), len(not_after_holm(by_chance))
    decided = sum(claim.verdict != "undecided" for claim in by_chance)
    number = f"{expected:.1f}" if expected >= 0.1 else f"{expected:.2f}"
    said = f"Chance enters into {len(by_chance)} claims: at most about {number} false verdicts are to be expected."
    if lost:
        said += f" Of the {decided} that are decided, {lost} would not survive Holm's correction for so many."
    if shown := [claim for claim in by_chance if _agree(claim)]:
        unseen = 1 - ((1 - LEVEL) / 2) ** (1 / min(claim.n for claim in shown))
        said += (
            f" In {len(shown)} of the shares all replicas agree to a hundredth: that of all replicas up to "
            f"{unseen:.0%} are otherwise as a whole is not excluded."
        )
    return said


def _agree(claim: Claim) -> bool:
    """Whether it is of a share that was decided, and is the same in all replicas to a hundredth."""
    several = claim.law == "share" and claim.verdict != "undecided" and len(claim.values) > 1
    return several and max(claim.values) - min(claim.values) < _HUNDREDTH
