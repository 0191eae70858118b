"""The page on what comes after a run: its code runs, and prints what it says."""

import re
from pathlib import Path

import pytest

from featscope.report import report_run

PAGE = Path(__file__).parents[2].joinpath("docs/after-a-run.md").read_text(encoding="utf-8")
(IN_PYTHON,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)


@pytest.mark.long
def test_a_study_is_run_in_python(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(IN_PYTHON.replace("TensorPower().smallest()", "TensorPower(steps=40, sequences=4)"), names)
    outcome, claims = names["outcome"], names["claims"]
    assert len(claims) == len(outcome.claims) > 0
    assert outcome.runs["steep"].sizes["replica"] == 4
    said = repr(outcome)
    assert said.startswith("<Outcome of 'runs/small'\n arms: step-sizes, ")
    assert sum(map(int, re.findall(r"(\d+) (?:hold|fail|undecided)", said))) == len(claims)
    assert "measured" in capsys.readouterr().out
    (call,) = re.findall(r"`(report_run\(.*?\))`", PAGE)
    assert eval(call, {"report_run": report_run}) == Path("runs/small/report.html")
