"""What computed a run, and that several did."""

import json
import subprocess
from pathlib import Path

import pytest

from featscope.commands.run import execute as in_terminal
from featscope.report.run_report import report_run
from featscope.runs import Settings, execute, run
from featscope.runs.checksum import sealed
from featscope.runs.environment import _revision, environment, mixed, with_history
from featscope.runs.stored import read_environment
from swept import Pull

HERE = {
    "python": "3.11.4",
    "packages": {"featscope": "0.1.0", "torch": "2.6.0", "numpy": "2.0.0"},
    "platform": "Linux",
    "processor": "a",
    "cores": 2,
    "device": "cpu",
    "git_revision": "abc",
}


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: 1)


def elsewhere(**changed):
    return HERE | changed | {"packages": HERE["packages"] | changed.get("packages", {})}


def written(out: Path) -> dict:
    return read_environment(out)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"python": "3.13.0"}, "Python (3.11.4, then 3.13.0)"),
        ({"packages": {"torch": "2.7.0"}}, "torch (2.6.0, then 2.7.0)"),
        ({"packages": {"numpy": "1.26.0"}}, "numpy (2.0.0, then 1.26.0)"),
        ({"packages": {"featscope": "0.2.0"}}, "featscope (0.1.0, then 0.2.0)"),
        ({"git_revision": None}, "revision (abc, then unknown)"),
        ({"platform": "macOS"}, "platform (Linux, then macOS)"),
        ({"device": "NVIDIA H100"}, "device (cpu, then NVIDIA H100)"),
        (
            {"study": {"package": "mine", "version": "1", "revision": None}, "processor": "b"},
            "study (unknown, then mine 1), processor (a, then b)",
        ),
    ],
)
def test_whatever_changes_is_told_and_nothing_is_overwritten(changed, told):
    first = with_history(HERE, None)
    assert first["history"] == []
    second = with_history(elsewhere(**changed), first | {"seconds": 3.0})
    assert second["history"] == [HERE | {"since": first["since"]}]
    assert second["seconds"] == 3.0
    assert (
        mixed(second)
        == f"This run is mixed, and its numbers may depend on it: from part to part these changed: {told}."
    )
    third = with_history(HERE, second)
    assert third["history"] == [*second["history"], elsewhere(**changed) | {"since": second["since"]}]
    assert mixed(third).count("then") == 2 * mixed(second).count("then")


def test_what_changes_no_number_is_no_change():
    first = with_history(HERE, None)
    second = with_history(elsewhere(cores=64, packages={"transformers": "5"}), first)
    assert (second["history"], second["since"], mixed(second)) == ([], first["since"], "")


def test_a_file_of_an_older_version_has_neither_times_nor_history():
    assert mixed(HERE) == ""
    assert with_history(HERE, HERE | {"seconds": 2.0}) == HERE | {"seconds": 2.0, "since": None, "history": []}
    assert with_history(elsewhere(python="3.13.0"), HERE)["history"] == [HERE | {"since": None}]


def test_a_mixed_run_says_so_in_the_terminal_and_on_the_page(tmp_path, monkeypatch, capfd):
    out = tmp_path / "run"
    monkeypatch.setattr("featscope.commands.run.report_run", lambda out: report_run(out, Pull()))

    def again(resume: bool = True) -> str:
        assert in_terminal(Pull(), Settings(), out, ["run", "pull"], resume)[0] == 0
        return " ".join(capfd.readouterr().out.split())

    assert "This run is mixed" not in again(resume=False)
    assert "This run is mixed" not in (out / "report.html").read_text()
    first = written(out)
    assert "This run is mixed" not in again()
    before, claims = written(out), (out / "claims.json").read_bytes()
    assert (before["history"], before["since"]) == ([], first["since"])
    packages = environment("cpu")["packages"] | {"torch": "1.0 <b>"}
    monkeypatch.setattr(execute, "environment", lambda *a: environment(*a) | {"packages": packages})
    said = f"torch ({before['packages']['torch']}, then 1.0 <b>)."
    assert said in again()
    page = (out / "report.html").read_text()
    assert said.replace("<b>", "&lt;b&gt;") in page
    assert page.index("<h1") < page.index("This run is mixed") < page.index("</section>")
    assert written(out)["history"] == [{name: before[name] for name in before if name not in ("history", "seconds")}]
    assert written(out)["seconds"] > before["seconds"]
    assert (out / "claims.json").read_bytes() == claims


def test_a_run_of_an_older_version_is_resumed_and_shown(tmp_path):
    out = tmp_path / "run"
    run(Pull(), Settings(), out)
    old = {name: value for name, value in written(out).items() if name not in ("history", "since")}
    (out / "environment.json").write_text(json.dumps(old))
    assert "Machine" in report_run(out, Pull()).read_text()
    assert run(Pull(), Settings(), out, resume=True).mixed == ""
    (out / "environment.json").write_text(json.dumps(old | {"python": "3.9.1"}))
    assert "Python (3.9.1, then" in run(Pull(), Settings(), out, resume=True).mixed
    assert written(out)["history"][0]["since"] is None


def test_a_killed_git_is_asked_again(monkeypatch):
    asked, answer = [], subprocess.run

    def killed_at_first(words, **how):
        asked.append(words)
        if len(asked) % 2:
            return subprocess.CompletedProcess(words, -9, "", "")
        return answer(words, **how)

    found = _revision(Path(__file__))
    monkeypatch.setattr(subprocess, "run", killed_at_first)
    assert _revision(Path(__file__)) == found
    assert len(asked) in (2, 4)  # it is asked once where there is no checkout


def test_a_run_whose_time_is_unknown_goes_on(tmp_path):
    out = run(Pull(), Settings(), tmp_path / "run").folder
    stored = {name: value for name, value in written(out).items() if name != "checksum"}
    (out / "environment.json").write_bytes(sealed(stored | {"seconds": None}))
    run(Pull(), Settings(), out, resume=True)
    assert written(out)["seconds"] >= 0
