"""Runs whose claims are laid beside each other: rows, signs, intervals, and what is said first."""

from dataclasses import replace

import numpy as np
import pytest
from claiming import Claiming

from featscope.claims import Claim
from featscope.commands.compare import compare
from featscope.report.comparison import headline, write_comparison
from featscope.runs import Settings, run
from featscope.runs.compared import Pair, StoredRun, pairs, read_runs, shift
from swept import Noisy

NEAR, FAR = "stays-near@pulled", "stays-near@other"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("featscope.runs.workers.cores", lambda: 1)
        run(Claiming(), Settings(replicas=6), place / "one")
        run(Claiming(data=Noisy(target=300.0)), Settings(replicas=6), place / "far")
    return place


@pytest.fixture
def both(folders) -> list[StoredRun]:
    return read_runs([folders / "one", folders / "far"])


@pytest.mark.parametrize(("replicas", "apart"), [(7, False), (8, True), (60, True)])
def test_what_moved_by_one_number_in_every_replica_is_told_by_the_test_of_signs(both, replicas, apart):
    """Nothing tells the error of such a change; that all go one way does."""
    at_first = np.random.default_rng(0).normal(0, 1000, replicas)
    about = {"id": "stays-near", "source": "s", "statement": "x", "kind": "bound", "arm": "pulled"}
    claims = [Claim.from_samples(at_first + moved, ">=", 0.0, **about) for moved in (0.0, 50.0)]
    before, after = (replace(run, claims={NEAR: claim}) for run, claim in zip((both[0], both[0]), claims, strict=True))
    pair = pairs(before, after)[NEAR]
    assert pair.apart == apart
    assert shift(pair) == pytest.approx(50.0)
    assert not pairs(before, before)[NEAR].apart


def test_claims_of_both_are_paired_in_the_order_of_the_first_and_later_less_earlier(both):
    one, far = both
    found = pairs(one, far)
    assert list(found) == list(one.claims)
    pair = found[NEAR]
    assert (pair.one, pair.other) == (one.claims[NEAR], far.claims[NEAR])
    assert (pair.one.verdict, pair.other.verdict, pair.changed) == ("holds", "fails", True)
    assert [key for key, pair in found.items() if pair.changed] == [NEAR, FAR]
    assert shift(pair) == pytest.approx(far.claims[NEAR].measured - one.claims[NEAR].measured)
    assert shift(pair) > 10
    assert pair.paired
    assert pair.apart


def test_the_terminal_and_the_page_have_the_rows_and_what_is_said_first(folders, both, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    one, far = both
    assert compare([str(folders / "one"), str(folders / "far"), "--out", str(tmp_path / "page")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    first = f"Of {len(one.claims)} claims that both judge, 2 verdicts are others; 2 measurements differ by more than"
    assert first in said
    assert "stays-near pulled" in said
    assert "another verdict" in said
    pair = pairs(one, far)[NEAR]
    low, high = pair.difference.interval
    assert low < shift(pair) < high
    page = (tmp_path / "page" / "report.html").read_text()
    assert f"{first} chance." in page
    assert "Numbers stay near. (stays-near, pulled)" in page or "Numbers stay near (stays-near, pulled)" in page
    assert "far beside one, claim by claim" in page
    assert page.count("another verdict") == 2


def test_what_differs_without_another_verdict_is_told_from_what_may_be_chance(both):
    one, far = both

    def verdict(pair: Pair) -> str:
        only = replace(one, claims={NEAR: pair.one}), replace(far, claims={NEAR: pair.other})
        return headline(only, {"far": pairs(*only)})

    def claim(values) -> Claim:
        about = {"id": "stays-near", "source": "S", "statement": "It is.", "kind": "bound", "arm": "pulled"}
        return Claim.from_samples(values, "<=", 10.0, expected=True, note="", **about)

    sure = verdict(Pair(claim([1.0, 1.1, 1.2]), claim([3.0, 3.11, 3.2]), None, False))
    assert "no verdict is another one; 1 measurement differs by more than chance" in sure
    chance = verdict(Pair(claim([1.0, 2.0, 1.2, 1.5, 1.4]), claim([1.1, 1.5, 1.9, 1.2, 1.6]), None, False))
    assert "no verdict is another one; no measurement with an interval differs by more than chance" in chance


def test_claims_that_one_of_them_does_not_judge_are_listed(both, tmp_path):
    one, far = both
    less = replace(far, claims={key: claim for key, claim in far.claims.items() if key != NEAR})
    page = write_comparison([one, less], tmp_path).read_text()
    assert "Claims that not all of them judge" in page
    assert NEAR in page
    assert FAR in one.claims
    assert f"Of {len(one.claims) - 1} claims that both judge" in page
