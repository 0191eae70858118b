"""The tutorial does what it says: its code runs in order, prints what it shows, and its package registers."""

import contextlib
import importlib
import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from featscope.cli import main

TUTORIAL = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text()
BLOCK = re.compile(r"^```(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<code>.*?)^```$", re.M | re.S)


def blocks(text: str, kind: str) -> list[re.Match[str]]:
    return [block for block in BLOCK.finditer(text) if block["kind"] == kind]


def run_code(block: re.Match[str], names: dict[str, object]) -> str:
    """Execute a block; what it printed."""
    first_line = TUTORIAL[: block.start("code")].count("\n")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n" * first_line + block["code"], "docs/tutorial.md", "exec"), names)
    return printed.getvalue()


def test_code_runs_in_order_and_finds_what_is_shown():
    names: dict[str, object] = {"__name__": "tutorial"}
    printed = "".join(run_code(block, names) for block in blocks(TUTORIAL, "python") if block["title"] is None)
    shown = [line.split() for block in blocks(TUTORIAL, "text") for line in block["code"].splitlines()]
    assert len(shown) == 7
    found = {tuple(words[:2]): words[2:] for line in printed.splitlines() if len(words := line.split()) == 4}
    for id, arm, measured, verdict in shown:
        assert found[id, arm][1] == verdict
        assert float(found[id, arm][0]) == pytest.approx(
            float(measured), abs=0.03
        )  # three features of 96, as machines round differently


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The package of section 7 as `pip install` would leave it: importable, with its entry points."""
    titled = {block["title"]: block["code"] for block in BLOCK.finditer(TUTORIAL) if block["title"]}
    name, _ = re.fullmatch(r"(\w+)/(__init__)\.py", next(iter(titled))).groups()
    folder, info = tmp_path / name, tmp_path / f"{name}-0.1.dist-info"
    folder.mkdir()
    info.mkdir()
    definitions, _, _ = TUTORIAL.partition("## 4.")
    (folder / "__init__.py").write_text(titled[f"{name}/__init__.py"])
    (folder / "study.py").write_text("\n".join(block["code"] for block in blocks(definitions, "python")))
    section = titled["pyproject.toml"].partition('[project.entry-points."featscope.studies"]')[2]
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[featscope.studies]\n" + section.strip().replace('"', "") + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield name
    for module in [module for module in sys.modules if module.partition(".")[0] == name]:
        del sys.modules[module]


def test_the_package_registers_its_study(package, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (console,) = blocks(TUTORIAL, "console")
    for line in console["code"].splitlines():
        program, *words = shlex.split(line.removeprefix("$ "))
        assert program == "featscope"
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0, capfd.readouterr().err
        said = capfd.readouterr().out
        assert "rare-features" in said or "report.html" in said.replace("\n", "")
    assert (tmp_path / "runs" / "tail" / "report.html").stat().st_size > 100_000
    assert (tmp_path / "runs" / "tail" / "figures" / "features.png").exists()
