"""A run is paused, goes on and is stopped by a word in its folder, and tells how far it is."""

import json
import os
import threading
import time
from functools import partial
from types import SimpleNamespace

import pytest

from featscope.runs import Settings, run, workers
from featscope.runs.asked import NAME, ask, asked
from featscope.runs.progress import NAME as PROGRESS
from featscope.runs.progress import Part, ProgressBoard
from featscope.runs.workers import InterruptedRunError, train_all
from featscope.watch.address import Address, keep_address, read_address
from featscope.watch.state import look
from swept import Pull

LONG = Pull(steps=2_000_000, probe_every=1_000_000)


def done(folder) -> float:
    """Steps that a run says it has done."""
    return sum(arm["done"] for arm in json.loads((folder / PROGRESS).read_text())["arms"])


def until(condition, seconds: float = 30) -> bool:
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        try:
            if condition():
                return True
        except (OSError, ValueError):
            pass
        time.sleep(0.05)
    return False


def test_steps_that_were_resumed_are_told_at_once(monkeypatch):
    """Held back, the last of a shard would be lost, or be counted as computed now."""
    told: list[tuple[int, float, str]] = []

    def compute(index, stopped, progress):
        for _ in range(3):
            progress(10.0, "resumed")

    work = SimpleNamespace(
        compute=compute,
        stop=threading.Event(),
        pause=SimpleNamespace(value=False),
        reports=SimpleNamespace(put=told.append),
    )
    monkeypatch.setattr(workers, "_work", work)
    workers._compute(0)
    assert told == [(0, 10.0, "resumed")] * 3


@pytest.mark.parametrize("cores", [1, 2])
def test_it_pauses_goes_on_and_stops(tmp_path, monkeypatch, cores):
    """In this process, and in workers."""
    folder, seen = tmp_path / "run", {}
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: cores)
    monkeypatch.setattr("featscope.runs.progress._SECONDS_BETWEEN_FILES", 0.1)

    def somebody() -> None:
        seen["begins"] = until(lambda: done(folder) > 0)
        ask(folder, "pause")
        seen["pauses"] = until(lambda: json.loads((folder / PROGRESS).read_text())["state"] == "paused")
        time.sleep(0.5)
        before = done(folder)
        time.sleep(0.7)
        seen["waits"] = done(folder) == before
        ask(folder, "")
        seen["goes on"] = until(lambda: done(folder) > before)
        ask(folder, "stop")

    watcher = threading.Thread(target=somebody)
    watcher.start()
    with pytest.raises(InterruptedRunError):
        run(LONG, Settings(replicas=2), folder)
    watcher.join()
    assert seen == {"begins": True, "pauses": True, "waits": True, "goes on": True}
    assert not (folder / NAME).exists()
    assert not (folder / PROGRESS).exists()
    assert list((folder / "checkpoint").iterdir())


def test_a_wish_from_before_is_forgotten(tmp_path, monkeypatch):
    """Of a run that was killed while it was to stop: the next one trains to its end."""
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: 1)
    folder = tmp_path / "run"
    folder.mkdir()
    ask(folder, "stop")
    run(Pull(), Settings(replicas=2), folder)
    assert asked(folder) == ""


@pytest.mark.parametrize("content", [b"", b"dance", b"pausestop", b"\xff" * 100_000])
def test_what_is_not_understood_is_no_wish(tmp_path, content):
    (tmp_path / NAME).write_bytes(content)
    assert asked(tmp_path) == ""


def test_a_link_or_a_folder_is_no_wish(tmp_path):
    (tmp_path / "elsewhere").write_text("stop")
    (tmp_path / NAME).symlink_to(tmp_path / "elsewhere")
    assert asked(tmp_path) == ""
    (tmp_path / NAME).unlink()
    (tmp_path / NAME).mkdir()
    assert asked(tmp_path) == ""


def test_windows_which_has_no_such_flags_and_no_user_ids_is_asked_too(tmp_path, monkeypatch):
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "getuid"):
        monkeypatch.delattr(os, name)
    ask(tmp_path, "stop")
    assert asked(tmp_path) == "stop"
    with ProgressBoard([Part("a", "a", 1, 1)], tmp_path, show="quiet") as board:
        assert board.wish() == "stop"
        assert [arm["label"] for arm in look(tmp_path)["arms"]] == ["a"]
    kept = Address(4000, "a" * 43)
    keep_address(tmp_path, kept)
    assert read_address(tmp_path) == kept


def test_what_cannot_pause_is_not_paused(tmp_path):
    ask(tmp_path, "pause")
    assert ProgressBoard([Part("a", "a", 1, 1)], tmp_path, can_pause=False).wish() == ""
    assert ProgressBoard([Part("a", "a", 1, 1)], tmp_path).wish() == "pause"


def test_the_line_names_the_arm_its_place_and_the_number(monkeypatch, capsys):
    monkeypatch.setattr("featscope.runs.progress._SECONDS_BETWEEN_LINES", 0)
    with ProgressBoard([Part("plain", "plain", 10, 5), Part("masked", "with masking", 10, 5)]) as board:
        board.advance("masked", 3, "loss 0.25")
    assert "masked (2 of 2): 3/10" in (said := capsys.readouterr().err)
    assert "loss 0.25" in said


def test_quiet_says_nothing_and_json_an_event_a_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("featscope.runs.progress._SECONDS_BETWEEN_LINES", 0)
    run(Pull(), Settings(replicas=2), tmp_path / "quiet", train=partial(train_all, show="quiet"))
    assert capsys.readouterr() == ("", "")
    run(Pull(), Settings(replicas=2), tmp_path / "json", train=partial(train_all, show="json"))
    out, err = capsys.readouterr()
    events = [json.loads(line) for line in out.splitlines()]
    assert err == ""
    assert {event["event"] for event in events} == {"progress"}
    ends = {event["arm"]: event for event in events}
    assert {arm: (end["place"], end["of"], end["done"] == end["steps"]) for arm, end in ends.items()} == {
        "pulled": (1, 2, True),
        "other": (2, 2, True),
    }


def test_the_time_left_follows_the_pace_of_the_arm_on_its_way(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("featscope.runs.progress.time.monotonic", lambda: now[0])
    board = ProgressBoard([Part("fast", "fast", 100, 100), Part("slow", "slow", 10, 10)], show="quiet")
    assert board._left() is None
    now[0] = 110.0
    board.advance("fast", 100, "")
    board.advance("slow", 0, "starting")
    now[0] = 120.0
    board.advance("slow", 2, "")
    assert board._left() == pytest.approx(40)  # eight more, of five seconds each
