"""A run that was interrupted and resumed ends as one that was never touched. Kills are in `test_torture`."""

import json
import shlex
import signal
import time
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
import xarray as xr
from safetensors.torch import load_file

from featscope.cli import main
from featscope.runs.stored import read_trajectory
from featscope.training import GradientTraining
from processes import SMALL, finish, start


def in_this_process(patch: pytest.MonkeyPatch, *words: str | Path) -> None:
    """Run the command to its end, without a report. A new process takes seconds to import what it needs."""
    patch.setattr("featscope.commands.run.report_run", lambda out: out)
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert ended.value.code == 0


@pytest.fixture(scope="module")
def untouched(tmp_path_factory) -> Path:
    """A run that nothing interrupts."""
    out = tmp_path_factory.mktemp("untouched") / "run"
    with pytest.MonkeyPatch.context() as patch:
        in_this_process(patch, "run", "decoupling", "--out", out, *SMALL)
    run = read_trajectory(out)["augmented"]
    assert (run["stage1_end"] > 0).all()  # so that biases and stages are at stake too
    return out


def assert_same_run(one: Path, other: Path) -> None:
    runs, others = read_trajectory(one), read_trajectory(other)
    assert runs.keys() == others.keys()
    for arm in runs:
        xr.testing.assert_identical(runs[arm], others[arm])
        weights, other_weights = (load_file(folder / f"weights/{arm}.safetensors") for folder in (one, other))
        assert all(torch.equal(weights[name], other_weights[name]) for name in weights.keys() | other_weights.keys())
    assert (one / "claims.json").read_text() == (other / "claims.json").read_text()


def checkpoints(out: Path) -> frozenset[tuple[str, int]]:
    return frozenset((f.name, f.stat().st_mtime_ns) for f in (out / "checkpoint").glob("*.safetensors"))


def wait_for_checkpoints(out: Path, count: int, process) -> None:
    """Return once ``count`` checkpoints have been written, or the process has ended."""
    seen = before = checkpoints(out)
    while len(seen - before) < count and process.poll() is None:
        time.sleep(0.01)
        seen |= checkpoints(out)


def test_ctrl_c_saves_and_prints_the_command_that_goes_on(untouched, tmp_path):
    out = tmp_path / "a run"  # the blank must survive in the command
    process = start("run", "decoupling", "--out", out, "--overwrite", *SMALL)
    wait_for_checkpoints(out, 5, process)
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130
    program, *again = shlex.split(err.strip().splitlines()[-1])
    assert program == "featscope"
    assert "--resume" in again
    assert "--overwrite" not in again
    assert "Traceback" not in err
    assert not (out / "claims.json").exists()
    code, stdout, err = finish(start(*again))
    assert code == 0, err
    assert str(out / "report.html") in stdout.replace("\n", "")
    assert_same_run(untouched, out)


def test_a_finished_run_resumes_to_itself_without_training(untouched, monkeypatch):
    before = checkpoints(untouched)
    claims = (untouched / "claims.json").read_text()
    monkeypatch.setattr(GradientTraining, "advance", None)
    in_this_process(monkeypatch, "run", "decoupling", "--out", untouched, *SMALL, "--resume")
    assert checkpoints(untouched) == before
    assert (untouched / "claims.json").read_text() == claims


def test_resuming_with_other_options_is_refused_and_names_them(untouched, capfd):
    environment = (untouched / "environment.json").read_text()
    with pytest.raises(SystemExit) as ended:
        main(["run", "decoupling", "--out", str(untouched), *SMALL, "--resume", "--optimizer.lr", "0.5", "--seed", "3"])
    assert ended.value.code == 2
    err = capfd.readouterr().err
    assert "--seed: 0 -> 3" in err
    assert "--optimizer.lr: 0.25 -> 0.5" in err
    assert (untouched / "environment.json").read_text() == environment


def test_the_folder_tells_what_was_run(untouched):
    plan = json.loads((untouched / "config.json").read_text())
    assert (plan["study"], plan["seed"], plan["replicas"], plan["device"]) == ("decoupling", 0, 2, "cpu")
    assert plan["config"]["data"] == {
        "type": "featscope.data.sparse_coding:SparseCoding",
        "features": 6,
        "input_dim": 32,
        "dictionary": "hadamard",
        "sparsity": 2.0,
        "noise": 1.0,
    }
    environment = json.loads((untouched / "environment.json").read_text())
    assert environment["packages"]["torch"] == version("torch")
    assert 0 < environment["seconds"] < 600
