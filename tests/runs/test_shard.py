"""A shard: cut short, stopped, gone on with from its checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass
from typing import Any, ClassVar

import pytest
import torch

from featscope.axes import Axis
from featscope.options import ConfigError
from featscope.runs.folder import RunFolder
from featscope.runs.shard import Shard, ShardResult, StoppedError
from featscope.studies import Arm, Study
from featscope.training import Experiment, Measurement


class Adding(Experiment):
    """A sum that a step adds to, and what is outside of tensors: the numbers that were added."""

    def __init__(self, streams) -> None:
        super().__init__(streams)
        self.register_buffer("total", torch.zeros(len(streams.replicas), dtype=torch.float64))
        self.added: list[int] = []

    def advance(self, step: int) -> None:
        self.added.append(step)
        self.total += float(sum(self.added))

    def outcomes(self) -> Mapping[str, Measurement]:
        return {"total": Measurement(self.total.clone(), "the sum")}

    def kept(self):
        return {"total": self.total}

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        tensors, _ = super().state()
        return tensors, {"added": self.added}

    def restore(self, tensors, numbers) -> None:
        super().restore(tensors, numbers)
        self.added = list(numbers["added"])


@dataclass(frozen=True)
class Sum:
    """The recipe."""

    steps: int = 9
    probe_every: int = 4

    replica_axis: ClassVar[bool] = True

    def build(self, streams):
        return Adding(streams)


class Sums(Study):
    """Watches a sum."""

    def watch(self, experiment):
        return {"so_far": Measurement(experiment.total.clone())}


ARM = Arm("summed", Sum(), "")


def through(folder, stop_after: int | None = None, at_most: int | None = None) -> ShardResult:
    """Run the shard, or stop it after some steps."""
    asked = 0

    def stopped() -> bool:
        nonlocal asked
        asked += 1
        return asked == stop_after

    shard = Shard(Sums(), ARM, range(2, 5), 0, "cpu", at_most)
    return shard.run(RunFolder(folder), stopped, lambda steps, status: None)


@pytest.fixture
def folder(tmp_path):
    return RunFolder.create(tmp_path / "run").path


@pytest.mark.parametrize(("at_most", "end", "total"), [(1, 1, 0), (3, 3, 4), (99, 9, 120), (None, 9, 120)])
def test_it_may_be_cut_short_and_is_measured_where_it_ends(folder, at_most, end, total):
    result = through(folder, at_most=at_most)
    (data,) = result.data
    assert data["step"].values[[0, -1]].tolist() == [0, end]
    assert data["replica"].values.tolist() == [2, 3, 4]
    assert data["total"].values.tolist() == [total] * 3
    assert data["so_far"].isel(step=-1).values.tolist() == [total] * 3
    assert data["last_step"].values.tolist() == [end] * 3
    assert result.weights["total"].tolist() == [total] * 3


@pytest.mark.parametrize("stop_after", [1, 4, 8])
def test_a_checkpoint_holds_all_of_the_state_that_an_experiment_names(folder, stop_after):
    """Tensors, and numbers that are no tensors: without those the sum would be another one."""
    with pytest.raises(StoppedError):
        through(folder, stop_after)
    tensors, about = RunFolder(folder).read_tensors("checkpoint/summed.2.0.safetensors")
    assert about["numbers"] == {"added": list(range(stop_after))}
    assert set(tensors) >= {"experiment.total", "experiment.diverged", "experiment.last_look"}
    assert (about["step"], about["done"]) == (stop_after, False)
    assert not Shard(Sums(), ARM, range(2, 5), 0, "cpu").finished(RunFolder(folder))
    resumed, whole = through(folder), through(RunFolder.create(folder.parent / "whole").path)
    assert resumed.data[0].identical(whole.data[0])
    assert resumed.weights["total"].tolist() == whole.weights["total"].tolist()
    assert Shard(Sums(), ARM, range(2, 5), 0, "cpu").finished(RunFolder(folder))


@dataclass(frozen=True)
class Counted(Sum):
    """The recipe with some weights."""

    weights: int = 1

    def build(self, streams):
        experiment = super().build(streams)
        experiment.weights = torch.nn.Parameter(torch.zeros(len(streams.replicas), self.weights))
        return experiment


@pytest.mark.parametrize(("weights", "threads"), [(10, 1), (2**16, 2)])
def test_a_lone_shard_of_small_networks_has_one_thread(folder, monkeypatch, weights, threads):
    seen, advance = set(), Adding.advance
    monkeypatch.setattr(Adding, "advance", lambda *given: (seen.add(torch.get_num_threads()), advance(*given)))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        Shard(Sums(), Arm("summed", Counted(weights=weights), ""), range(1), 0, "cpu").run(
            RunFolder(folder), lambda: False, lambda steps, status: None
        )
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == {threads}


def test_what_looks_took_is_handed_back_before_the_first_step_and_at_the_end(folder, monkeypatch):
    told = []
    monkeypatch.setattr("featscope.runs.shard.hand_back_freed_memory", lambda: told.append("handed back"))
    advance, outcomes = Adding.advance, Adding.outcomes
    monkeypatch.setattr(Adding, "advance", lambda self, step: (told.append("step"), advance(self, step)))
    monkeypatch.setattr(Adding, "outcomes", lambda self: told.append("outcomes") or outcomes(self))
    through(folder)
    assert told == ["handed back", *9 * ["step"], "outcomes", "handed back"]


@pytest.mark.parametrize("name", ["so_far", "total", "last_step"])
def test_an_axis_that_is_called_like_a_series_is_refused(folder, name):
    recipe = make_dataclass("Named", [(name, float, 1.0)], bases=(Sum,), frozen=True)()
    shard = Shard(Sums(), Arm("summed", recipe, "", over=(Axis(name, (1.0,)),)), range(1), 0, "cpu")
    with pytest.raises(ConfigError, match=rf"axis '{name}' is refused: a series that is measured is called '{name}'"):
        shard.run(RunFolder(folder), lambda: False, lambda steps, status: None)
