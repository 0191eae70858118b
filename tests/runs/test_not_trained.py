"""Weights that were to be trained and end as they began are told on the page and in the terminal."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from featscope.axes import Axis
from featscope.commands.run import execute
from featscope.runs import Settings, run
from featscope.runs.diverged import shortcomings
from featscope.runs.folder import RunFolder
from featscope.runs.program import StoppedError
from featscope.runs.shard import Shard
from featscope.runs.stored import read_trajectory
from featscope.testing import measure
from featscope.training import SGD
from swept import ENTRY, Learner, Pull

made = Learner.__init__

STANDING = SGD(1e-30, 0.0)


def with_another(self, value):
    made(self, value)
    self.unused = nn.Parameter(torch.ones_like(value))


def test_what_is_trained_is_not_told(tmp_path):
    outcome = run(Pull(), Settings(), tmp_path / "run")
    assert shortcomings(outcome.runs) == ""


@pytest.mark.filterwarnings("ignore:pull cannot read")
def test_weights_that_stand_still_are_told_with_their_arms(tmp_path, capsys, monkeypatch):
    for module in ("commands.run", "registry"):
        monkeypatch.setattr(f"featscope.{module}.find", lambda name: (ENTRY, Pull))
    code, _ = execute(Pull(optimizer=STANDING), Settings(), tmp_path / "run", [])
    assert code == 0
    said = shortcomings(read_trajectory(tmp_path / "run"))
    assert said.startswith(
        "Not trained, and at the end as at the start to the bit in every replica: learner.value in each of the arms "
    )
    assert said in capsys.readouterr().out
    assert "is the step size 0?" in (tmp_path / "run" / "report.html").read_text()


def test_one_that_the_loss_does_not_depend_on_is_told_by_name(monkeypatch):
    monkeypatch.setattr(Learner, "__init__", with_another)
    study = Pull(optimizer=SGD(0.1, 0.0))
    run = measure(study, study.arms()[0], 2)
    assert run.attrs["at_rest"] == "learner.unused"


def test_one_that_is_not_to_be_trained_is_not_told(monkeypatch):
    def frozen(self, value):
        with_another(self, value)
        self.unused.requires_grad_(False)

    monkeypatch.setattr(Learner, "__init__", frozen)
    study = Pull()
    assert "at_rest" not in measure(study, study.arms()[0], 2).attrs


def test_nothing_is_told_where_some_replica_or_some_point_is_trained():
    study = Pull(optimizer=SGD(0.1, 0.0))
    some, none = (
        replace(study.arms()[0], over=(Axis("optimizer.lr", rates),)) for rates in ((1e-30, 0.1), (1e-30, 2e-30))
    )
    assert "at_rest" not in measure(study, some, 2).attrs
    assert measure(study, none, 2).attrs["at_rest"] == "learner.value"


@pytest.mark.parametrize(("optimizer", "resting"), [(SGD(0.1, 0.0), set()), (STANDING, {"learner.value"})])
def test_what_goes_on_from_a_checkpoint_is_compared_with_its_first_start(tmp_path, optimizer, resting):
    study, folder = Pull(optimizer=optimizer), RunFolder.create(tmp_path / "run")
    shard, steps = Shard(study, study.arms()[0], range(2), 0, "cpu"), iter(range(99))
    with pytest.raises(StoppedError):
        shard.run(folder, lambda: next(steps) == 8, lambda *_: None)
    for _ in range(2):  # the second time of its finished checkpoint alone
        assert shard.run(folder, lambda: False, lambda *_: None).at_rest == resting
