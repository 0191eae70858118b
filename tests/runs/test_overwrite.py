"""A run that is to be overwritten is there until nothing more can refuse the new one."""

import json

import pytest

import swept
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

    monkeypatch.setattr(execute, "_shard_size", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(Pull(), Settings(), tmp_path, overwrite=True)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.*")} == before


def test_a_run_that_is_refused_when_it_trains_leaves_nothing_of_either(tmp_path):
    run(Pull(), Settings(), tmp_path)

    def train(folder, shards, device):
        raise ConfigError("refused")

    with pytest.raises(ConfigError, match="refused"):
        run(Pull(), Settings(), tmp_path, overwrite=True, train=train)
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []
