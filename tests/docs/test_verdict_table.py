"""The table of verdicts that the pages of the studies show."""

import runpy
from pathlib import Path

from featscope.claims import Statement
from featscope.runs.folder import RunFolder

SCRIPT = Path(__file__).parents[2] / "docs" / "verdict_table.py"


def test_a_line_a_claim_and_bold_where_against_expectation(tmp_path):
    known, doubted = (
        Statement(name, "Lemma 1", "f = |x|.", "bound", expected=name == "known") for name in ["known", "no"]
    )
    values = [0.9, 1.0, 1.1]
    claims = [
        known.at_least(values, 0.0, arm="a"),
        known.at_least(values, 2.0, arm="b"),
        doubted.at_least(values, 2.0, arm="a"),
        doubted.at_least(values, 0.0, arm="b"),
    ]
    RunFolder(tmp_path).write_claims("some", 7, 3, {}, claims)
    head, blank, *table = runpy.run_path(str(SCRIPT))["table"](tmp_path).splitlines()
    assert "Seed 7, 3 replicas" in head
    assert not blank
    assert {line.count("|") for line in table} == {6}
    verdicts = [line.split("|")[-2].strip() for line in table[2:]]
    assert verdicts == ["holds", "**fails**", "fails (not expected to hold)", "**holds (not expected to hold)**"]
