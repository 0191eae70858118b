"""Running a study: shards, memory, stopping early, and what goes wrong."""

import json
import multiprocessing
import os
import shutil
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from featscope.claims import STATED, bound
from featscope.options import ConfigError, MissingExtraError, require
from featscope.runs import Settings, execute, run, workers
from featscope.runs.folder import RunFolder
from featscope.runs.program import StoppedError
from featscope.runs.progress import Part, ProgressBoard
from featscope.runs.shard import Shard
from featscope.runs.stored import read_trajectory
from featscope.runs.workers import InterruptedRunError
from featscope.studies import Arm, Study, last, looked
from featscope.training import SGD, DivergedError, FirstTime, GradientTraining, Later, Measurement

MIB = 2**20


class Source(nn.Module):
    def sample(self, draws, count: int):
        return SimpleNamespace(x=3 + draws.normal(count))


class Learner(nn.Module):
    def __init__(self, replicas: int, width: int) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(replicas, width))


def squares(learner, source, draws):
    return (source.sample(draws, 16).x[..., None] - learner.value[:, None]).square().mean((1, 2))


def replica_2_breaks(learner, source, draws):
    """By a loss that is finite and a gradient that is not, so that weights break."""
    broken = (learner.value[:, 0].detach() > 1) & (learner.replicas == 2)
    root = torch.where(broken, 0 * learner.value[:, 0], torch.ones_like(learner.value[:, 0])).sqrt()
    return squares(learner, source, draws) + root


@dataclass(frozen=True)
class Estimating:
    """The recipe of an estimate of a mean."""

    width: int
    steps: int
    probe_every: int
    breaks: bool

    replica_axis: ClassVar[bool] = True

    def build(self, streams):
        require(self, "width", self.width != 7, "any number but 7")
        learner = Learner(len(streams.replicas), self.width)
        learner.replicas = torch.tensor(streams.replicas)
        near = FirstTime("near", lambda e: e.learner.value.mean(-1) > 2.5, every=1)
        loss = replica_2_breaks if self.breaks else squares
        return GradientTraining(Source(), learner, loss, SGD(0.05 * self.width, 0.0), {"near": near}, streams)


@dataclass(frozen=True)
class Toy(Study):
    """Estimates a mean."""

    name = "toy"
    default_replicas = 4
    width: int = 1
    steps: int = 40
    probe_every: int = 10
    breaks: bool = False
    assay_mib: int = 0

    def arms(self) -> Sequence[Arm]:
        recipe = Estimating(self.width, self.steps, self.probe_every, self.breaks)
        whole = Arm("whole", recipe, "to the end", at_end=(self.assay,))
        return [whole, Arm("short", recipe, "until it is near", "cut short", role="control", stop_at="near")]

    def assay(self, experiment):
        replicas = len(experiment.streams.replicas)
        taken = torch.zeros(replicas, self.assay_mib * MIB // 4 + 1)
        return {"assay": Measurement(taken[:, 0])}

    def watch(self, experiment):
        return {"estimate": Measurement(experiment.learner.value.mean(-1))}

    @bound("", on=("whole", "short"), at_most=0.7, because=STATED)
    def near(self, run):
        """Estimates end near the mean. Measured: how far they are."""
        return abs(last(run, run["estimate"]) - 3)


def test_a_run_fills_its_folder(tmp_path):
    outcome = run(Toy(), Settings(seed=5), tmp_path / "run")
    assert [claim.verdict for claim in outcome.claims] == ["holds", "holds"]
    folder = RunFolder(outcome.folder)
    stored = read_trajectory(folder.path)
    assert stored["whole"].identical(outcome.runs["whole"])
    assert stored["whole"]["step"].values[-1] == 40
    assert stored["whole"]["replica"].values.tolist() == [0, 1, 2, 3]
    assert stored["short"].attrs == {"about": "until it is near", "label": "cut short", "role": "control"}
    assert stored["whole"].attrs == {"about": "to the end", "label": "whole", "role": "arm"}
    weights = load_file(tmp_path / "run" / "weights" / "whole.safetensors")
    assert weights["learner.value"].shape == (4, 1)
    ends = outcome.runs["whole"]["estimate"].isel(step=-1).values
    assert weights["learner.value"][:, 0].tolist() == ends.tolist()
    plan = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (plan["study"], plan["seed"], plan["replicas"]) == ("toy", 5, 4)


def test_an_arm_stops_when_its_event_has_happened_and_the_rest_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(execute, "_fitting", lambda *a: execute.Fitting(2))
    runs = run(Toy(), Settings(), tmp_path / "run").runs
    assert runs["short"]["step"].values[-1] < 40
    assert (runs["short"]["near"].values > 0).all()
    assert runs["short"]["loss"].isnull().any()  # two shards, which end at different steps
    assert (last(runs["short"], runs["short"]["estimate"]).values > 2).all()
    assert (looked(runs["short"]) == runs["short"]["loss"].notnull()).all()
    assert looked(runs["whole"]).all()


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_neither_shards_nor_workers_change_what_a_replica_does(tmp_path, monkeypatch, workers):
    """A replica's numbers may differ in the last bits where sums run over another number of replicas."""
    expected = run(Toy(width=8), Settings(replicas=1), tmp_path / "alone").runs["whole"]
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: workers)
    together = run(Toy(width=8), Settings(replicas=5), tmp_path / "together").runs["whole"]
    np.testing.assert_allclose(together["estimate"].values[:1], expected["estimate"].values, rtol=1e-5)
    assert json.loads((tmp_path / "together" / "config.json").read_text())["shard_size"] == -(-5 // workers)


def test_a_run_in_this_process_leaves_its_threads_as_they_were(tmp_path, monkeypatch):
    before, seen = torch.get_num_threads(), []
    monkeypatch.setattr(workers, "worker_count", lambda device: 1)
    monkeypatch.setattr(workers, "cores", lambda: before + 1)
    monkeypatch.setattr(workers, "keep_freed_memory", lambda: seen.append(torch.get_num_threads()))
    run(Toy(), Settings(), tmp_path / "run")
    assert (seen, torch.get_num_threads()) == ([before + 1], before)


def test_two_runs_at_a_time_do_not_exchange_their_results(monkeypatch):
    """Each has workers of its own, which are forked when both have said what is to be done."""
    both, entered = threading.Barrier(2), workers.stop_on_signals

    def after_the_other(*given):
        both.wait(20)
        return entered(*given)

    monkeypatch.setattr(workers, "stop_on_signals", after_the_other)

    def asked(name: str) -> list[str]:
        return workers._in_workers(lambda index, stopped, progress: f"{name} {index}", 2, 2, ProgressBoard(), ["", ""])

    with ThreadPoolExecutor(2) as threads:
        assert [*threads.map(asked, ("one", "other"))] == [["one 0", "one 1"], ["other 0", "other 1"]]


@pytest.fixture(autouse=True)
def signals_at_their_defaults():
    """Also where the tests were begun in the background, by `nohup` or `&`, which has some of them ignored."""
    before = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in before.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_does_not_wait_for_work_that_heeds_none(monkeypatch, number):
    """As while memory is measured: the run would go on as if nobody had said anything."""
    monkeypatch.setattr(workers, "worker_count", lambda device: 2)
    timer = threading.Timer(1.0, os.kill, (os.getpid(), number))
    timer.start()
    began = time.monotonic()
    with pytest.raises(workers.InterruptedRunError):
        workers.in_worker(lambda: time.sleep(60))
    assert time.monotonic() - began < 20
    timer.join()


def test_a_signal_ends_no_process_of_the_caller_s(monkeypatch):
    monkeypatch.setattr(workers, "worker_count", lambda device: 2)
    stranger = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    stranger.start()
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    try:
        with pytest.raises(workers.InterruptedRunError):
            workers.in_worker(lambda: time.sleep(60))
        assert stranger.is_alive()
    finally:
        timer.join()
        stranger.kill()


def test_handlers_of_signals_take_no_lock_and_print_nothing():
    """They may interrupt whoever holds the lock or prints: those who ask tell it, once."""
    told = []
    board = SimpleNamespace(say=told.append)
    stop = workers.Stop(board, "ending")
    with workers.stop_on_signals(stop):
        os.kill(os.getpid(), signal.SIGINT)
        assert (stop.asked, told) == (True, [])
        assert [stop.is_set(), stop.is_set()] == [True, True]
    assert told == ["ending"]
    with pytest.raises(KeyboardInterrupt), workers.stop_on_signals(stop):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_ends_a_process_interrupts_judging_and_drawing_as_well(number):
    def ended():
        os.kill(os.getpid(), number)
        time.sleep(5)

    with workers.interruptible(), pytest.raises(KeyboardInterrupt):
        ended()
    assert signal.getsignal(number) == signal.SIG_DFL


@pytest.mark.parametrize("tells", ["advance", "wish"])
def test_workers_stop_where_nobody_can_be_told_how_far_they_are(monkeypatch, tells):
    """As where standard output is a pipe whose reader has gone."""

    def gone(*_):
        raise BrokenPipeError

    def until_stopped(index, stopped, progress):
        progress(0, "starting")
        for _ in range(300):
            time.sleep(0.1)
            if stopped():
                raise StoppedError
        return index

    monkeypatch.setattr(ProgressBoard, tells, gone)
    began = time.monotonic()
    with pytest.raises(BrokenPipeError):
        workers._in_workers(until_stopped, 2, 2, ProgressBoard([Part("an arm", "", 1, 1)]), ["an arm"] * 2)
    assert time.monotonic() - began < 20


def shard_size(study: Toy, gib: float, replicas: int = 64) -> int:
    return execute._fitting(study, study.arms(), replicas, Settings(memory_limit=gib)).shard_size


def test_shards_get_smaller_until_they_fit_into_the_memory_limit(monkeypatch):
    """A replica of width 2^16 needs some 16 batches of 16 · 2^16 · 4 bytes = 4 MiB."""
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: 2)
    study = Toy(width=2**16)
    sizes = [shard_size(study, gib) for gib in (0.05, 0.1, 0.2, 0.4, 100)]
    assert sizes[-1] == 32
    assert 1 <= sizes[0] < 8
    assert sizes[0] < sizes[1] < sizes[2] < sizes[3] < 32
    with pytest.raises(ConfigError, match=r"memory_limit = 0.01 GiB .* one replica needs 0\.0"):
        shard_size(study, 0.01)


@pytest.mark.parametrize(("gib", "fitting"), [(16.0, (1, None)), (15.0, (1, 1)), (4.0, (1, 1))])
def test_shards_train_one_after_the_other_where_memory_does_not_hold_a_replica_for_each_core(monkeypatch, gib, fitting):
    """As of a language model of 4 GiB, on a machine of four cores."""
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: 4)
    monkeypatch.setattr(execute, "in_worker", lambda compute: 4 * 2**30)
    assert execute._fitting(Toy(), Toy().arms(), 4, Settings(memory_limit=gib)) == fitting


def test_they_do_so_in_this_process_by_all_cores_and_when_the_run_goes_on(monkeypatch, tmp_path):
    began: list[int] = []
    threads: list[int] = []
    train = Shard.run
    monkeypatch.setattr(workers, "_in_workers", lambda *given: began.append(1))
    monkeypatch.setattr(workers, "cores", lambda: 3)
    monkeypatch.setattr(execute, "_fitting", lambda *a: execute.Fitting(2, 1))
    monkeypatch.setattr(Shard, "run", lambda *given: threads.append(torch.get_num_threads()) or train(*given))
    before = torch.get_num_threads()
    run(Toy(), Settings(replicas=4), tmp_path / "run")
    assert json.loads((tmp_path / "run" / "config.json").read_text())["workers"] == 1
    once = len(threads)
    run(Toy(), Settings(replicas=4), tmp_path / "run", resume=True)
    assert (began, {*threads}, len(threads)) == ([], {3}, 2 * once)
    assert torch.get_num_threads() == before
    assert workers.at_a_time(3) == 3


def test_only_an_arm_without_a_replica_axis_has_a_shard_for_each_replica(monkeypatch):
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: 2)
    study = Toy()
    together, *_ = study.arms()
    alone = replace(together, recipe=Later(lambda: None, 1, {}))
    assert execute._replicas_together(together, 4) == 4
    assert execute._replicas_together(alone, 4) == 1
    monkeypatch.setattr(execute, "in_worker", lambda compute: 2**20)
    assert execute._fitting(study, [together, alone], 8, Settings(memory_limit=1.0)) == (4, None)
    assert execute._fitting(study, [alone], 8, Settings(memory_limit=1.0)) == (1, None)


def test_the_memory_of_measurements_counts_too(monkeypatch):
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: 2)
    assert shard_size(Toy(width=2**12, assay_mib=16), 0.25) == 7  # 16 MiB a replica and a little, 2 workers
    assert shard_size(Toy(width=2**12), 0.25) == 32


def test_a_resumed_run_keeps_its_shards_whatever_memory_is_free_now(tmp_path, monkeypatch):
    out = tmp_path / "run"
    run(Toy(), Settings(), out)
    before = (out / "config.json").read_text()
    monkeypatch.setattr(execute, "_fitting", None)
    run(Toy(), Settings(), out, resume=True)
    assert (out / "config.json").read_text() == before


def test_a_run_killed_before_it_wrote_its_plan_resumes_as_a_new_one(tmp_path):
    RunFolder.create(tmp_path / "run")
    resumed = run(Toy(), Settings(), tmp_path / "run", resume=True)
    assert resumed.runs["whole"].identical(run(Toy(), Settings(), tmp_path / "other").runs["whole"])


def test_divergence_names_the_replica_by_its_own_number_and_keeps_sound_checkpoints(tmp_path):
    with pytest.raises(DivergedError) as raised:
        run(Toy(breaks=True), Settings(replicas=4), tmp_path / "run")
    assert raised.value.replica == 2
    assert raised.value.step > 0
    for file in (tmp_path / "run" / "checkpoint").glob("*.safetensors"):  # none, as it breaks before one is due
        assert all(tensor.isfinite().all() for name, tensor in load_file(file).items() if name.startswith("experiment"))
    assert not (tmp_path / "run" / "trajectory.nc").exists()


def test_divergence_at_the_step_that_measures_memory_leaves_nothing_behind(tmp_path, monkeypatch):
    def diverge(*_):
        raise DivergedError("the loss", 0, 0)

    monkeypatch.setattr(execute, "_fitting", diverge)
    with pytest.raises(DivergedError):
        run(Toy(), Settings(), tmp_path / "made" / "run")
    assert not (tmp_path / "made").exists()


def test_a_worker_killed_before_the_last_has_its_work_interrupts_the_run(tmp_path, monkeypatch):
    class Broken(workers.ProcessPoolExecutor):
        def submit(self, *_):
            raise workers.BrokenProcessPool("a child process terminated abruptly")

    monkeypatch.setattr("featscope.runs.workers.cores", lambda: 2)
    monkeypatch.setattr(workers, "ProcessPoolExecutor", Broken)
    with pytest.raises(InterruptedRunError, match="killed"):
        run(Toy(), Settings(), tmp_path / "run")


@pytest.fixture
def refused_in_a_fork(monkeypatch):
    """A function: experiments are built in this process alone, and raise in any other what it is given."""
    here, build = os.getpid(), Estimating.build
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: 2)

    def refuse(said: str) -> None:
        def build_here(self, streams):
            if os.getpid() != here:
                raise RuntimeError(said)
            return build(self, streams)

        monkeypatch.setattr(Estimating, "build", build_here)

    return refuse


def test_shards_follow_each_other_where_torch_takes_no_gradient_in_a_fork(tmp_path, refused_in_a_fork):
    """As in a notebook that has taken one before, on a machine with a GPU."""
    refused_in_a_fork("Unable to handle autograd's threading in combination with fork-based multiprocessing. See ...")
    outcome = run(Toy(), Settings(), tmp_path / "run")
    assert [claim.verdict for claim in outcome.claims] == ["holds", "holds"]


def test_other_errors_in_a_fork_are_raised(tmp_path, refused_in_a_fork):
    refused_in_a_fork("shapes do not fit")
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        run(Toy(), Settings(), tmp_path / "run")


def test_a_termination_signal_saves_and_ends_the_run_as_ctrl_c_does(tmp_path, monkeypatch):
    whole = run(Toy(), Settings(), tmp_path / "whole")
    parent, build, sent = os.getpid(), Estimating.build, tmp_path / "sent"

    def build_and_signal(self, streams):
        try:
            sent.touch(exist_ok=False)  # by one worker only: a second signal ends the run at once
            os.kill(parent, signal.SIGTERM)
        except FileExistsError:
            pass
        return build(self, streams)

    monkeypatch.setattr(Estimating, "build", build_and_signal)
    monkeypatch.setattr(execute, "_fitting", lambda *a: execute.Fitting(2))
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(InterruptedRunError):
        run(Toy(), Settings(), tmp_path / "run")
    assert signal.getsignal(signal.SIGTERM) == before
    monkeypatch.setattr(Estimating, "build", build)
    resumed = run(Toy(), Settings(), tmp_path / "run", resume=True)
    assert resumed.runs["whole"].identical(whole.runs["whole"])


@pytest.mark.parametrize("when", ["memory", "building", "extra"])
def test_a_refused_run_leaves_nothing_behind(tmp_path, monkeypatch, when):
    """Whenever it is refused: no file, and no folder that was not there before."""
    settings, width = Settings(memory_limit=1e-9 if when == "memory" else None), 7 if when == "building" else 1
    if when == "extra":
        monkeypatch.setattr(Estimating, "build", unable)
    there = tmp_path / "there"
    there.mkdir()
    for out in (tmp_path / "runs" / "new", there):
        with pytest.raises((ConfigError, MissingExtraError)):
            run(Toy(width), settings, out)
    assert [file.name for file in tmp_path.rglob("*")] == ["there"]
    (there / "notes.txt").write_text("mine")
    with pytest.raises((ConfigError, MissingExtraError)):
        run(Toy(width), settings, there, overwrite=True)
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["notes.txt", "there"]


def test_a_study_without_arms_is_refused_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(Toy, "arms", lambda self: [])
    with pytest.raises(ConfigError, match="has no arms: allowed is a study that has one or more"):
        run(Toy(), Settings(), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def unable(self, streams):
    raise MissingExtraError("a part", "parts")


def test_a_refused_resume_leaves_the_run_as_it_was(tmp_path):
    run(Toy(), Settings(), tmp_path / "run")
    for part in ("checkpoint", "weights"):
        shutil.rmtree(tmp_path / "run" / part)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*.*")}
    with pytest.raises(ConfigError, match=r"changed: config\.seed: 0 -> 1"):
        run(Toy(), Settings(seed=1), tmp_path / "run", resume=True)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.*")} == before


@dataclass(frozen=True)
class Mended(Toy):
    """Writes 0 where once -1 was written."""

    def __post_init__(self) -> None:
        if self.assay_mib == -1:
            object.__setattr__(self, "assay_mib", 0)


def test_what_is_written_otherwise_today_is_no_other_option(tmp_path):
    run(Mended(), Settings(), tmp_path / "run")
    plan = json.loads((tmp_path / "run" / "config.json").read_text())
    del plan["checksum"]
    plan["config"]["assay_mib"] = -1
    (tmp_path / "run" / "config.json").write_text(json.dumps(plan))
    assert run(Mended(), Settings(), tmp_path / "run", resume=True).folder == tmp_path / "run"
    del plan["config"]["assay_mib"]
    (tmp_path / "run" / "config.json").write_text(json.dumps(plan))
    with pytest.raises(ConfigError, match="assay_mib: None -> 0"):
        run(Mended(), Settings(), tmp_path / "run", resume=True)


def test_a_run_begun_with_other_draws_is_read_where_it_ended_and_not_gone_on_with(tmp_path):
    run(Toy(), Settings(), tmp_path / "run")
    plan = json.loads((tmp_path / "run" / "config.json").read_text())
    del plan["checksum"], plan["draws"]  # as the first version wrote it
    (tmp_path / "run" / "config.json").write_text(json.dumps(plan))
    (tmp_path / "run" / "claims.json").unlink()
    assert run(Toy(), Settings(), tmp_path / "run", resume=True).folder == tmp_path / "run"
    next((tmp_path / "run" / "checkpoint").iterdir()).unlink()
    with pytest.raises(ConfigError, match=r"drew other random numbers, began this run.* --overwrite begins anew"):
        run(Toy(), Settings(), tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"replicas": 0}, "Settings.replicas = 0 .* 1 to 1,000,000"),
        ({"replicas": 2.0}, r"Settings.replicas = 2\.0 .* Give int\(replicas\), or None"),
        ({"replicas": True}, "Settings.replicas = True .* Give int"),
        ({"seed": np.int64(3)}, r"Settings.seed = np\.int64\(3\) .* Give int\(seed\)"),
        ({"seed": 1.5}, r"Settings.seed = 1\.5 .* Give int\(seed\)"),
        ({"memory_limit": np.float32(2)}, r"Settings.memory_limit = np\.float32"),
        ({"device": torch.device("cpu")}, "Settings.device = device.* is out of range: allowed is cpu, cuda or cuda:N"),
        ({"seed": 2**63}, "Settings.seed"),
        ({"seed": -(2**63)}, "Settings.seed"),
        ({"memory_limit": float("inf")}, "Settings.memory_limit = inf .* finite"),
        ({"device": "no such"}, "Settings.device = 'no such' is out of range: allowed is cpu, cuda or cuda:N"),
        ({"device": "meta"}, "Settings.device = 'meta' .* cpu, cuda or cuda:N"),
        ({"device": "cuda:77"}, "Settings.device = 'cuda:77' .* a device that torch sees"),
    ],
)
def test_wrong_settings_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        Settings(**options)
