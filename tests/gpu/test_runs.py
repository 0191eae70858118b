"""Whole runs on a GPU: repeated and resumed to the same bits, with the verdicts of the processor."""

from pathlib import Path

import pytest
import torch
import xarray as xr
from safetensors.torch import load_file

from featscope.cli import main
from featscope.runs.stored import read_trajectory
from featscope.training import GradientTraining
from processes import SMALL

STUDIES = {"decoupling": SMALL, "imbalance": ["--steps", "40", "--replicas", "2"]}
"""Contrastive steps on sparse codes and on pairs of tokens."""


def command(patch: pytest.MonkeyPatch, *words: str | Path) -> int:
    patch.setattr("featscope.commands.run.report_run", lambda out: out)
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


@pytest.mark.parametrize("name", sorted(STUDIES))
def test_what_is_resumed_is_what_nothing_interrupted_to_the_bit(name, tmp_path, monkeypatch):
    untouched, resumed = tmp_path / "untouched", tmp_path / "resumed"
    options = [*STUDIES[name], "--device", "cuda"]
    assert command(monkeypatch, "run", name, "--out", untouched, *options) == 0
    advance = GradientTraining.advance

    def stopped(self: GradientTraining, step: int) -> None:
        if step == 17:
            raise KeyboardInterrupt
        advance(self, step)

    with monkeypatch.context() as patch:
        patch.setattr(GradientTraining, "advance", stopped)
        assert command(patch, "run", name, "--out", resumed, *options) == 130
    assert command(monkeypatch, "run", name, "--out", resumed, *options, "--resume") == 0
    one, other = (read_trajectory(folder) for folder in (untouched, resumed))
    for arm in one:
        xr.testing.assert_identical(one[arm], other[arm])
    for file in (untouched / "weights").glob("*.safetensors"):
        weights, others = load_file(file), load_file(resumed / "weights" / file.name)
        assert all(torch.equal(weights[key], others[key]) for key in weights.keys() | others.keys())
