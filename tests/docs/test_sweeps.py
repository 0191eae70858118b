"""The page on sweeps does what it says, at a size that takes seconds."""

import re
import shlex
from pathlib import Path

import pytest

from featscope.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "sweeps.md").read_text()
SMALL = "--data.features 6 --data.input-dim 24 --learner.width 10 --objective.pairs 16 --steps 6 --overwrite"


@pytest.mark.long
def test_the_example_runs_and_is_read(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    example, *_ = re.findall(r"^```console\n\$ (.*?)^```$", PAGE, re.M | re.S)
    command, *printed = example.replace("--replicas 8", "--replicas 2").replace("8 replicas", "2 replicas").splitlines()
    for name in ("TRAIN_PAIRS", "TEST_PAIRS"):
        monkeypatch.setattr(f"featscope.studies.imbalance.probes.{name}", 200)
    with pytest.raises(SystemExit) as ended:
        main([*shlex.split(command)[1:], *SMALL.split()])
    out, err = capfd.readouterr()
    assert ended.value.code == 0, err
    beside = ["8 points run as one program."]
    assert err.splitlines() == beside
    assert out.splitlines() == [line for line in printed if line not in beside]
    reading, in_python = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    exec(compile(reading, "docs/sweeps.md", "exec"), {"__name__": "page"})
    table, cost = capfd.readouterr().out.rsplit("]]\n", 1)
    assert len(table.splitlines()) == 4
    assert re.fullmatch(r"-?\d\.\d{4} \(-?[\d.e-]+, -?[\d.e-]+\)\n", cost)
    shown = "Imbalance()"
    assert in_python.count(shown) == 1
    small = "Imbalance(SparseTokens(6, 24), objective=ContrastivePairs(pairs=16), steps=6, probe_every=3)"
    code = "from featscope.data import SparseTokens\nfrom featscope.training import ContrastivePairs\n" + in_python
    exec(compile(code.replace(shown, small), "docs/sweeps.md", "exec"), {"__name__": "page"})
    assert "'eps_min': 2" in capfd.readouterr().out
    assert (tmp_path / "runs" / "wide" / "report.html").exists()
