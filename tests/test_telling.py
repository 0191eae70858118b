"""What a run tells: to people, to programs, and if it is to be quiet."""

import json
import os
import subprocess
import sys
from pathlib import Path

import claiming
import pytest

from featscope.commands import run as commands
from in_terminal import call
from processes import finish, start
from swept import installed


def test_out_of_a_terminal_a_short_run_says_nothing_until_the_verdicts(capfd, tmp_path, monkeypatch):
    """And without --out it makes a folder below runs/, which `report` finds again."""
    package = claiming.installed(tmp_path / "package")
    monkeypatch.syspath_prepend(package)
    path = [package, str(Path(claiming.__file__).parent), str(Path(__file__).parent)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
    code, out, err = finish(start("run", "claiming", "--seed", "-3", cwd=tmp_path, env=environment))
    assert code == 0, err
    assert err == ""
    assert "\x1b" not in out
    assert "stays-near" in out
    assert out.count("claims expected to hold at this size do.") == 1
    assert "report: runs/claiming-" in out
    (made,) = (tmp_path / "runs").iterdir()
    assert json.loads((made / "claims.json").read_text())["seed"] == -3
    code, out, err = call(capfd, "report", made)
    assert code == 0, err
    assert (made / "report.html").stat().st_size > 10_000
    assert list((made / "figures").glob("*.png"))


def test_a_run_for_machines_is_an_event_a_line(tmp_path, monkeypatch, capfd):
    installed(tmp_path / "package")
    monkeypatch.syspath_prepend(tmp_path / "package")
    monkeypatch.setattr(commands, "report_run", lambda out: out / "report.html")
    code, out, err = call(capfd, "run", "pull", "--json", "--out", tmp_path / "run")
    assert (code, err) == (0, "")
    events = [json.loads(line) for line in out.splitlines()]
    assert (events[0]["event"], events[0]["arms"]) == ("began", ["pulled", "other"])
    assert (events[-1]["event"], events[-1]["code"], events[-1]["newer"]) == ("finished", 0, {})
    code, out, err = call(capfd, "run", "pull", "--json", "--out", tmp_path / "bad", "--optimizer.lr", "1e30")
    assert code == 3
    last = json.loads(out.splitlines()[-1])
    assert (last["event"], last["code"]) == ("failed", 3)
    assert "is not finite at step" in err


def test_a_run_whose_events_nobody_reads_is_not_done(tmp_path):
    reads, writes = os.pipe()
    os.close(reads)
    words = [sys.executable, "-c", "from featscope.cli import main; main()", "run", "pull", "--json", "--out"]
    env = installed(tmp_path / "package")
    env["PYTHONPATH"] += os.pathsep + os.environ.get("PYTHONPATH", "")
    told = subprocess.run([*words, tmp_path / "run"], stdout=writes, stderr=subprocess.PIPE, env=env, text=True)
    os.close(writes)
    assert told.returncode == 4, told.stderr
    assert "the system says Broken pipe." in told.stderr
    assert "--resume" not in told.stderr  # nothing was begun


def test_a_run_whose_reader_is_stopped_with_it_says_how_to_go_on(tmp_path, capfd, monkeypatch):
    """Ctrl-C in a pipe ends both."""
    event = commands.Telling.event

    def nobody_reads(telling, name, **more):
        if name == "interrupted":
            raise BrokenPipeError
        event(telling, name, **more)

    def stopped(*_, **__):
        raise KeyboardInterrupt

    installed(tmp_path / "package")
    monkeypatch.syspath_prepend(tmp_path / "package")
    monkeypatch.setattr(commands.Telling, "event", nobody_reads)
    monkeypatch.setattr(commands, "run", stopped)
    code, _, err = call(capfd, "run", "pull", "--json", "--out", tmp_path / "run")
    assert code == 130
    assert "interrupted; nothing was begun. Go on with:" in err


def test_a_run_that_is_refused_after_it_has_begun_says_so(tmp_path, capfd, monkeypatch):
    installed(tmp_path / "package")
    monkeypatch.syspath_prepend(tmp_path / "package")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").touch()
    code, out, err = call(capfd, "run", "pull", "--json", "--out", tmp_path / "run")
    assert code == 2
    *_, last = map(json.loads, out.splitlines())
    assert (last["event"], last["code"]) == ("failed", 2)
    assert last["why"] in err
    code, out, err = call(capfd, "run", "pull", "--json", "--memory-limit", "1e-9", "--out", tmp_path / "small")
    assert (code, json.loads(out.splitlines()[-1])["why"].split()[0]) == (2, "--memory-limit")


def test_a_quiet_run_prints_what_was_found_only(tmp_path, monkeypatch, capfd):
    installed(tmp_path / "package")
    monkeypatch.syspath_prepend(tmp_path / "package")
    monkeypatch.setattr(commands, "report_run", lambda out: out / "report.html")
    code, out, err = call(capfd, "run", "pull", "--quiet", "--out", tmp_path / "run")
    assert (code, out, err) == (0, "Nothing is claimed; the figures show what was measured.\n", "")


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("", ZeroDivisionError("by zero")),
        ("--quiet", AssertionError("none of them")),
        ("--json", ZeroDivisionError("by zero")),
    ],
    ids=repr,
)
def test_a_story_that_raises_after_all_is_measured_costs_its_sentence_alone(tmp_path, monkeypatch, capfd, error, how):
    def story(self, runs, claims):
        raise error

    package = claiming.installed(tmp_path / "package")
    monkeypatch.syspath_prepend(package)
    monkeypatch.setattr(claiming.Claiming, "story", story)
    out = tmp_path / "run"
    with pytest.warns(UserWarning, match="claiming cannot read .*, so its report shows only what is stored"):
        code, printed, _ = call(capfd, "run", "claiming", *filter(None, [how]), "--out", out)
    assert code == 0
    found = printed if how != "--json" else json.loads(printed.splitlines()[-1])["found"]
    assert f"What was found cannot be told: {type(error).__name__}: {error} (test_telling.py, line " in found
    assert all((out / name).is_file() for name in ("claims.json", "trajectory.nc", "report.html"))
