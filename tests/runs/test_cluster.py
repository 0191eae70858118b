"""Sweeps on a Ray cluster give what they give here, whatever happens to workers."""

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import psutil
import pytest
import xarray as xr

import swept
from featscope.axes import Axis
from featscope.cli import main
from featscope.options import ConfigError, MissingExtraError
from featscope.runs import Settings, cluster, run
from featscope.runs.asked import ask
from featscope.runs.cluster import on_cluster
from featscope.runs.environment import environment
from featscope.runs.shard import Shard, ShardResult
from featscope.runs.stored import read_environment, read_trajectory
from featscope.runs.workers import InterruptedRunError, train_all
from featscope.studies.sweep import Sweep
from featscope.tensors import packed, unpacked
from featscope.training import SGD, DivergedError
from processes import finish, start
from swept import Pull, installed

AXES = (Axis("data.noise", (0.1, 0.5)), Axis("width", (1.0, 2.0)), Axis("optimizer.lr", (0.1, 1e30)))
SETTINGS = Settings(seed=2, replicas=4)
WORDS = ["sweep", "pull", "--axis", "noise=0.1,0.5"]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A cluster of two nodes with one core each, on this machine."""
    pytest.importorskip("ray", reason="for want of the extra 'cluster'")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(swept.__file__).parent))  # of the workers
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        cluster.add_node(num_cpus=1)
    try:
        yield cluster.address
    finally:
        cluster.shutdown()


@pytest.fixture(autouse=True)
def _two_shards(monkeypatch):
    monkeypatch.setattr("featscope.runs.execute.worker_count", lambda device: 2)


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> Path:
    """The sweep on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("featscope.runs.execute.worker_count", lambda device: 2)
        return run(Sweep(Pull(), AXES), SETTINGS, tmp_path_factory.mktemp("here") / "sweep").folder


def assert_same(one: Path, other: Path) -> None:
    xr.testing.assert_identical(*(read_trajectory(folder)["sweep"] for folder in (one, other)))
    left, right = (sorted(f.name for f in (folder / "checkpoint").iterdir()) for folder in (one, other))
    assert left == right


@pytest.mark.long
def test_a_cluster_gives_the_numbers_of_this_machine_and_leaves_the_same_files(tmp_path, here, address):
    out = tmp_path / "sweep"
    data = run(Sweep(Pull(), AXES), SETTINGS, out, train=on_cluster(address)).runs["sweep"]
    assert_same(out, here)
    assert (data["diverged"].sel(lr=1e30) == 1).all()
    assert (data["diverged"].sel(lr=0.1) == -1).all()
    assert len(list((out / "checkpoint").iterdir())) == 2 * 2  # two shards of two programs


@pytest.mark.long
def test_a_worker_that_is_killed_costs_nothing_but_time(tmp_path, here, address):
    """It is killed in the middle of its shard, which another begins anew, with the same draws."""
    signals, killed = tmp_path / "signals", []
    signals.mkdir()
    (signals / "go").touch()  # nothing waits while memory is measured

    def kill() -> None:
        while not (waiting := list(signals.iterdir())):
            time.sleep(0.02)
        killed.append(int(waiting[0].name))
        assert psutil.Process(killed[0]).cmdline()[0].startswith("ray::")
        os.kill(killed[0], signal.SIGKILL)
        (signals / "go").touch()

    def train(folder, shards, device):
        for file in signals.iterdir():
            file.unlink()
        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        return on_cluster(address)(folder, shards, device)

    run(Sweep(Pull(signals=str(signals)), AXES), SETTINGS, tmp_path / "sweep", train=train)
    assert killed
    assert_same(tmp_path / "sweep", here)


@pytest.mark.long
def test_what_is_done_is_not_sent_again_whoever_did_it(tmp_path, here, address):
    out = tmp_path / "sweep"

    def half(folder, shards, device):
        train_all(folder, shards[:1], device)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(Sweep(Pull(), AXES), SETTINGS, out, train=half)
    done = {file.name: file.stat().st_mtime_ns for file in (out / "checkpoint").iterdir()}
    assert len(done) == 2
    run(Sweep(Pull(), AXES), SETTINGS, out, resume=True, train=on_cluster(address))
    assert {name: (out / "checkpoint" / name).stat().st_mtime_ns for name in done} == done
    assert_same(out, here)


class RayHere:
    """What a driver asks of Ray, in this process, without any machine."""

    exceptions = SimpleNamespace(RayTaskError=type("RayTaskError", (Exception,), {}), RayError=OSError)

    def __init__(self) -> None:
        self.sent: list[str] = []

    def remote(self, **resources):
        def wrapped(compute):
            def send(shard):
                self.sent.append(f"{shard.arm.name}.{shard.replicas.start}")
                return (lambda: compute(shard),)

            return SimpleNamespace(remote=send)

        return wrapped

    def wait(self, waiting, num_returns, timeout):
        assert num_returns == len(waiting)  # one at a time would look at all others as often
        return waiting[:1], waiting[1:]

    def get(self, reference):
        return reference[0]()


@pytest.mark.parametrize(
    "damage", [lambda file: file.write_bytes(file.read_bytes()[:-7]), lambda file: file.write_text("not what it was")]
)
def test_a_damaged_checkpoint_is_set_aside_by_the_driver_and_its_shard_is_sent_again(tmp_path, capfd, damage):
    out, ray = tmp_path / "run", RayHere()
    whole = run(Pull(), SETTINGS, out)
    file = out / "checkpoint" / "pulled.2.0.safetensors"
    sound = file.read_bytes()
    damage(file)
    damaged = file.read_bytes()

    def train(folder, shards, device):
        return cluster._train(ray, folder, shards, device, "quiet")

    again = run(Pull(), SETTINGS, out, resume=True, train=train)
    assert ray.sent == ["pulled.2"]
    tensors, about = unpacked(file)
    assert about.pop("computed_by") == cluster._environment("cpu", "swept")
    assert packed(tensors, about) == sound  # beside that
    assert file.with_name(f"{file.name}.damaged").read_bytes() == damaged
    assert "pulled.2.0.safetensors.damaged, and what it held of this run is computed again" in capfd.readouterr().err
    assert all(one.identical(whole.runs[name]) for name, one in again.runs.items())


class EndsHere(RayHere):
    """Something happens before the second shard is there."""

    def __init__(self, happens) -> None:
        super().__init__()
        self.happens, self.got = happens, 0

    def get(self, reference):
        self.got += 1
        if self.got == 2:
            self.happens()
        return super().get(reference)


def lose_workers() -> None:
    raise RayHere.exceptions.RayError("a node is gone")


@pytest.mark.parametrize("why", ["Ray workers were lost: a node is gone", "replicas that are not done begin anew"])
def test_lost_workers_and_a_wish_to_stop_interrupt_a_run_that_knows_who_computed_what_is_done(
    why, tmp_path, monkeypatch
):
    out = tmp_path / "run"
    ray = EndsHere(lose_workers if "lost" in why else lambda: ask(out, "stop"))
    there = cluster._environment("cpu", "swept") | {"processor": "another"}
    monkeypatch.setattr(cluster, "_environment", lambda device, module: there)

    def train(folder, shards, device):
        return cluster._train(ray, folder, shards, device, "quiet")

    with pytest.raises(InterruptedRunError, match=why) as interrupted:
        run(Pull(), SETTINGS, out, train=train)
    done = 1 if "lost" in why else 2  # the wish is seen after the shard that it came with
    assert interrupted.value.computed_by == [there] * done
    assert read_environment(out)["processor"] == "another"
    assert len(list((out / "checkpoint").iterdir())) == done
    assert len(ray.sent) == 4
    again = run(Pull(), SETTINGS, out, resume=True)
    assert all(one.identical(again.runs[name]) for name, one in run(Pull(), SETTINGS, tmp_path / "whole").runs.items())


@pytest.mark.parametrize("error", [OSError(28, "no space"), ZeroDivisionError("a task's own"), SystemExit(137)])
def test_whatever_ends_a_run_it_is_known_who_computed_what_was_done(error, tmp_path, monkeypatch):
    def ends() -> None:
        raise error

    there = cluster._environment("cpu", "swept") | {"processor": "another"}
    monkeypatch.setattr(cluster, "_environment", lambda device, module: there)
    monkeypatch.setattr(RayHere.exceptions, "RayError", InterruptedError)  # which none of these is
    ray, out = EndsHere(ends), tmp_path / "run"
    with pytest.raises(type(error)):
        run(Pull(), SETTINGS, out, train=lambda *given: cluster._train(ray, *given, "quiet"))
    here = environment("cpu", "swept")["processor"]
    for _ in range(2):  # the second has nothing left to do
        assert f"processor (another, then {here})" in run(Pull(), SETTINGS, out, resume=True).mixed
        assert [stage["processor"] for stage in read_environment(out)["history"]] == ["another"]


@pytest.mark.parametrize(("asked", "there"), [("cpu", "cpu"), ("cuda", "cuda"), ("cuda:1", "cuda")])
def test_a_workers_own_gpu_is_the_first_that_it_sees(asked, there, monkeypatch):
    seen = []

    def trained(shard, folder, stopped, progress):
        seen.append(shard.device)
        (folder.path / "checkpoint").mkdir(exist_ok=True)
        return ShardResult([], {}, computed_by=shard.computed_by)

    monkeypatch.setattr(Shard, "run", trained)
    monkeypatch.setattr(cluster, "_environment", lambda device, module: {"device": device})
    result, files = cluster._in_worker(Shard(Pull(), Pull().arms()[0], range(1), 0, asked))
    assert (seen, result.computed_by, files) == ([there], {"device": there}, {})


@pytest.mark.long
def test_errors_of_a_worker_are_those_of_this_machine(tmp_path, address):
    with pytest.raises(DivergedError, match=r"of the arm pulled is not finite at step 1$") as raised:
        run(Pull(optimizer=SGD(1e30, 0.0)), SETTINGS, tmp_path / "run", train=on_cluster(address))
    assert raised.value.step == 1


@pytest.mark.parametrize("wrong", ["http://localhost:1", "localhost", "", "ray://", "localhost:port", "nul\0:1"])
def test_what_is_no_address_is_refused_and_leaves_nothing(wrong, tmp_path):
    with pytest.raises(ConfigError, match=r"--address = .* is no address of a Ray cluster"):
        run(Pull(), SETTINGS, tmp_path / "run", train=on_cluster(wrong))
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_a_study_that_workers_do_not_have_is_refused(tmp_path, address, monkeypatch):
    monkeypatch.setitem(sys.modules, "here_only", module := ModuleType("here_only"))
    exec("from swept import Pull\nclass Here(Pull): pass", vars(module))
    with pytest.raises(ConfigError, match=r"cannot load the study \(.*'here_only'\): install there what is installed"):
        run(module.Here(), SETTINGS, tmp_path / "run", train=on_cluster(address))


def begun(folder: Path) -> tuple[subprocess.Popen, list[psutil.Process]]:
    """A sweep with a cluster of its own in the middle of training, and all processes that it began."""
    pytest.importorskip("ray", reason="for want of the extra 'cluster'")
    out, signals = folder / "a sweep", folder / "signals"
    signals.mkdir()
    (signals / "go").touch()  # nothing waits while memory is measured
    words = [*WORDS, "--engine", "ray", "--signals", signals, "--out", out, "--overwrite"]
    environment = {k: v for k, v in installed(folder / "package").items() if not k.startswith("RAY_AUTH")}
    process = start(*words, env=environment)
    while not (out / "environment.json").exists() and process.poll() is None:
        time.sleep(0.02)
    for file in signals.iterdir():
        file.unlink()
    while not list(signals.iterdir()) and process.poll() is None:
        time.sleep(0.05)
    return process, psutil.Process(process.pid).children(recursive=True)


@pytest.mark.long
def test_ctrl_c_ends_a_cluster_run_with_the_command_that_goes_on(tmp_path):
    """With a cluster that it begins itself, whose processes are gone afterwards."""
    process, started = begun(tmp_path)
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130, err
    program, *again = shlex.split(err.strip().splitlines()[-1])
    assert program == "featscope"
    assert again[0] == "sweep"
    assert "--resume" in again
    assert "blocks of replicas that are not done begin anew" in err
    assert "Traceback" not in err
    assert psutil.wait_procs(started, timeout=30)[1] == []
    assert not (tmp_path / "a sweep" / "claims.json").exists()


@pytest.mark.long
def test_a_cluster_that_was_begun_here_asks_for_a_token_and_dies_with_a_killed_parent(tmp_path):
    process, started = begun(tmp_path)
    (raylet,) = (child for child in started if child.name() == "raylet")
    assert raylet.environ()["RAY_AUTH_MODE"] == "token"
    assert len(raylet.environ()["RAY_AUTH_TOKEN"]) == 64
    process.kill()
    finish(process)
    assert psutil.wait_procs(started, timeout=30)[1] == []


@pytest.mark.long
def test_what_the_caller_had_begun_before_outlives_the_cluster():
    """Watched is what came after; the command `sleep` stands for both."""
    with subprocess.Popen(["sleep", "60"]) as before:
        others = frozenset(psutil.Process().children(recursive=True))
        with subprocess.Popen(["sleep", "60"]) as after:
            with cluster._ended_with_this_process(but=others):
                pass
            assert after.wait(timeout=10) == -signal.SIGKILL
        assert before.poll() is None
        before.kill()


def refused(capfd, *words: str | Path) -> str:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert ended.value.code == 2
    return " ".join(capfd.readouterr().err.split())


@pytest.fixture
def registered(tmp_path, monkeypatch):
    installed(tmp_path / "package")
    monkeypatch.syspath_prepend(tmp_path / "package")


def test_without_ray_the_extra_is_named(tmp_path, registered, monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "ray", None)
    err = refused(capfd, *WORDS, "--engine", "ray", "--out", tmp_path / "run")
    assert "--engine ray needs the extra 'cluster': pip install 'featscope[cluster]'" in err
    assert not (tmp_path / "run").exists()
    with pytest.raises(MissingExtraError):
        on_cluster(None)


def test_an_address_without_the_engine_is_refused(tmp_path, registered, capfd):
    err = refused(capfd, *WORDS, "--address", "127.0.0.1:6379", "--out", tmp_path / "run")
    assert "--address = '127.0.0.1:6379' needs --engine ray" in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999"])
def test_an_address_where_nothing_answers_is_refused_at_once(address):
    pytest.importorskip("ray", reason="for want of the extra 'cluster'")
    with pytest.raises(ConfigError, match=rf"--address = '{address}': no Ray cluster answers .*: correct it, or `ray"):
        on_cluster(address)


@pytest.mark.long
def test_an_address_that_is_none_is_refused(tmp_path, address):
    with pytest.raises(
        ConfigError, match=r"--address = 'nonsense' is no address of a Ray cluster: allowed is HOST:PORT"
    ):
        run(Sweep(Pull(), AXES), SETTINGS, tmp_path / "run", train=on_cluster("nonsense"))
