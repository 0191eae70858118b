"""One run for each folder at a time."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from featscope.commands.compare import compare
from featscope.commands.stored import export_run
from featscope.options import ConfigError
from featscope.runs import Settings, lock, run
from featscope.runs.folder import RunFolder
from featscope.runs.lock import NAME, Lock
from featscope.runs.workers import in_worker
from swept import Pull

HOLD = """
import os, sys, time
from pathlib import Path
from featscope.runs.lock import Lock
lock = Lock(Path(sys.argv[1]))
if not os.fork():  # a worker that outlives the process that holds the lock
    print(os.getpid(), flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: 1)


@pytest.mark.parametrize("how", [{}, {"resume": True}, {"overwrite": True}])
def test_a_second_run_is_refused_and_told_who_holds_the_folder(tmp_path, how):
    out = tmp_path / "run"
    run(Pull(), Settings(), out)
    with RunFolder.held(out, resume=True):
        before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
        said = r"^out = .* is held by this process \(since 20.*\): close\(\) the Monitor or end the run that is in it"
        with pytest.raises(ConfigError, match=said):
            run(Pull(), Settings(), out, **how)
        assert {file: file.read_bytes() for file in out.rglob("*") if file.is_file()} == before
    assert not (out / NAME).exists()


def test_a_run_that_began_in_a_new_folder_keeps_others_out_of_it(tmp_path):
    out = tmp_path / "new"
    refused = []

    def train(folder, shards, device):
        for how in ({}, {"resume": True}, {"overwrite": True}):
            with pytest.raises(ConfigError, match="is held by this process"):
                run(Pull(), Settings(), out, **how)
            refused.append(how)
        raise ConfigError("refused, too")

    with pytest.raises(ConfigError, match="refused, too"):
        run(Pull(), Settings(), out, train=train)
    assert len(refused) == 3
    assert not out.exists()


def test_the_lock_ends_with_its_process_however_that_ends_and_not_with_its_workers(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    worker = int(process.stdout.readline())
    try:
        with pytest.raises(ConfigError, match=rf"another run \(process {process.pid} on '.+', since 20.*: wait"):
            RunFolder.held(tmp_path).__enter__()
        process.kill()
        process.wait()
        os.kill(worker, 0)  # it lives
        with RunFolder.held(tmp_path):  # as if nothing were in it
            pass
        assert not (tmp_path / NAME).exists()
    finally:
        os.kill(worker, signal.SIGKILL)
        process.stdout.close()


def test_a_worker_of_its_own_neither_keeps_nor_ends_the_lock(tmp_path, monkeypatch):
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: 2)
    held = Lock(tmp_path)
    assert in_worker(lambda: (held.release(), len(lock._held))[1]) == 0
    with pytest.raises(ConfigError, match="is held"):
        Lock(tmp_path)
    held.release()
    held.release()
    Lock(tmp_path).release()
    assert list(tmp_path.iterdir()) == []
    assert not lock._held


def test_a_lock_file_that_is_removed_while_another_opens_it_holds_nobody_twice(tmp_path, monkeypatch):
    first = Lock(tmp_path)
    opened = os.open

    def open_and_lose(*words):
        handle = opened(*words)
        monkeypatch.setattr(os, "open", opened)
        first.release()  # after the second has opened the file
        return handle

    monkeypatch.setattr(os, "open", open_and_lose)
    second = Lock(tmp_path)
    with pytest.raises(ConfigError, match="is held"):
        Lock(tmp_path)
    second.release()


@pytest.mark.parametrize("content", ["", "{", '{"pid": "x"}', "[]"])
def test_a_holder_that_has_not_said_who_it_is_is_another_run(tmp_path, content):
    held = Lock(tmp_path)
    (tmp_path / NAME).write_text(content)
    with pytest.raises(ConfigError, match="is held by another run: wait"):
        Lock(tmp_path)
    held.release()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_where_there_are_no_locks_all_goes_on(tmp_path, monkeypatch, number):
    def none(handle, how):
        raise OSError(number, "no locks")

    monkeypatch.setattr(lock.fcntl, "flock", none)
    run(Pull(), Settings(), tmp_path / "run")
    assert not (tmp_path / "run" / NAME).exists()
    monkeypatch.setattr(lock, "fcntl", None)
    run(Pull(), Settings(), tmp_path / "run", overwrite=True)


def test_a_lock_file_that_leads_elsewhere_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    out = tmp_path / "run"
    out.mkdir()
    (out / NAME).symlink_to(tmp_path / "thesis.tex")
    with pytest.raises(ConfigError, match="cannot be written"):
        run(Pull(), Settings(), out)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_what_the_file_says_is_json(tmp_path):
    held = Lock(tmp_path)
    assert set(json.loads((tmp_path / NAME).read_text())) == {"pid", "host", "since"}
    held.release()


def test_a_folder_of_others_stays_as_it_is(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="holds files, and no run"), RunFolder.held(Path(tmp_path)):
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_who_reads_a_folder_that_is_held_names_it_by_its_own_option(tmp_path):
    one, other = (run(Pull(), Settings(), tmp_path / name).folder for name in ("one", "other"))
    with RunFolder.held(one, resume=True):
        with pytest.raises(ConfigError, match=r"^FOLDER = .*one' is held by"):
            export_run([str(one)])
        with pytest.raises(ConfigError, match=r"^FOLDERS = .*one' is held by"):
            compare([str(one), str(other)])
