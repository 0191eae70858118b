"""Replicas that are equal where chance should make them differ end a run, with the stream's name."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from featscope.commands.run import execute
from featscope.runs import Settings, run
from featscope.runs.twins import EqualReplicasError, require_different
from featscope.streams import Draws
from featscope.training import Training
from swept import Learner, Pull, Source

born = Draws.__init__


class OneByOne(Training):
    """Of a single replica, so that no two are ever beside each other."""

    replica_axis = False


@dataclass(frozen=True)
class Single(Pull):
    """The same, a replica at a time."""

    def arms(self):
        return [replace(arm, recipe=OneByOne(**vars(arm.recipe)), over=()) for arm in super().arms()]


def forget(monkeypatch):
    """Let draws forget the replica."""
    monkeypatch.setattr(
        Draws, "__init__", lambda self, key, replicas, *more: born(self, key, [0] * len(replicas), *more)
    )


def test_replicas_that_are_trained_apart_are_compared_in_the_end(monkeypatch, tmp_path):
    forget(monkeypatch)
    with pytest.raises(EqualReplicasError, match=r"replicas 0 and 1 of the arm '\w+' .* same from the streams '"):
        run(Single(), Settings(replicas=2), tmp_path / "run")


def test_draws_that_nobody_uses_are_noticed_too(monkeypatch, tmp_path):
    monkeypatch.setattr(Source, "sample", lambda self, draws, count: self.target[:, None].expand(-1, count))
    monkeypatch.setattr(Learner, "__init__", fixed)
    with pytest.raises(EqualReplicasError, match=r"nothing drawn from .* tells in them"):
        run(Single(), Settings(replicas=2), tmp_path / "run")


def fixed(self, value):
    torch.nn.Module.__init__(self)
    self.value = torch.nn.Parameter(0 * value)


def test_the_command_says_so_and_judges_nothing(monkeypatch, tmp_path, capsys):
    forget(monkeypatch)
    code, claims = execute(Single(), Settings(replicas=2), tmp_path / "run", ["run"])
    assert (code, claims) == (3, [])
    assert "the streams" in capsys.readouterr().err
    assert not (tmp_path / "run" / "claims.json").exists()


def test_sound_replicas_pass(tmp_path):
    assert run(Single(), Settings(replicas=3), tmp_path / "run").runs
    differing = {"w": np.arange(6.0).reshape(3, 2), "same": np.ones((3, 2))}
    require_different(differing, {"batch"}, 0, "arm")
    with pytest.raises(EqualReplicasError, match="replicas 0 and 1 of the arm 'arm'"):
        require_different({"same": np.ones((3, 2))}, {"batch"}, 0, "arm")
    require_different({"same": np.ones((3, 2))}, (), 0, "arm")  # no chance enters
    require_different({}, {"batch"}, 0, "arm")
