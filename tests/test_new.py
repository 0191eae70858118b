"""`featscope new`: a package that passes at once, whole or not there, and refusals that name option, value and cure."""

import importlib
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from featscope.cli import main
from featscope.commands import new


def call(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code


@pytest.fixture
def package(tmp_path, monkeypatch) -> Path:
    """A new package as `pip install` would leave it: importable, with the entry point that its pyproject names."""
    monkeypatch.chdir(tmp_path)
    assert call("new", "oja-walk") == 0
    made = tmp_path / "oja-walk"
    point = (made / "pyproject.toml").read_text().partition('[project.entry-points."featscope.studies"]\n')[2]
    info = made / "src" / "oja_walk-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: oja-walk\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[featscope.studies]\n{point.splitlines()[0].replace(chr(34), '')}\n")
    monkeypatch.syspath_prepend(str(made / "src"))
    importlib.invalidate_caches()
    yield made
    for module in [module for module in sys.modules if module.partition(".")[0] == "oja_walk"]:
        del sys.modules[module]


def test_its_study_is_shown_and_checked(package, capfd):
    assert call("show", "oja-walk") == 0
    assert "Its squared length becomes the variance along that direction." in capfd.readouterr().out
    assert call("check", "oja-walk") == 0
    assert "2 arms took a step, 4 claims and 2 figures are sound" in capfd.readouterr().out


def test_its_own_tests_pass(package):
    """In this process: what they need is imported already."""
    module = importlib.util.spec_from_file_location("test_oja_walk", package / "tests" / "test_oja_walk.py")
    tests = importlib.util.module_from_spec(module)
    module.loader.exec_module(tests)
    tests.test_what_is_expected_holds_and_the_control_fails()
    for name in tests.FAULTS:
        with pytest.MonkeyPatch.context() as patch:
            tests.test_a_fault_turns_a_verdict(name, patch)
    tests.test_the_largest_variance_is_that_of_the_inputs_drawn()
    tests.test_wrong_options_are_named()


def test_nothing_of_the_template_is_left_in_it(package):
    made = [file for file in package.rglob("*") if file.is_file() and "dist-info" not in str(file)]
    assert {file.suffix for file in made} == {".py", ".toml", ".md"}
    assert len(made) == 5
    for file in made:
        assert "my" not in file.name
        assert "my_study" not in file.read_text()
        assert "my-study" not in file.read_text()


def test_a_name_that_has_the_templates_within_is_put_in_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("new", "my_study-2", "--out", "here") == 0
    assert 'name="my_study-2"' in (tmp_path / "here" / "src" / "my_study_2" / "__init__.py").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "usage: featscope new NAME"),
        (["2nd"], "NAME = '2nd' is out of range: allowed is 1 to 60 letters"),
        (["a.b"], "NAME = 'a.b' is out of range"),
        (["walk\n"], "NAME = 'walk\\n' is out of range"),
        (["walk_"], "the last no '-' or '_'"),
        (["x" * 61], "allowed is 1 to 60 letters"),
        (["lambda"], "NAME = 'lambda' is a word of Python"),
        (["decoupling"], "NAME = 'decoupling' is a study already"),
        (["own-training"], "NAME = 'own-training' is the name of trainings that a Monitor watches: choose another"),
        (["torch"], "NAME = 'torch' would hide the module torch"),
        (["walk", "--out", "full"], "--out = 'full' is there already: allowed is a new folder; choose another name"),
        (["full"], "--out = 'full' is there already"),
        (["walk", "--out", "link"], "--out = 'link' is there already"),
        (["walk", "--out", "no/where"], "--out = 'no/where' is not in a folder: make 'no' first"),
        (["walk", "--out", "a\0b"], "--out = 'a\\x00b' cannot be made"),
        (["walk", "--out", "x" * 300], "cannot be made (File name too long): choose another folder"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_made(tmp_path, monkeypatch, capfd, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    assert call("new", *words) == 2
    assert message in capfd.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["full", "link"]


def test_what_the_disk_refuses_leaves_nothing_half_written(tmp_path, monkeypatch, capfd):
    written = []

    def write_text(self: Path, text: str, **_: object) -> None:
        written.append(self)
        if len(written) == 3:
            raise OSError(28, "No space left on device", str(self))
        self.write_bytes(text.encode())

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(new.Path, "write_text", write_text)
    assert call("new", "walk") == 4
    assert "No space left on device" in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_it_installs_and_passes_in_an_environment_of_its_own(tmp_path):
    """As the README of the package says; needs a package registry for what builds it."""
    assert call("new", "oja-walk", "--out", tmp_path / "walk") == 0
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", tmp_path / "venv"], check=True)
    paths = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    seen = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(str(files("featscope"))).parent), paths])}
    for command in (
        ["-m", "pip", "install", "--quiet", "--no-deps", "-e", "."],
        ["-c", "from featscope.cli import main; main()", "run", "oja-walk", "--out", "runs/walk"],
        ["-m", "pytest", "-q"],
        ["-m", "mypy", "src", "tests"],
    ):
        done = subprocess.run([python, *command], cwd=tmp_path / "walk", env=seen, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
