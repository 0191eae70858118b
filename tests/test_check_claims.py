"""What a check finds in claims, beside what `test_check` has."""

import jaxtyping

from featscope.check import check
from featscope.claims import POSITIVE, SHARE, Found, bound, identity
from featscope.studies import Story, last
from test_check import Sound


def problems(study) -> list[str]:
    return list(check(study).problems)


class Foregone(Sound):
    """Claims whose verdict is known before anything is measured, and some of which it is not."""

    @bound("", on=("pulled", "other"), at_least=0.0, range=POSITIVE)
    def far(self, run):
        """It is far."""
        return last(run, run.distance)

    @bound("", on="pulled", at_least=1.0, law="yes/no")
    def always(self, run):
        """It is always near."""
        return (last(run, run.distance) < 9).astype(float)

    @bound("", on="pulled", at_least=1.5, range=SHARE, law="exact")
    def beyond(self, run):
        """It is beyond all."""
        return 1.0

    @bound("", on="pulled", at_least=1.0, range=SHARE, law="exact")
    def whole(self, run):
        """It is all there is."""
        return 1.0

    @identity("", on="pulled", relation="=")
    def right(self, run):
        """It is right."""
        return Found(run["error"], predicted=0.0, tolerance=0.0)


def test_a_verdict_that_is_known_before_is_told_once():
    found = problems(Foregone())
    assert found == [
        "the claim 'far' cannot fail: all that can be measured, 0 to inf, is >= 0",
        "the claim 'always' cannot hold: of what can be measured, 0 to 1, no interval is >= 1. Take another bound, or "
        'law="exact" where no chance enters',
        "the claim 'beyond' cannot hold: of what can be measured, 0 to 1, no interval is >= 1.5. Take another bound",
    ]


class WrongHeadlines(Sound):
    """Puts claims on the first screen that are judged elsewhere, or nowhere."""

    def story(self, runs, claims):
        return Story("Near.", headlines={"near@puled": "", "right@other": "", "near@other": "", "right@pulled": ""})


def test_headlines_of_arms_on_which_nothing_is_judged_are_named():
    assert problems(WrongHeadlines()) == [
        "the story's headlines have 'near@puled', and 'near' is not judged on 'puled': did you mean 'pulled'?",
        "the story's headlines have 'right@other', and 'right' is not judged on 'other': allowed is one of pulled",
    ]


class Unsure(Sound):
    """An arm on which a claim is expected to hold and not to, and one that forgets to say whether."""

    @bound("", on="pulled", not_on=("other", "pulled"), at_most=1.0)
    def near(self, run):
        """Near."""
        return last(run, run.distance)

    @identity("", on="pulled", equals=0.0, within=0.1, given=lambda study: None)
    def right(self, run):
        """It is right."""
        return run["error"]


def test_arms_of_which_it_is_not_clear_what_is_expected_are_named(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    unclear, unsaid = problems(Unsure())
    assert unclear.startswith("the claim 'near': ValueError: near names the arm 'pulled' in on and in not_on")
    assert unsaid.startswith("the claim 'right': TypeError: right: given is None: expected True or False")


class Numbered(Sound):
    """Calls a table by a number, which no run can read again."""

    @bound("", on=lambda study: {1: ""}, at_least=0.5, law="exact")
    def printed(self):
        """It is printed."""
        return 1.0


def test_a_claim_that_cannot_be_read_again_is_named(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    (line,) = problems(Numbered())
    assert line.startswith(
        "the claim 'printed' on 1 cannot be stored: claims.json: arm = 1 is out of range: allowed is"
    )
