"""The README keeps its word: its code runs, its table is the registry's, its links and its picture exist."""

import re
from pathlib import Path

import pytest

from featscope.registry import entries

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_table_is_what_featscope_list_prints():
    (table,) = re.findall(r"^\| study \| source \|.*?\n\n", README, re.M | re.S)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:] if line]
    own = [entry for entry in entries().values() if entry.target.startswith("featscope.")]
    assert rows == [[entry.name, entry.source, entry.summary, f"{entry.minutes:g}"] for entry in own]


def test_own_study_runs(tmp_path, monkeypatch, capsys):
    (code,) = re.findall(r"^```python\n(.*?)^```$", README, re.M | re.S)
    small = {
        "700, 100)": "4, 100)",
        "replicas=6": "replicas=2",
    }
    for shown, used in small.items():
        assert code.count(shown) == 1
        code = code.replace(shown, used)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["hadamard", "qr", "canonical"]
    assert (tmp_path / "runs" / "spread" / "claims.json").exists()


PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\((?!https?:|#)([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path
        assert file.exists(), f"{page} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(), re.M)
            anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
            assert anchor in anchors, f"{page} links to {target}; {file.name} has {anchors}"


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "images").glob("*.png")), ids=lambda path: path.name)
def test_pictures_are_small(picture):
    assert picture.stat().st_size < 400_000


@pytest.mark.parametrize("target", ["demo", "test", "lint", "bench", "docs"])
def test_make_knows_the_commands_that_are_named(target):
    assert f"make {target}" in README
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M)
