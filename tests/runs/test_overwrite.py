"""A run that is to be overwritten is there until nothing more can refuse the new one."""

import json
import re
from errno import ENOSPC

import pytest

import swept
from featscope.commands import run as commands
from featscope.options import ConfigError, MissingExtraError
from featscope.runs import Settings, execute, run
from featscope.training import DivergedError
from swept import Pull


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: 1)


@pytest.mark.parametrize(
    "error",
    [ConfigError("no such folder"), MissingExtraError("a part", "parts"), DivergedError("the loss", 0, 0), None],
    ids=["data", "extra", "diverged", "memory"],
)
def test_a_refused_run_leaves_the_one_that_it_was_to_overwrite(tmp_path, monkeypatch, error):
    run(Pull(), Settings(), tmp_path)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*.*")}

    def refuse(*_):
        raise error

    with monkeypatch.context() as patch:
        if error is not None:
            patch.setattr(swept.Values, "build", refuse)
        with pytest.raises((ConfigError, MissingExtraError, DivergedError)):
            run(Pull(), Settings(memory_limit=None if error else 1e-9), tmp_path, overwrite=True)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.*")} == before
    run(Pull(), Settings(seed=1), tmp_path, overwrite=True)
    assert json.loads((tmp_path / "config.json").read_text())["seed"] == 1


def test_an_interrupt_before_the_first_step_leaves_it_too(tmp_path, monkeypatch):
    run(Pull(), Settings(), tmp_path)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*.*")}

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(execute, "_fitting", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(Pull(), Settings(), tmp_path, overwrite=True)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.*")} == before


@pytest.mark.parametrize(
    ("where", "error", "said"),
    [
        ("_fitting", KeyboardInterrupt(), "interrupted; nothing was begun, and .* as it was. Go on with:"),
        ("_fitting", OSError(ENOSPC, "full"), "Nothing was begun, and .* is as it was. Go on with:"),
        ("with_history", KeyboardInterrupt(), "interrupted; what was done is saved. Go on with:"),
    ],
)
def test_what_is_printed_does_not_go_on_with_the_run_that_was_to_be_replaced(
    tmp_path, monkeypatch, capsys, where, error, said
):
    run(Pull(), Settings(), tmp_path)

    def stop(*_):
        raise error

    monkeypatch.setattr(execute, where, stop)
    commands.execute(Pull(), Settings(), tmp_path, ["run", "pull", "--out", str(tmp_path)], overwrite=True)
    told = capsys.readouterr().err
    assert re.search(said, told)
    assert f"featscope run pull {'--overwrite' if where == '_fitting' else '--resume'} --out" in told


def test_a_run_that_is_refused_when_it_trains_leaves_nothing_of_either(tmp_path):
    run(Pull(), Settings(), tmp_path)

    def train(folder, shards, device):
        raise ConfigError("refused")

    with pytest.raises(ConfigError, match="refused"):
        run(Pull(), Settings(), tmp_path, overwrite=True, train=train)
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_an_option_that_no_file_can_hold_leaves_it_too(tmp_path):
    run(Pull(), Settings(), tmp_path)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*.*")}
    with pytest.raises(ConfigError, match=r"Pull\.signals = .* cannot be stored"):
        run(Pull(signals="/\udcff"), Settings(), tmp_path, overwrite=True)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.*")} == before
