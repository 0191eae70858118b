"""What computed a run, and that several did."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from featscope.axes import Axis
from featscope.commands.run import execute as in_terminal
from featscope.options import ConfigError
from featscope.report.run_report import report_run
from featscope.runs import Settings, execute, run
from featscope.runs import environment as module
from featscope.runs.checksum import sealed
from featscope.runs.environment import (
    _code_of,
    _revision,
    began,
    computed_by,
    environment,
    mixed,
    module_of,
    with_history,
)
from featscope.runs.execute import UnjudgedError
from featscope.runs.stored import read_environment
from featscope.runs.workers import InterruptedRunError, train_all
from featscope.studies.sweep import Sweep
from swept import Pull


def test_a_folder_that_has_the_name_of_a_package_is_none(monkeypatch, tmp_path):
    """It can be imported, and has no version."""
    (tmp_path / "datasets").mkdir()
    monkeypatch.syspath_prepend(tmp_path)

    def found(name: str) -> str:
        if name == "datasets":
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(module, "version", found)
    packages = environment("cpu")["packages"]
    assert "datasets" not in packages
    assert packages["torch"] == version("torch")


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
        ({"products": "MKL"}, "matrix products (unknown, then MKL)"),
        ({"kernels": "torch"}, "kernels (unknown, then torch)"),
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
    assert began(third | {"since": "2030-01-01T00:00:00Z"}) == first["since"].replace("T", " ")[:-1]
    assert (began(first | {"since": None}), began(HERE)) == ("", "")


def test_what_changes_no_number_is_no_change():
    first = with_history(HERE, None)
    second = with_history(elsewhere(cores=64, packages={"transformers": "5"}), first)
    assert (second["history"], second["since"], mixed(second)) == ([], first["since"], "")


def test_a_file_of_an_older_version_has_neither_times_nor_history():
    assert mixed(HERE) == ""
    assert with_history(HERE, HERE | {"seconds": 2.0}) == HERE | {"seconds": 2.0, "since": None, "history": []}
    assert with_history(elsewhere(python="3.13.0"), HERE)["history"] == [HERE | {"since": None}]


def _forget_a_shard(out: Path) -> None:
    """So that something is to be computed."""
    next((out / "checkpoint").glob("*.safetensors")).unlink()


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
    (out / "claims.json").write_text("damaged")
    assert said not in again()  # which writes files anew, and computes nothing
    assert written(out)["packages"] == before["packages"]
    _forget_a_shard(out)
    assert said in again()
    page = (out / "report.html").read_text()
    assert said.replace("<b>", "&lt;b&gt;") in page
    assert page.index("<h1") < page.index("This run is mixed") < page.index("</section>")
    assert written(out)["history"] == [
        {name: before[name] for name in before if name not in ("history", "seconds", "threads")}
    ]
    assert written(out)["seconds"] > before["seconds"]
    assert (out / "claims.json").read_bytes() == claims


@dataclass(frozen=True)
class Large(Pull):
    """With enough weights for several threads."""

    width: int = 2**16

    def arms(self):
        return super().arms()[:1]


def test_threads_that_trained_are_stored_and_others_make_a_large_run_mixed(tmp_path, monkeypatch):
    cores = iter([2, 2, 1, 2])
    monkeypatch.setattr("featscope.runs.execute.worker_count", lambda device: 2)
    monkeypatch.setattr("featscope.runs.workers.worker_count", lambda device: 1)
    monkeypatch.setattr("featscope.runs.workers.cores", lambda: next(cores))

    def half(folder, shards, device):
        train_all(folder, shards[:1], device)
        raise KeyboardInterrupt

    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run(Large(), Settings(replicas=2), out, train=half)
    run(Large(), Settings(replicas=2), tmp_path / "whole")
    assert (written(tmp_path / "whole")["threads"], mixed(written(tmp_path / "whole"))) == ([2], "")
    again = run(Large(), Settings(replicas=2), out, resume=True)
    assert "threads (1 and 2)" in again.mixed
    assert written(out)["threads"] == [1, 2]
    small = run(Pull(), Settings(replicas=2), tmp_path / "small")
    assert (written(small.folder)["threads"], small.mixed) == ([1], "")


def test_a_run_of_an_older_version_is_resumed_and_shown(tmp_path):
    out = tmp_path / "run"
    run(Pull(), Settings(), out)
    old = {name: value for name, value in written(out).items() if name not in ("history", "since")}
    (out / "environment.json").write_text(json.dumps(old))
    assert "Machine" in report_run(out, Pull()).read_text()
    assert run(Pull(), Settings(), out, resume=True).mixed == ""
    (out / "environment.json").write_text(json.dumps(old | {"python": "3.9.1"}))
    _forget_a_shard(out)
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
    assert len(asked) in (2, 6)  # it is asked once where there is no checkout


def test_a_run_whose_time_is_unknown_goes_on(tmp_path):
    out = run(Pull(), Settings(), tmp_path / "run").folder
    stored = {name: value for name, value in written(out).items() if name != "checksum"}
    (out / "environment.json").write_bytes(sealed(stored | {"seconds": None}))
    run(Pull(), Settings(), out, resume=True)
    assert written(out)["seconds"] >= 0


def test_time_before_an_interruption_counts(tmp_path):
    out, times = tmp_path / "run", [0.0]

    def interrupted(*shards):
        train_all(*shards)
        raise KeyboardInterrupt

    for resume in (False, True):
        with pytest.raises(KeyboardInterrupt):
            run(Pull(), Settings(), out, resume=resume, train=interrupted)
        times.append(written(out)["seconds"])
    run(Pull(), Settings(), out, resume=True)
    times.append(written(out)["seconds"])
    assert times == sorted({*times})


def test_what_a_run_took_hides_neither_why_it_ended_nor_stays_of_one_that_was_refused(tmp_path):
    def refused(*_):
        raise ConfigError("refused")

    with pytest.raises(ConfigError, match="refused"):
        run(Pull(), Settings(), tmp_path / "refused", train=refused)
    assert not (tmp_path / "refused").exists()

    def removed(folder, *_):
        shutil.rmtree(folder.path)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(Pull(), Settings(), tmp_path / "removed", train=removed)


def test_the_time_of_a_run_that_cannot_be_judged_is_known(tmp_path, monkeypatch):
    def broken(*_):
        raise LookupError("an arm")

    monkeypatch.setattr(Pull, "claims", broken)
    with pytest.raises(UnjudgedError):
        run(Pull(), Settings(), tmp_path / "run")
    assert written(tmp_path / "run")["seconds"] > 0


def committed(folder: Path) -> None:
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True)


def test_every_state_of_uncommitted_code_has_a_name_of_its_own(tmp_path):
    package = tmp_path / "mine" / "inner"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    module = package / "study.py"
    module.write_text("a = 1")
    committed(tmp_path)
    code = _code_of(module)
    assert code == package.parent
    clean = _revision(code)
    assert "dirty" not in clean
    (tmp_path / "notes.md").write_text("beside the code")
    (package / "notes.md").write_text("in it")
    assert _revision(code) == clean
    names = [clean]
    for change in ("a = 2", "a = 3"):
        module.write_text(change)
        names.append(_revision(code))
    (package / "new.py").write_text("b = 1")
    names.append(_revision(code))
    assert len({*names}) == 4
    assert all(name.startswith(f"{clean}-dirty-") for name in names[1:])
    alone = tmp_path / "script.py"
    alone.write_text("c = 1")
    assert _code_of(alone) == alone
    assert _revision(alone) is None  # in no commit


@pytest.mark.parametrize("folder", ["Kapitel 3", "Größen"])
def test_uncommitted_code_is_seen_in_folders_of_any_name(tmp_path, folder):
    module = tmp_path / folder / "study.py"
    module.parent.mkdir()
    module.write_text("a = 1")
    committed(tmp_path)
    clean = _revision(module)
    assert "dirty" not in clean
    module.write_text("a = 2")
    assert _revision(module).startswith(f"{clean}-dirty-")


def test_a_script_is_told_by_its_name_and_code(tmp_path, monkeypatch):
    script = tmp_path / "try.py"
    script.write_text("a = 1")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(script), raising=False)
    first = environment("cpu", "__main__")["study"]
    assert first["package"] == "try.py"
    script.write_text("a = 2")
    assert environment("cpu", "__main__")["study"]["revision"] != first["revision"]
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "<stdin>")
    assert environment("cpu", "__main__")["study"]["revision"] is None


def test_what_is_installed_and_in_no_repository_is_told_by_its_code(tmp_path, monkeypatch):
    package = tmp_path / "theirs_installed"
    package.mkdir()
    (package / "__init__.py").write_text("a = 1")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(module, "_distributions", lambda places: {"theirs_installed": ["numpy"]})
    import_module("theirs_installed")
    first = environment("cpu", "theirs_installed")["study"]
    (package / "__init__.py").write_text("a = 2")
    assert environment("cpu", "theirs_installed")["study"]["revision"] != first["revision"]


def test_a_sweep_and_a_trend_are_of_the_module_of_their_study():
    inner = SimpleNamespace(arms=None)
    for study in (inner, SimpleNamespace(study=inner), SimpleNamespace(study=SimpleNamespace(study=inner, arms=None))):
        assert module_of(study) == "types"
    assert module_of(Sweep(Pull(), (Axis("optimizer.lr", (0.1,)),))) == Pull.__module__ == "swept"


def test_who_computed_what_was_done_is_known_of_an_interrupted_run(tmp_path):
    def interrupted(*given):
        error = InterruptedRunError("in the middle")
        error.computed_by = [environment("cpu", "swept") | {"processor": "another"}]
        raise error

    with pytest.raises(InterruptedRunError):
        run(Pull(), Settings(replicas=2), tmp_path / "run", train=interrupted)
    assert written(tmp_path / "run")["processor"] == "another"
    resumed = run(Pull(), Settings(replicas=2), tmp_path / "run", resume=True)
    assert "processor (another, then " in resumed.mixed


def test_a_limit_of_memory_is_of_the_run_that_began_with_it(tmp_path):
    """What is trained together was settled by it: another would be heeded by nothing."""
    run(Pull(), Settings(replicas=2, memory_limit=1.0), tmp_path / "run")
    run(Pull(), Settings(replicas=2, memory_limit=1.0), tmp_path / "run", resume=True)
    for other in (None, 2.0):
        with pytest.raises(ConfigError, match=rf"changed: config\.memory_limit: 1\.0 -> {other}"):
            run(Pull(), Settings(replicas=2, memory_limit=other), tmp_path / "run", resume=True)


def test_what_was_installed_since_is_found(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    before = environment("cpu", "theirs.study")["study"]
    assert (before["package"], before["version"]) == ("theirs", "")
    info = tmp_path / "their_studies-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-studies\nVersion: 1.5\n")
    (info / "top_level.txt").write_text("theirs\n")
    assert environment("cpu", "theirs.study")["study"]["version"] == "1.5"


def test_the_version_of_the_small_model_is_known():
    pytest.importorskip("featscope_retriever", reason="for want of the package 'featscope-retriever'")
    assert environment("cpu")["packages"]["featscope-retriever"] == version("featscope-retriever")


def test_what_other_machines_computed_is_told_as_theirs():
    here = with_history(HERE, None)
    assert computed_by(here, []) == here
    assert computed_by(here, [HERE | {"cores": 64}] * 3) == here
    by_one = computed_by(here, [elsewhere(processor="b")] * 3)
    assert (by_one["processor"], by_one["history"], mixed(by_one)) == ("b", [], "")
    shared = computed_by(here, [None, elsewhere(processor="b"), None])  # a part of it here
    assert "processor (b, then a)" in mixed(shared)
    assert computed_by(shared, [None, elsewhere(processor="b"), HERE]) == shared
    by_two = computed_by(here, [elsewhere(processor="b"), elsewhere(processor="c"), elsewhere(processor="b")])
    assert "processor (b, then c)" in mixed(by_two)
    assert by_two["since"] == here["since"]


def test_products_on_a_gpu_are_those_of_its_library(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    monkeypatch.setattr(module, "_in_machine_code", lambda device: False)  # it asks the GPU itself
    here, there = environment("cpu"), environment("cuda:0")
    assert (there["device"], there["products"]) == ("a GPU", "cuBLAS")
    assert (here["device"], here["products"]) != (there["device"], there["products"])
    assert here["products"] != "cuBLAS"
