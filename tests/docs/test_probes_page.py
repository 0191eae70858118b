"""The page about probes: its code runs as it stands, and says what is so."""

import re
from pathlib import Path

import torch

from featscope import probes
from featscope.probes import collapse

PAGE = (Path(__file__).parents[2] / "docs" / "probes.md").read_text()
MODEL, MAPS, VIEWS, LOOP, GRADIENTS, OUTER, PLACED, RESIDUES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)


def test_the_code_runs_and_leaves_the_model_as_it_was(capsys):
    torch.manual_seed(0)
    names = {"__name__": "page"}
    for code in (MODEL, MAPS, VIEWS, LOOP, GRADIENTS, OUTER, PLACED, RESIDUES):
        exec(compile(code, "probes.md", "exec"), names)
    whole, pooled, maps, alignment, rank, directions, agreement, peaks, frequencies = (
        capsys.readouterr().out.splitlines()
    )
    assert "of 16 dimensions" in whole
    assert "of 64 dimensions" in pooled
    assert "of 64 dimensions" in maps
    assert 0 <= float(alignment) < 4
    assert rank.endswith("torch.Size([64, 64])")
    assert directions == "1 direction(s), 1.00 along the first axis"
    assert -1 <= float(agreement.split()[1]) <= 1
    assert names["map_of_neurons"].shape == (257, 2)
    assert peaks.endswith("of the neurons have nine tenths of their power in one frequency")
    assert sum(map(int, re.findall(r"\d+", frequencies))) == 32
    assert names["model"].training
    assert not any(part._forward_hooks for part in names["model"].modules())


def test_the_table_names_what_there_is():
    rows = re.findall(r"^\| (`.*?) \|", PAGE, re.M)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert len(named) == 9
    for name in named:
        assert callable(getattr(collapse, name))
    for name in [*named, "standardised"]:
        assert getattr(probes, name) is getattr(collapse, name)
