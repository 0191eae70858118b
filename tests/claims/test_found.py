"""What a claim's method may say beside its measurement, and claims about what is not run."""

from types import SimpleNamespace

import pytest

from featscope.claims import Found, bound, ordering, statement


class Study:
    """Two claims: one of a run, one of a table."""

    @ordering("Figure 1", on=("small", "large"), at_least=0.0, because="Bound: none.")
    def grows(self, run, arm):
        """It grows. Measured: by how much."""
        return Found(run.gain, f"On {arm}.", expected=run.size > 10) if run.gain else None

    @bound("Table 1", on=("Table 1", "Table 2"), at_most=0.5)
    def table_is_right(self, arm):
        """The table adds up. Measured: the largest error."""
        return {"Table 1": 0.25, "Table 2": 1.0}[arm]


def run(gain: float, size: int) -> SimpleNamespace:
    return SimpleNamespace(gain=gain, size=size)


def claims_of(**runs: SimpleNamespace) -> dict:
    return {(c.id, c.arm): c for test in statement.tests_of(Study) for c in test.claims(Study(), runs)}


def test_the_run_may_say_whether_a_claim_is_expected():
    claims = claims_of(small=run(1.0, 5), large=run(2.0, 50))
    assert {arm: claims["grows", arm].expected for arm in ("small", "large")} == {"small": False, "large": True}
    assert claims["grows", "small"].note == "Bound: none. On small."


def test_nothing_is_claimed_of_what_was_not_run_or_not_measured():
    assert [key for key in claims_of(small=run(0.0, 5)) if key[0] == "grows"] == []


@pytest.mark.parametrize(("table", "verdict"), [("Table 1", "holds"), ("Table 2", "fails")])
def test_a_claim_that_asks_for_no_run_is_of_whatever_it_names(table, verdict):
    claim = claims_of()["table-is-right", table]
    assert (claim.verdict, claim.n, claim.expected) == (verdict, 1, True)
