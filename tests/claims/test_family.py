"""Many verdicts together."""

import numpy as np
import pytest

from featscope.claims import LEVEL, Claim, false_expected, not_after_holm, worth


def claim(mean: float, replicas: int = 8, law: str = "mean", **more) -> Claim:
    """Around ``mean`` in standard errors, wanted above 0."""
    samples = np.linspace(-1, 1, replicas)
    samples = samples / (samples.std(ddof=1) if replicas > 1 else 1.0) * replicas**0.5 + mean
    about = {"id": f"{mean}", "source": "", "statement": "", "kind": "bound", "arm": "a", **more}
    return Claim.from_samples(samples, ">=", 0.0, law=law, **about)


def test_one_in_two_hundred_may_be_wrong_of_those_with_chance():
    claims = [claim(9.0)] * 40 + [claim(9.0, law="exact")] * 100
    assert false_expected(claims) == pytest.approx(40 * (1 - LEVEL) / 2)
    assert false_expected([]) == 0


def test_holm_takes_back_what_is_barely_decided_among_many():
    """Student's bound at 7 degrees of freedom: 3.5 standard errors for one claim, 4.03 for two (any table)."""
    barely, surely = claim(3.6), [claim(9.0 + k) for k in range(9)]
    assert barely.verdict == "holds"
    assert not_after_holm([barely]) == []
    assert not_after_holm([barely, *surely]) == []  # the last in line is held to the level of one
    assert not_after_holm([barely, claim(3.7), *surely]) == [claim(3.7), barely]
    assert not_after_holm([barely, claim(1.0)]) == [barely]  # what stayed undecided was judged, too


def test_what_no_chance_enters_into_is_not_counted():
    assert not_after_holm([claim(3.6), claim(-9.0, law="exact")]) == []


def test_how_far_verdicts_can_be_trusted_is_said_in_a_sentence():
    said = worth([claim(3.6), claim(1.0), *[claim(9.0 + k) for k in range(18)]])
    assert said.startswith("Chance enters into 20 claims: at most about 0.1 false verdicts are to be expected.")
    assert said.endswith("Of the 19 that are decided, 1 would not survive Holm's correction for so many.")
    assert worth([claim(9.0, law="exact")]) == ""


@pytest.mark.parametrize(
    ("values", "said"), [([1.0] * 8, True), ([0.999, *[1.0] * 7], True), ([0.99, *[1.0] * 7], False)]
)
def test_it_is_said_where_no_replica_was_seen_to_fail_as_a_whole(values, said):
    about = {"id": "a", "arm": "a", "source": "Lemma 1", "statement": "", "kind": "bound"}
    made = Claim.from_samples(values, ">=", 0.8, law="share", trials=[1000] * 8, range=(0, 1), **about)
    assert made.verdict == "holds"
    found = worth([made])
    assert ("In 1 of the shares all replicas agree to a hundredth: that of all replicas up to 48% are" in found) == said
    assert ("In 2 of the shares" in worth([made, made])) == said


def test_how_many_may_be_otherwise_is_what_a_yes_or_no_leaves_open():
    about = {"id": "a", "arm": "a", "source": "Lemma 1", "statement": "", "kind": "bound"}
    whole = Claim.from_samples([1.0] * 8, ">=", 0.4, law="yes/no", **about)
    share = Claim.from_samples([1.0] * 8, ">=", 0.9, law="share", trials=[1000] * 8, **about)
    assert f"up to {1 - whole.interval[0]:.0%} are otherwise" in worth([share])


@pytest.mark.parametrize(("replicas", "says"), [(1, "One replica decides nothing"), (3, "3 replicas decide little")])
def test_few_replicas_decide_little(replicas, says):
    said = worth([claim(9.0, replicas), claim(0.0, law="exact")])
    assert said == f"{says} where chance enters, in 1 of the 2 claims: take 4 at least."


def test_one_replica_of_independent_draws_decides():
    about = {"id": "a", "arm": "a", "source": "Lemma 1", "statement": "", "kind": "bound"}
    drawn = Claim.from_samples([1.0], ">=", 0.9, law="draws", trials=[1000], **about)
    assert worth([drawn]).startswith("Chance enters into 1 claims")
    said = "One replica decides nothing where chance enters, in 1 of the 2 claims: take 4 at least. "
    assert worth([drawn, claim(9.0, 1)]) == f"{said}Independent draws, in 1 more, need no more of them."


def test_an_extreme_is_wrong_on_one_side_only():
    """One of 44 draws of which a tenth are exceptions holds in one run of a hundred."""
    of = {"relation": ">=", "predicted": 0.0, "law": "extreme", "trials": [44], "id": "a", "source": "", "arm": "x"}
    worst = Claim.from_samples(np.array([1.0]), statement="It is.", kind="bound", expected=True, note="", **of)
    assert false_expected([worst]) == pytest.approx(0.01)


def test_what_accepts_a_single_value_is_wrong_on_either_side():
    about = {"id": "a", "source": "s", "statement": "x", "kind": "identity", "arm": "r"}
    single, room = (Claim.from_samples([0.1, -0.1, 0.3], "=", 0.0, tolerance, **about) for tolerance in (0.0, 0.1))
    assert false_expected([single]) == pytest.approx(0.01)
    assert false_expected([room]) == pytest.approx(0.005)
