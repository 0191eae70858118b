"""The README keeps its word: its code runs, its table is the registry's, its links and its picture exist."""

import re
import runpy
import shlex
from pathlib import Path

import pytest

from featscope.cli import main
from featscope.registry import entries

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_lists_of_studies_are_those_of_the_catalogue():
    """If one is not: `make cards`."""
    own = [entry for _, entry in sorted(entries().items()) if entry.target.startswith("featscope.")]
    lists = runpy.run_path(str(ROOT / "tools" / "cards.py"))["lists"](own)
    assert [file.name for file in lists] == ["README.md", "mkdocs.yml", "index.md"]
    for file, text in lists.items():
        assert text == file.read_text(), file.name
    assert all((ROOT / "docs" / "studies" / f"{entry.name}.md").exists() for entry in own)


def test_own_study_runs(tmp_path, monkeypatch, capsys):
    (code,) = re.findall(r"^```python\n(.*?)^```$", README, re.M | re.S)
    small = {
        "700, 100)": "4, 100)",
        "replicas=8": "replicas=2",
    }
    for shown, used in small.items():
        assert code.count(shown) == 1
        code = code.replace(shown, used)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["hadamard", "qr", "canonical"]
    assert (tmp_path / "runs" / "spread" / "claims.json").exists()


TRANSCRIPT = re.compile(
    r"""^\$ hay="\$\(yes '(.+)' \| head -n (\d+)\)"
\$ printf '(.+)' "\$hay" "\$hay" > (\S+)
\$ featscope (generate .+) 2> /dev/null
([\s\S]+?)^```$""",
    re.M,
)


def test_the_small_model_answers_and_keeps_what_is_shown(tmp_path, monkeypatch, capsys):
    sentence, times, text, file, command, shown = TRANSCRIPT.search(README).groups()
    hay = "\n".join([sentence] * int(times))
    monkeypatch.chdir(tmp_path)
    Path(file).write_text(text.replace(r"\n", "\n") % (hay, hay))
    with pytest.raises(SystemExit) as stopped:
        main(shlex.split(command))
    assert stopped.value.code == 0
    assert capsys.readouterr().out == shown


PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
PICTURES = sorted((ROOT / "docs" / "images").glob("*.png"))


def links(page: str) -> list[tuple[Path, str]]:
    """Files that a page links to, each with the anchor in it."""
    targets = re.findall(r"\]\((?!https?:|#)([^)\s]+)\)", (ROOT / page).read_text())
    return [((ROOT / page).parent / path, anchor) for path, _, anchor in (one.partition("#") for one in targets)]


def test_pages_of_all_studies_and_pictures_are_found_and_every_picture_is_on_a_page():
    own = [name for name, entry in entries().items() if entry.target.startswith("featscope.")]
    assert {f"docs/studies/{name}.md" for name in own} <= set(PAGES)
    linked = {file.resolve() for page in PAGES for file, _ in links(page)}
    assert PICTURES
    assert [picture.name for picture in PICTURES if picture.resolve() not in linked] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for file, anchor in links(page):
        assert file.exists(), f"{page} links to {file}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(), re.M)
            anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
            assert anchor in anchors, f"{page} links to #{anchor}; {file.name} has {anchors}"


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_pictures_are_small(picture):
    assert picture.stat().st_size < 400_000


@pytest.mark.parametrize("target", ["demo", "test", "lint", "bench", "docs"])
def test_make_knows_the_commands_that_are_named(target):
    assert f"make {target}" in README
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M)
