"""Replicas that are equal where chance should make them differ end a run, with the stream's name."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from featscope.axes import Axis
from featscope.claims import ordering
from featscope.commands.run import execute
from featscope.options import ConfigError
from featscope.runs import Settings, run
from featscope.runs.execute import Fitting
from featscope.runs.folder import RunFolder
from featscope.runs.judging import judge_again
from featscope.runs.shard import Shard
from featscope.runs.twins import EqualReplicasError, require_different
from featscope.streams import Draws
from featscope.studies.base import last
from featscope.studies.judged_sweep import JudgedSweep
from featscope.studies.sweep import Sweep
from featscope.training import Training
from swept import Learner, Noisy, Pull, Source

born = Draws.__init__


class OneByOne(Training):
    """Of a single replica, so that no two are ever beside each other."""

    replica_axis = False


@dataclass(frozen=True)
class Single(Pull):
    """The same, a replica at a time."""

    def arms(self):
        return [replace(arm, recipe=OneByOne(**vars(arm.recipe)), over=()) for arm in super().arms()]


@dataclass(frozen=True)
class Claimed(Pull):
    """The same, with a claim."""

    @ordering("nobody", on="pulled", more_than=0.0)
    def is_pulled(self, run):
        """Numbers end above a bound. Measured: the loss at the end."""
        return last(run, run.loss)


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
    self.value = torch.nn.Parameter(torch.zeros_like(value))


def test_the_command_says_so_and_judges_nothing(monkeypatch, tmp_path, capsys):
    forget(monkeypatch)
    code, claims = execute(Single(), Settings(replicas=2), tmp_path / "run", ["run"])
    assert (code, claims) == (3, [])
    assert "the streams" in capsys.readouterr().err
    with pytest.raises(ConfigError, match=r"trajectory\.nc is missing"):  # nor does anything judge it later
        judge_again(tmp_path / "run", Single())
    assert not (tmp_path / "run" / "claims.json").exists()


NOISE = Axis("data.noise", (0.1, 0.5))


def pair_up(monkeypatch) -> None:
    """Let replicas 0 and 1 draw the same, and so 2 and 3."""
    monkeypatch.setattr(
        Draws, "__init__", lambda self, key, replicas, *more: born(self, key, [r // 2 for r in replicas], *more)
    )


@pytest.mark.parametrize(
    ("study", "together"),
    [
        *((Sweep(Pull(), (NOISE,)), together) for together in (1, 2, 4)),
        (Sweep(Pull(), (NOISE, Axis("width", (1.0, 2.0)))), 2),  # of two programs
        (JudgedSweep(Claimed(), (NOISE,)), 2),
        (Sweep(Single(), (NOISE,)), 1),
    ],
)
def test_replicas_that_are_equal_at_every_point_are_refused(monkeypatch, tmp_path, study, together):
    monkeypatch.setattr("featscope.runs.execute._fitting", lambda *given: Fitting(together))
    run(study, Settings(replicas=4), tmp_path / "sound")
    pair_up(monkeypatch)
    for resume in (False, True):  # of what is stored of them, too
        with pytest.raises(
            EqualReplicasError, match=r"replicas 0 and 1 of the arm '[\w@]+' .* same from the streams '"
        ):
            run(study, Settings(replicas=4), tmp_path / "run", resume=resume)
        assert not (tmp_path / "run" / "trajectory.nc").exists()


def test_replicas_may_be_alike_at_a_point_where_chance_plays_no_part_or_all_diverge(monkeypatch, tmp_path):
    monkeypatch.setattr(Learner, "__init__", fixed)
    noise = Axis("data.noise", (0.0, 0.5))
    rates = Axis("optimizer.lr", (0.1, 1e30))
    found = run(Sweep(Pull(), (noise, rates)), Settings(replicas=4), tmp_path / "run").runs["sweep"]
    assert (found["diverged"].sel(lr=1e30) == 1).all()
    assert np.ptp(found["distance"].sel(noise=0.0, lr=0.1).isel(step=-1).values) == 0
    still = Sweep(Pull(data=Noisy(noise=0.0)), (rates,))
    with pytest.raises(EqualReplicasError, match=r"nothing drawn from .* tells in them"):
        run(still, Settings(replicas=4), tmp_path / "still")
    lost = Sweep(Pull(data=Noisy(noise=0.0)), (Axis("optimizer.lr", (1e30, 2e30)),))
    assert run(lost, Settings(replicas=4), tmp_path / "lost").runs  # nothing is left that would tell them apart


def test_what_an_older_version_stored_says_nothing_of_twins(monkeypatch, tmp_path):
    monkeypatch.setattr("featscope.runs.program.digests", lambda *given, **more: {})
    pair_up(monkeypatch)
    run(Sweep(Pull(), (NOISE,)), Settings(replicas=4), tmp_path / "run")
    monkeypatch.undo()
    assert run(Sweep(Pull(), (NOISE,)), Settings(replicas=4), tmp_path / "run", resume=True).runs


@pytest.mark.parametrize("together", [1, 2, 4])
def test_what_is_as_long_as_a_shard_by_chance_is_kept_once_and_hides_no_twins(monkeypatch, tmp_path, together):
    made, numbers = Source.__init__, torch.arange(together) + 0.5

    def with_more(self, config, replicas):
        made(self, config, replicas)
        self.register_buffer("spectrum", numbers)

    monkeypatch.setattr(Source, "__init__", with_more)
    monkeypatch.setattr("featscope.runs.execute._fitting", lambda *given: Fitting(together))
    run(Pull(), Settings(replicas=4), tmp_path / "run")
    kept = load_file(tmp_path / "run" / "weights" / "pulled.safetensors")
    if together > 1:
        assert kept["source.spectrum"].tolist() == numbers.tolist()
    assert {len(kept[name]) for name in ("learner.value", "source.target", "source.noise")} == {4}
    pair_up(monkeypatch)
    with pytest.raises(EqualReplicasError, match="replicas 0 and 1 of the arm 'pulled'"):
        run(Pull(), Settings(replicas=4), tmp_path / "twins")


def test_replicas_that_are_the_same_from_shard_to_shard_are_twins_and_nothing_in_common(monkeypatch, tmp_path):
    monkeypatch.setattr("featscope.runs.execute._fitting", lambda *given: Fitting(2))
    monkeypatch.setattr(
        Draws, "__init__", lambda self, key, replicas, *more: born(self, key, [r % 2 for r in replicas], *more)
    )
    with pytest.raises(EqualReplicasError, match="replicas 0 and 2 of the arm 'pulled'"):
        run(Pull(), Settings(replicas=4), tmp_path / "run")


def test_what_all_replicas_have_in_common_is_kept_once_and_hides_no_twins(monkeypatch, tmp_path):
    """Of shards of two replicas each. Strung together, what they have in common would end the comparison after four."""
    made = Source.__init__

    def with_more(self, config, replicas):
        made(self, config, replicas)
        self.register_buffer("spectrum", torch.tensor([0.5]))

    monkeypatch.setattr(Source, "__init__", with_more)
    monkeypatch.setattr("featscope.runs.execute._fitting", lambda *given: Fitting(2))
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


def test_a_judged_sweep_may_have_points_where_chance_plays_no_part(monkeypatch, tmp_path):
    """Its points of one whole number are an arm of their own."""
    monkeypatch.setattr(Learner, "__init__", fixed)
    study = JudgedSweep(Claimed(), (Axis("steps", (0, 6)),))
    assert run(study, Settings(replicas=2), tmp_path / "run").claims is not None


def test_digests_of_ends_cost_no_open_files(tmp_path):
    """Tensors that come from a worker do, one for each arm, point and name."""
    folder = RunFolder.create(tmp_path / "run")
    shard = Shard(Pull(), Pull().arms()[0], range(2), 0, "cpu")
    (ends, *_) = shard.run(folder, lambda: False, lambda steps, status: None).ends
    assert {type(of) for of in ends.values()} == {np.ndarray}
