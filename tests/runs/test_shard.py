"""A shard: cut short, stopped, gone on with from its checkpoint."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, make_dataclass, replace
from typing import Any, ClassVar

import pytest
import torch

from featscope.axes import Axis
from featscope.options import ConfigError
from featscope.runs.folder import RunFolder
from featscope.runs.program import StoppedError
from featscope.runs.shard import Shard, ShardResult
from featscope.studies import Arm, Study
from featscope.training import DivergedError, Experiment, Measurement


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


def total(name: str):
    return lambda experiment: {name: Measurement(experiment.total.clone())}


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        (replace(ARM, at_start=(total("norm"),), at_end=(total("norm"),)), "'norm' is measured twice"),
        (replace(ARM, at_start=(total("norm"), total("norm"))), "'norm' is measured twice"),
        (replace(ARM, at_end=(total("so_far"),)), "'so_far' is measured twice"),
        (replace(ARM, at_start=(total("so_far"),)), "'so_far' is measured twice"),
        (replace(ARM, at_end=(total("total"),)), "'total' is measured twice"),
        (replace(ARM, watch=total("last_step")), "'last_step' is kept of every run"),
        (replace(ARM, watch=total("at")), "'at' is kept of every run, is the axis of judged sweeps"),
    ],
)
def test_one_name_measured_twice_is_refused(folder, arm, words):
    with pytest.raises(ValueError, match=words):
        Shard(Sums(), arm, range(2), 0, "cpu").run(RunFolder(folder), lambda: False, lambda steps, status: None)


def test_what_is_measured_at_the_start_is_measured_again_where_the_first_step_failed(folder, monkeypatch):
    shard = Shard(Sums(), replace(ARM, at_start=(total("first"),)), range(2), 0, "cpu")
    to_the_end = RunFolder(folder), lambda: False, lambda steps, status: None

    def breaking(self, step):
        raise DivergedError("the sum", step, 0)

    with monkeypatch.context() as broken:
        broken.setattr(Adding, "advance", breaking)
        for _ in range(2):
            with pytest.raises(DivergedError):
                shard.run(*to_the_end)
    assert (folder / "checkpoint" / "summed.0.0.safetensors").exists()
    (data,) = shard.run(*to_the_end).data
    assert data["step"].values.tolist()[:2] == [0, 1]


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


def swept(arm: Arm, folder, replicas: range = range(2), study: Study = Sums(), **more) -> ShardResult:  # noqa: B008
    """Run a shard of an arm with axes to its end."""
    return Shard(study, arm, replicas, 0, "cpu", **more).run(RunFolder(folder), lambda: False, lambda *told: None)


@dataclass(frozen=True)
class Scaled(Sum):
    """A sum that begins somewhere."""

    first: float = 0.0
    spare: float = 1.0

    def build(self, streams):
        experiment = Adding(streams)
        experiment.total += self.first
        return experiment


def over(*values: float, steps: int = 9, option: str = "first", **more) -> Arm:
    return Arm("summed", Scaled(steps=steps, **more), "", over=(Axis(option, values),))


@pytest.mark.parametrize(
    ("before", "now", "why"),
    [
        (
            over(1.0, 2.0),
            over(10.0, 20.0),
            r"points \[\{'first': 1.0\}, \{'first': 2.0\}\], not \[\{'first': 10.0\}, .*\]",
        ),
        (over(10.0, 20.0, steps=4), over(10.0, 20.0), "steps 4, not 9"),
        (over(10.0, 20.0, spare=2.0), over(10.0, 20.0), r"recipe '[\w.]+', not '[\w.]+'"),
    ],
)
def test_what_is_done_of_other_points_steps_or_options_is_set_aside(folder, capfd, before, now, why):
    swept(before, folder)
    assert Shard(Sums(), before, range(2), 0, "cpu").finished(RunFolder(folder))
    assert not Shard(Sums(), now, range(2), 0, "cpu").finished(RunFolder(folder))
    found = swept(now, folder).data
    assert [float(point["first"]) for point in found] == [10.0, 20.0]
    assert [point["total"].values.tolist() for point in found] == [[130.0] * 2, [140.0] * 2]
    assert re.search(rf"holds the state of something else \(ValueError: {why}\)", capfd.readouterr().err)
    assert Shard(Sums(), now, range(2), 0, "cpu").finished(RunFolder(folder))
    swept(now, folder)
    assert capfd.readouterr().err == ""


def test_fewer_replicas_than_before_are_not_taken_for_all(folder, capfd):
    swept(over(1.0), folder, range(2))
    assert not Shard(Sums(), over(1.0), range(3), 0, "cpu").finished(RunFolder(folder))
    (data,) = swept(over(1.0), folder, range(3)).data
    assert data["total"].values.tolist() == [121.0] * 3
    assert "replicas 2, not 3" in capfd.readouterr().err


def as_of_an_older_version(folder, **changed: Any) -> None:
    """Descriptions without what says of which recipe, and of how many steps."""
    for file in (folder / "checkpoint").iterdir():
        tensors, about = RunFolder(folder).read_tensors(f"checkpoint/{file.name}")
        about = {name: value for name, value in about.items() if name not in ("steps", "recipe", "threads")} | changed
        tensors = {name: one for name, one in tensors.items() if not name.startswith("end.")}
        RunFolder(folder).write_tensors(f"checkpoint/{file.name}", tensors, about)


def test_a_checkpoint_of_an_older_version_goes_on_and_one_that_is_too_short_is_set_aside(folder, monkeypatch, capfd):
    before = swept(over(1.0, 2.0), folder)
    as_of_an_older_version(folder)
    assert Shard(Sums(), over(1.0, 2.0), range(2), 0, "cpu").finished(RunFolder(folder))
    advance = Adding.advance
    monkeypatch.setattr(Adding, "advance", None)
    again = swept(over(1.0, 2.0), folder)
    assert all(one.identical(other) for one, other in zip(again.data, before.data, strict=True))
    assert [list(ends) for ends in again.ends] == [[], []]
    assert capfd.readouterr().err == ""
    as_of_an_older_version(folder, step=4)
    monkeypatch.setattr(Adding, "advance", advance)
    assert swept(over(1.0, 2.0), folder).data[0].identical(before.data[0])
    assert "step 4 of 9" in capfd.readouterr().err


@pytest.mark.parametrize("values", [(1.0, 2.0), (2.0, 1.0)])
def test_series_that_only_some_points_of_a_program_measure_are_missing_at_the_others(folder, values):
    class Some(Study):
        """Watches more where the sum begins at 2."""

        def watch(self, experiment):
            more = {"more": Measurement(experiment.total.clone()), "count": Measurement(experiment.total.long())}
            return {"so_far": Measurement(experiment.total.clone())} | (more if experiment.where == 2.0 else {})

    @dataclass(frozen=True)
    class Where(Scaled):
        """Remembers where it begins, as a number that may differ between points of a program."""

        def build(self, streams):
            experiment = Located(streams)
            experiment.total += self.first
            experiment.where = self.first
            return experiment

    arm = Arm("summed", Where(), "", over=(Axis("first", values),))
    assert len(Shard(Some(), arm, range(2), 0, "cpu").build()) == 1
    found = {float(point["first"]): point for point in swept(arm, folder, study=Some()).data}
    assert found[1.0]["more"].isnull().all()
    assert found[1.0]["count"].isnull().all()
    assert found[1.0]["so_far"].isel(step=0).values.tolist() == [1.0] * 2
    assert found[2.0]["more"].isel(step=[0, -1]).values.tolist() == [[2.0, 122.0]] * 2
    assert found[2.0]["count"].isel(step=-1).values.tolist() == [122.0] * 2


class Located(Adding):
    """Where it begins is a float that replicas may differ in."""

    floats_per_replica = True


def test_the_threads_that_trained_large_networks_are_known_of_every_part(folder):
    large, small = (Arm("summed", Counted(weights=weights), "") for weights in (2**16, 10))
    before, threads = torch.get_num_threads(), []
    try:
        for number, stop_after in ((2, 4), (1, None)):
            torch.set_num_threads(number)
            stops = iter(range(1, 100))
            shard = Shard(Sums(), large, range(1), 0, "cpu")
            with suppress(StoppedError):
                told = shard.run(RunFolder(folder), lambda s=stops, a=stop_after: next(s) == a, lambda *told: None)
                threads.append(told.threads)
        torch.set_num_threads(2)
        threads.append(swept(large, folder, range(1)).threads)  # nothing is left to do
        threads.append(swept(small, RunFolder.create(folder.parent / "small").path).threads)
    finally:
        torch.set_num_threads(before)
    assert threads == [(1, 2), (1, 2), ()]


def test_what_looks_took_is_handed_back_before_the_first_step_and_at_the_end(folder, monkeypatch):
    told = []
    monkeypatch.setattr("featscope.runs.program.hand_back_freed_memory", lambda: told.append("handed back"))
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
