"""Replicas that are equal where chance should make them differ end a run, with the stream's name."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

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


def test_what_all_replicas_have_in_common_is_kept_once_and_hides_no_twins(monkeypatch, tmp_path):
    """Of shards of two replicas each. Strung together, what they have in common would end the comparison after four."""
    made = Source.__init__

    def with_more(self, config, replicas):
        made(self, config, replicas)
        self.register_buffer("spectrum", torch.tensor([0.5]))

    monkeypatch.setattr(Source, "__init__", with_more)
    monkeypatch.setattr("featscope.runs.execute._shard_size", lambda *given: 2)
    run(Pull(), Settings(replicas=8), tmp_path / "run")
    kept = load_file(tmp_path / "run" / "weights" / "pulled.safetensors")
    assert kept["source.spectrum"].tolist() == [0.5]
    assert len(kept["learner.value"]) == 8
    monkeypatch.setattr(
        Draws, "__init__", lambda self, key, replicas, *more: born(self, key, [r % 7 for r in replicas], *more)
    )
    with pytest.raises(EqualReplicasError, match="replicas 0 and 7 of the arm 'pulled'"):
        run(Pull(), Settings(replicas=8), tmp_path / "twins")


def test_sound_replicas_pass(tmp_path):
    assert run(Single(), Settings(replicas=3), tmp_path / "run").runs
    differing = {"w": np.arange(6.0).reshape(3, 2), "same": np.ones((3, 2))}
    require_different(differing, {"batch"}, 0, "arm")
    with pytest.raises(EqualReplicasError, match="replicas 0 and 1 of the arm 'arm'"):
        require_different({"same": np.ones((3, 2))}, {"batch"}, 0, "arm")
    require_different({"same": np.ones((3, 2))}, (), 0, "arm")  # no chance enters
    require_different({}, {"batch"}, 0, "arm")
