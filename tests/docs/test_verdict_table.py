"""The table of verdicts that the pages of the studies show."""

import runpy
from pathlib import Path

import pytest

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


def test_a_run_against_a_page_names_what_differs_and_ends_with_1(tmp_path, capsys):
    known, no = "loss-inversion", "sparse-energy"
    about = {"source": "Lemma 1", "statement": "f = |x|.", "kind": "bound", "title": "f is |x|"}

    def claims(bound: float, *arms: str) -> list[Claim]:
        each = [Claim.from_samples([0.9, 1.0, 1.1], ">=", bound, id=known, arm=arm, **about) for arm in arms]
        return [*each, Claim.from_samples([0.9, 1.0, 1.1], ">=", 2.0, id=no, arm="a", expected=False, **about)]

    script, page = runpy.run_path(str(SCRIPT)), tmp_path / "page.md"
    RunFolder(tmp_path).write_claims("decoupling", 0, 3, {}, claims(0.0, "a", "b"), {})
    page.write_text(
        f"# Words | bars\n\n{script['table'](tmp_path)}\n\n| claim | other |\n| --- | --- |\n| a<br>`b` | c |\n"
    )
    assert script["verdicts"](page.read_text()) == {
        (known, "a"): "holds",
        (known, "b"): "holds",
        (no, "a"): "fails (not expected to hold)",
    }
    with pytest.raises(SystemExit) as end:
        script["main"](str(tmp_path), "--against", str(page))
    assert end.value.code == 0
    assert capsys.readouterr().out == "3 claims, 0 verdicts that are not the page's.\n"
    RunFolder(tmp_path).write_claims("decoupling", 0, 3, {}, claims(2.0, "a", "c"), {})
    with pytest.raises(SystemExit) as end:
        script["main"](str(tmp_path), "--against", str(page))
    assert end.value.code == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{known}@a: fails, on the page holds",
        f"{known}@b: not there, on the page holds",
        f"{known}@c: fails, on the page not there",
        "3 claims, 3 verdicts that are not the page's.",
    ]
