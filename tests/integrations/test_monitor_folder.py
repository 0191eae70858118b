"""The run folder of a training of one's own: who holds it, what stays in it, and what reads it."""

import re
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from featscope.commands.stored import list_runs
from featscope.integrations import Monitor
from featscope.options import ConfigError
from featscope.report.comparison import write_comparison
from featscope.report.run_report import report_run
from featscope.runs.compared import read_runs
from featscope.runs.folder import RunFolder
from featscope.runs.stored import read_claims, read_trajectory
from featscope.watch.pages import Pages
from featscope.watch.state import look

NOT_CLOSED = """
import sys
import torch
from featscope.integrations import Monitor
monitor = Monitor(torch.nn.Linear(4, 3), [torch.randn(8, 4)], layer="", out=sys.argv[1])
"""


def watched(out: Path, **options) -> Monitor:
    net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    return Monitor(net, [(torch.randn(36, 6), torch.arange(36) % 3)], out=out, neighbours=5, **options)


def files(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def refuse(*_):
    raise ValueError("wants `reduce`")


def interrupt(*_):
    raise KeyboardInterrupt


REFUSED = pytest.mark.parametrize(
    ("how", "error"),
    [({"reduce": refuse}, ValueError), ({"reduce": interrupt}, KeyboardInterrupt), ({"log": refuse}, ValueError)],
    ids=["reduce", "interrupted", "log"],
)


@REFUSED
def test_what_cannot_be_watched_leaves_no_folder_and_holds_none(tmp_path, how, error):
    with pytest.raises(error) as kept:  # with its frames, as a notebook keeps them
        watched(tmp_path / "new" / "run", **how)
    assert list(tmp_path.iterdir()) == []
    watched(tmp_path / "new" / "run").close()
    assert kept.tb is not None


@REFUSED
def test_what_cannot_be_watched_leaves_the_run_that_it_was_to_overwrite(tmp_path, how, error):
    watched(tmp_path).close()
    before = files(tmp_path)
    with pytest.raises(error):
        watched(tmp_path, overwrite=True, **how)
    assert files(tmp_path) == before
    watched(tmp_path, overwrite=True, about={"lr": 0.1}).close()
    assert files(tmp_path) != before


def test_a_folder_that_can_no_longer_be_written_does_not_end_training(tmp_path):
    out, monitor = tmp_path / "run", watched(tmp_path / "run", every=1)
    monitor.step()
    away = out.rename(tmp_path / "away")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        monitor.step()
        monitor.step()
    (said,) = map(str, (one.message for one in told))
    assert re.search(r"can no longer be written \(.*\)\. Training goes on", said)
    away.rename(out)
    monitor.step()
    assert read_trajectory(out)["training"]["step"].values.tolist() == [0, 1, 2, 3, 4]
    out.rename(tmp_path / "gone")
    with pytest.warns(UserWarning, match="can no longer be written"):
        monitor.close()


def test_a_second_monitor_is_told_that_the_first_is_not_closed(tmp_path):
    first = watched(tmp_path)
    for how in ({}, {"overwrite": True}):
        with pytest.raises(ConfigError, match=r"^out = .* is held by this process .*: close\(\) the Monitor"):
            watched(tmp_path, **how)
    first.close()
    with pytest.raises(ConfigError, match="holds a run: pass overwrite=True"):
        watched(tmp_path)
    watched(tmp_path, overwrite=True).close()


def test_a_monitor_that_nobody_has_any_more_holds_no_folder(tmp_path):
    monitor = watched(tmp_path)
    del monitor
    with RunFolder.held(tmp_path, resume=True):
        pass


def test_a_process_that_ends_with_a_monitor_that_is_not_closed_ends_quietly(tmp_path):
    ended = subprocess.run([sys.executable, "-c", NOT_CLOSED, tmp_path], capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    assert not list(tmp_path.glob(".*"))


def test_a_training_of_the_trainer_s_that_breaks_off_keeps_its_looks_and_holds_no_folder(tmp_path):
    """The Trainer's callbacks hear nothing of that, until the next training begins."""
    pytest.importorskip("transformers")
    from featscope.integrations.trainer import FeatScopeCallback

    class Held(nn.Linear):
        def forward(self, x):
            return SimpleNamespace(logits=super().forward(x))

    trainer, state = SimpleNamespace(log=lambda found: None), SimpleNamespace(global_step=0)
    watch = FeatScopeCallback(trainer, [{"x": torch.randn(16, 4)}], every=1, layer="", out=tmp_path)
    watch.on_train_begin(None, state, None, model=Held(4, 3))
    first = watch.watch  # as a notebook keeps it, with the frames of an error
    watch.on_step_begin(None, None, None)
    watch.on_step_end(None, None, None)
    watch.on_step_begin(None, None, None)
    watch.on_step_end(None, None, None)
    with pytest.raises(ConfigError, match="holds a run: pass overwrite=True"):
        watch.on_train_begin(None, state, None, model=Held(4, 3))
    assert read_trajectory(tmp_path)["training"]["step"].values.tolist() == [0, 1]
    with RunFolder.held(tmp_path, resume=True):
        pass
    assert first is not None


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_with_another_program_s_config_is_no_run(tmp_path, overwrite):
    """As that which a Trainer writes its models into."""
    written = {"config.json": '{"model_type": "bert"}', "model.safetensors": "weights"}
    for name, content in written.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError, match="holds files, and no run: choose another folder"):
        watched(tmp_path, overwrite=overwrite)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == written


def test_its_folder_is_followed_while_it_trains_and_afterwards(tmp_path):
    told = []
    monitor = watched(tmp_path / "run", every=2, log=lambda found, step: told.append(found))
    for _ in range(2):
        monitor.step(0.5)
    seen = look(tmp_path / "run")
    assert (seen["state"], seen["can_pause"], seen["arms"][0]["done"]) == ("running", False, 2)
    assert "loss 0.5" in seen["arms"][0]["status"]
    page = Pages(tmp_path / "run").report()
    assert "It goes on" in page
    assert "Effective rank" in page
    assert {name for name in told[0] if "class/" in name} == {f"featscope/accuracy_of_class/{k}" for k in range(3)}
    monitor.close()
    assert look(tmp_path / "run")["state"] == "finished"
    page = Pages(tmp_path / "run").report()
    assert "Effective rank" in page
    assert "It goes on" not in page


def test_report_compare_and_list_read_its_folder(tmp_path, capsys):
    for name, lr in (("one", 0.1), ("other", 0.2)):
        with watched(tmp_path / name, every=3, about={"lr": lr}) as monitor:
            for _ in range(6):
                monitor.step(0.5)
    page = report_run(tmp_path / "one").read_text()
    assert "Effective rank" in page
    assert "Accuracy class by class" in page
    assert "featscope run" not in page
    runs = read_runs([tmp_path / "one", tmp_path / "other"])
    page = write_comparison(runs, tmp_path / "page").read_text()
    assert "lr=0.2" in page
    assert "`about=` told is all that is known" in page.replace("<code>", "`").replace("</code>", "`")
    words = page.partition("<main")[2].partition("<script")[0]
    assert "lr=0.2" in words
    assert not [said for said in ("--seed", "claim by claim", "99 % interval", "from the same draws") if said in words]
    assert read_claims(tmp_path / "one") == []
    assert list_runs(tmp_path) == 0
    (row, _) = (line.split() for line in capsys.readouterr().out.splitlines() if "own-training" in line)
    assert "0" not in row  # no seed that nobody set
