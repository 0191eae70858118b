"""The table of verdicts that the pages of the studies show."""

import runpy
from pathlib import Path

from featscope.claims import Claim
from featscope.runs.folder import RunFolder

SCRIPT = Path(__file__).parents[2] / "docs" / "verdict_table.py"


def test_a_line_a_claim_and_bold_where_against_expectation(tmp_path):
    def claim(id: str, arm: str, bound: float) -> Claim:
        about = {"id": id, "source": "Lemma 1", "statement": "$f = |x|$.", "kind": "bound", "title": "f is |x|"}
        return Claim.from_samples([0.9, 1.0, 1.1], ">=", bound, arm=arm, expected=id == "loss-inversion", **about)

    known, no = "loss-inversion", "sparse-energy"
    claims = [claim(known, "a", 0.0), claim(known, "b", 2.0), claim(no, "a", 2.0), claim(no, "b", 0.0)]
    RunFolder(tmp_path).write_claims("decoupling", 7, 3, {}, claims, {})
    head, blank, *table = runpy.run_path(str(SCRIPT))["table"](tmp_path).splitlines()
    assert "Seed 7, 3 replicas" in head
    assert not blank
    assert {line.replace(r"\|", "").count("|") for line in table} == {6}
    assert table[2].startswith(r"| f is \|x\|")
    verdicts = [line.split("|")[-2].strip() for line in table[2:]]
    assert verdicts == ["holds", "**fails**", "fails (not expected to hold)", "**holds (not expected to hold)**"]
