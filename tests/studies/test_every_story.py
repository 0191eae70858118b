"""What a page says of a claim turns with its verdict, in every study; numbers and facts of the set-up may stay."""

from collections.abc import Sequence
from copy import copy
from functools import cache

import pytest
from one_step import EACH, one_step

from featscope.claims import Claim

FACTS = {
    ("attention-circuits", "learns-the-sum@five-inputs"),  # that it is one layer
    ("decoupling", "masking-finds-what-noise-hides@louder"),  # how many, which may be all or none
    ("grokking", "strengthens-if-only-k-grows@k=4-same-both"),  # what is compared
}
"""Headlines whose words are true whatever the verdict."""


def as_if(claim: Claim, verdict: str) -> Claim:
    """``claim`` as if its verdict were another."""
    found = copy(claim)
    object.__setattr__(found, "__class__", type("Told", (Claim,), {"verdict": verdict}))
    return found


@cache
def claims_of(name: str) -> Sequence[Claim]:
    study, runs = one_step(name)
    return study.claims(runs)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", EACH)
def test_words_about_a_claim_turn_with_its_verdict(name: str) -> None:
    study, runs = one_step(name)
    claims = claims_of(name)
    ids = {f"{claim.id}@{claim.arm}" for claim in claims}
    told = {
        verdict: study.story(runs, [as_if(claim, verdict) for claim in claims]).headlines
        for verdict in ("holds", "fails", "undecided")
    }
    said = {key for key, text in told["holds"].items() if text and not any(letter.isdigit() for letter in text)}
    said = {key for key in said if "unknown" not in told["holds"][key]}
    stay = {key for key in said & ids if told["holds"][key] == told["fails"].get(key)}
    assert stay == {key for study_name, key in FACTS if study_name == name}
    assert {key for key in said & ids if told["holds"][key] == told["undecided"].get(key)} <= stay
