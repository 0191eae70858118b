"""The site of all statements: their order, what is told of each, and what may not be lost."""

import json
import re
import shutil
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
import report_samples as samples
from claiming import ENTRY, IDLE, Claiming, installed
from playwright.sync_api import sync_playwright

from featscope.claims import Claim, Statement
from featscope.commands.ledger import ledger
from featscope.options import ConfigError
from featscope.registry import entries, find
from featscope.report import draw, report_run
from featscope.report.claim_view import views
from featscope.report.ledger import _errata, is_ledger, remove_ledger, write_ledger
from featscope.report.ledger_order import corrections, in_order, paper_of, part_of, place_of, printed
from featscope.report.ledger_rows import _row
from featscope.report.ledger_runs import LedgerRun, _climbs, named, read_run, tone_in
from featscope.report.run_report import stored_content
from featscope.runs import Settings, run
from featscope.runs.folder import RunFolder
from featscope.runs.stored import read_plan


def said(id: str, source: str, expected: bool = True, note: str = "") -> Statement:
    return Statement(id, f"{id} is so", f"{id} is so", "", source, "bound", "mean", (-inf, inf), expected, note)


def test_a_source_names_its_paper_and_its_part():
    for source, paper, part in [
        ("Wen & Li 2021, arXiv 2105.15134, Figures 1-4", "Wen & Li 2021, arXiv 2105.15134", "Figures 1-4"),
        ("Shi 2024 (dissertation), Chapter 2 and Appendix A", "Shi 2024 (dissertation)", "Chapter 2 and Appendix A"),
        ("Wen & Li 2021, arXiv 2105.15134", "Wen & Li 2021, arXiv 2105.15134", ""),
    ]:
        assert (paper_of(source), part_of(source)) == (paper, part)


def test_statements_stand_as_in_the_paper_and_what_has_no_place_behind_what_it_follows():
    assert place_of("Theorem 3.1; Section 4, Table 2") == (3, 1)
    assert place_of("Section 4, Table 2") == (4,)
    assert place_of("Lemma B.2(c), (239)") == (1066, 2, 99)
    assert place_of("App. C") == (1067,)
    assert all(place_of(source) is None for source in ("Equation B.548", "(E.34)", "Figure 2", "derived here", ""))
    shown = [
        said("appendix", "Lemma B.10"),
        said("its-equation", "Equation B.548"),
        said("early", "Lemma B.9"),
        said("main", "Theorem 3.4"),
        said("ours", "derived here"),
        said("first", "Section 2.2, T1"),
    ]
    assert [one.id for one in in_order(shown)] == ["first", "main", "ours", "early", "appendix", "its-equation"]


def test_what_is_wrong_stands_beside_what_says_that_it_corrects_it():
    shown = [
        said("wrong", "Lemma 6.1, proof, (E.34)", expected=False),
        replace(said("mended", "derived, for Lemma 6.1"), corrects=("wrong", "twice")),
        said("right", "Lemma 6.1"),
        said("twice", "Lemma 7.1", expected=False, note="See `mended`."),
        replace(said("again", "derived, for Lemma 7.2"), corrects=("twice",)),
        said("our-own", "derived here", expected=False),
        said("alone", "Appendix A.7, Figure A.9", expected=False),
    ]
    assert corrections(shown) == {"wrong": ["mended"], "twice": ["mended", "again"], "alone": []}
    assert not printed("derived here")


@pytest.mark.parametrize("name", entries())
def test_what_studies_correct_is_a_printed_statement_that_is_wrong(name):
    """Where nothing stands in for it, the errata page shows the statement alone."""
    statements = find(name)[1].statements()
    wrong = corrections(statements)
    for one in statements:
        assert set(one.corrects) <= set(wrong), one.id
        assert one.expected or not one.corrects, one.id


def test_names_of_runs_are_addresses_of_their_own(tmp_path):
    folders = [tmp_path / name for name in ("a/b", "a b", "a-b", "A-B", "..η")]
    names = [name for _, name in named(folders, tmp_path)]
    assert len({name.lower() for name in names}) == len(folders)
    assert all(re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", name) for name in names)


def test_arms_where_it_is_expected_say_what_a_run_says():
    def claim(arm: str, bound: float, expected: bool) -> Claim:
        about = {"id": "a", "source": "S", "statement": "It is.", "kind": "bound", "arm": arm, "expected": expected}
        return Claim.from_samples([1.0, 1.1, 1.2], ">=", bound, **about)

    def tone(*claims: Claim) -> str:
        found = tone_in(views(claims, {}, {"control"}))
        assert found is not None
        return found[0]

    assert tone(claim("main", 0.0, True), claim("other", 2.0, False)) == "holds"
    assert tone(claim("main", 2.0, True), claim("second", 0.0, True)) == "loud"
    assert tone(claim("other", 2.0, False), claim("control", 2.0, False)) == "calm"
    assert tone(claim("control", 2.0, False)) == "control"
    assert tone_in([]) is None


def told_by(statement: Statement, value: float, expected: bool, **about) -> LedgerRun:
    """A run at default options that measured ``value`` where at least 1 is claimed."""
    own = {"id": statement.id, "source": statement.source, "statement": "It is.", "kind": "bound", "arm": "main"}
    claim = Claim.from_samples([value, value + 0.01], ">=", 1.0, expected=expected, **own)
    run = LedgerRun("main", Path(), "claiming", at_defaults=True, replicas=2, views=views([claim], {}, ()))
    about = {"command": "featscope run claiming"} | about
    return replace(run, **about)


def test_errata_are_what_fails_against_expectation_too_and_are_counted_and_nothing_is_that_holds():
    wrong, missed, won, fine, ours = (
        said("wrong", "Lemma 1", expected=False),
        said("missed", "Lemma 2"),
        said("won", "Lemma 3"),
        said("fine", "Lemma 4"),
        said("ours", "derived here"),
    )
    found = [(wrong, 0.0, False), (missed, 0.0, True), (won, 2.0, False), (fine, 2.0, True), (ours, 0.0, True)]
    rows = [_row(ENTRY, one, [told_by(one, value, expected)]) for one, value, expected in found]
    assert [row.tone for row in rows] == ["calm", "loud", "loud", "holds", "loud"]
    errata = _errata(rows)
    assert [row.statement.id for row in errata["unseen"]] == ["wrong"]
    assert [row.statement.id for row in errata["loud"]] == ["missed"]
    assert errata["found"] == "2 statements of the papers fail here."
    assert _errata(rows[1:])["found"] == "1 statement of the papers fails here."


def test_an_erratum_is_shown_by_the_quickest_run_that_decides_it():
    wrong = said("wrong", "Lemma 1", expected=False)
    first = told_by(wrong, 0.0, False, name="first", replicas=9, seconds=90.0)
    fast = replace(first, name="fast", replicas=4, seconds=9.0)
    small = replace(first, name="small", at_defaults=False, about="width 3", seconds=5.0)
    of_python = replace(first, name="of Python", command="", seconds=1.0)
    doubted = replace(first, name="doubted", views=[replace(view, doubt="Not after Holm's.") for view in first.views])
    held = told_by(wrong, 2.0, False, name="held", at_defaults=False, about="width 9", seconds=3.0)
    row = _row(ENTRY, wrong, [first, fast, small, replace(doubted, seconds=2.0), of_python, held])
    assert row.tone == "calm"
    assert row.shown_by.run.name == "small"
    assert _row(ENTRY, wrong, [first, fast]).shown_by.run.name == "fast"
    assert _row(ENTRY, wrong, [doubted, of_python]).shown_by.run.name == "doubted"
    assert _row(ENTRY, wrong, []).shown_by is None


def test_a_trend_is_told_size_by_size_with_what_is_foretold():
    rung = {"measured": 1.0, "interval": [0, 2], "predicted": 1.0, "tolerance": 0.0}
    at = [rung | {"size": 4.0, "verdict": "fails"}, rung | {"size": 8.0, "verdict": "holds"}]
    trend = {"id": "a", "arm": "x", "at": at, "silent": "", "direction": {"word": "toward", "up_to": 128.0}}
    (climb,) = _climbs({"symbol": "d", "trends": [trend | {"foretold": [{"size": 32.0, "verdict": "holds"}]}]})["a"]
    assert [(size, verdict) for size, _, verdict in climb.at] == [("4", "fails"), ("8", "holds")]
    assert climb.foretold == "Foretold: holds at d = 32.0. It moves toward holding."
    silent = trend | {"silent": "a surprise", "foretold": [{"size": 32.0, "verdict": "holds"}]}
    (climb,) = _climbs({"symbol": "d", "trends": [silent]})["a"]
    assert climb.foretold == "Nothing is foretold: a surprise."


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Three runs: one that is whole, one that is damaged, one that was begun."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(installed(tmp_path_factory.mktemp("package")))
        patch.setattr("featscope.runs.workers.cores", lambda: 1)
        patch.setattr("featscope.commands.ledger.entries", lambda: {"claiming": ENTRY, "idle": IDLE})
        run(Claiming(), Settings(replicas=4), folder / "one")
        report_run(folder / "one")
        shutil.copytree(folder / "one", folder / "cut")
        (folder / "cut" / "claims.json").write_text("{")
        (folder / "begun").mkdir()
        shutil.copy(folder / "one" / "config.json", folder / "begun")
        yield folder


@pytest.fixture(scope="module")
def site(place):
    """The ledger of these runs, of two studies: all take long."""
    assert ledger([str(place), "--out", str(place / "site")]) == 0
    return place / "site"


def test_every_statement_is_there_with_its_verdict_or_the_command_that_would_run_it(site):
    page = (site / "index.html").read_text()
    ids = [
        "idle.stands-still",
        "claiming.two-and-two-are-three",
        "claiming.two-and-two-are-four",
        "claiming.stays-near",
    ]
    assert re.findall(r'<details class="entry[^>]* id="([^"]+)"', page) == ids
    assert "featscope run idle</code>" in page
    assert "3 of 4 statements of 1 paper were tested: 2 hold, 1 fails, as was expected." in page
    assert "&lt;b&gt;loose&lt;/b&gt;" in page
    assert "<math" in page
    told = {one["id"]: one for one in json.loads((site / "ledger.json").read_text())["statements"]}
    assert told["stands-still"]["verdict"] == "not run here"
    assert told["stays-near"]["runs"][0]["verdicts"] == {"pulled": "holds", "other": "holds"}


def test_a_statement_has_its_figure_its_reason_and_its_command(site):
    page = (site / "index.html").read_text()
    own = page[page.index('id="claiming.stays-near"') :]
    own = own[: own.index("</details>")]
    assert 'src="figures/one@way.webp"' in own
    assert "featscope run claiming --seed 0 --replicas 4 --device cpu" in own
    assert 'href="runs/one.html#c1"' in own


def test_no_picture_stands_in_for_that_of_another_run_and_each_says_of_which_it_is(place, tmp_path, monkeypatch):
    """A run `one` with the figure `way-out`, and a run `one-way` with the figure `out`."""
    drawn = [samples.bars(), samples.heatmaps()]
    named_so = {"one": replace(drawn[0], id="way-out"), "one-way": replace(drawn[1], id="out")}
    for name, figure in named_so.items():
        shutil.copytree(place / "one", tmp_path / name)
        draw(figure, tmp_path / name / "figures" / f"{figure.id}.png")
    plain = stored_content(place / "one", read_plan(place / "one"))

    def content(folder, plan):
        figure = replace(named_so[folder.name], claims=("stays-near",))
        return replace(plain, figures=[figure], changed="width 3" if folder.name == "one-way" else "")

    monkeypatch.setattr("featscope.report.ledger_runs.stored_content", content)
    runs = [read_run(tmp_path / name, name) for name in named_so]
    write_ledger(tmp_path / "site", [ENTRY], runs, "again")
    assert len(list((tmp_path / "site" / "figures").iterdir())) == 2
    page = (tmp_path / "site" / "index.html").read_text()
    assert '<span class="soft">(default options, 4 replicas, seed 0)</span>' in page
    assert f"{drawn[1].title}</a> (width 3, 4 replicas, seed 0)" in page


def test_what_cannot_be_read_is_told_and_ends_nothing(place, site):
    page = (site / "index.html").read_text()
    assert "claims.json" in read_run(place / "cut", "cut").damaged
    assert page.count("Not told above:") == 2
    assert "it is not finished" in page


def test_a_damaged_picture_is_left_out(place, tmp_path):
    run = Path(shutil.copytree(place / "one", tmp_path / "one"))
    assert "stays-near" in (read_run(run, "one").pictures or {})
    (run / "figures" / "way.png").write_bytes((run / "figures" / "way.png").read_bytes()[:500])
    assert "stays-near" not in (read_run(run, "one").pictures or {})


def test_the_site_needs_nothing_else_and_links_lead_somewhere(site):
    ids = {file.name: set(re.findall(r' id="([^"]+)"', file.read_text())) for file in site.glob("*.html")}
    ids["runs/one.html"] = set(re.findall(r' id="([^"]+)"', (site / "runs" / "one.html").read_text()))
    for file in site.glob("*.html"):
        page = file.read_text()
        assert "http" not in re.sub(r'http-equiv|xmlns="[^"]*"', "", page)
        for link in re.findall(r'(?:href|src)="([^"]+)"', page):
            name, _, anchor = link.partition("#")
            assert not name or (site / name).is_file(), link
            assert not anchor or anchor in ids[name or file.name] or anchor.startswith("i-"), link


def test_an_erratum_stands_beside_what_holds_with_the_command_that_shows_it(site):
    page = (site / "errata.html").read_text()
    wrong = page[page.index('id="settled"') : page.index('id="unseen"')]
    assert wrong.index("Two and two are three") < wrong.index("Two and two are four")
    assert "Shown at default options, 4 replicas, seed 0" in wrong
    assert "featscope run claiming --seed 0 --replicas 4 --device cpu" in wrong
    assert "Numbers stand still" in page[page.index('id="open"') :]


def test_an_erratum_fails_from_a_size_on_only_where_it_fails_at_all_larger_ones(place, tmp_path):
    shutil.copytree(place / "one", tmp_path / "climbed")
    rung = {"measured": 4.0, "interval": [4.0, 4.0], "predicted": 3.0, "tolerance": 0.0}
    about = {"id": "two-and-two-are-three", "relation": "=", "compared": "measured", "silent": "a surprise"}
    found = {"pulled": ("holds", "fails", "fails"), "other": ("fails", "fails", "holds")}
    sizes = [4.0, 8.0, 16.0]
    trends = []
    for arm, verdicts in found.items():
        at = [rung | {"size": size, "verdict": one} for size, one in zip(sizes, verdicts, strict=True)]
        trends.append(about | {"arm": arm, "at": at})
    stored = {"study": "claiming", "axis": "width", "symbol": "d", "sizes": sizes, "trends": trends}
    RunFolder(tmp_path / "climbed").write_json("trends.json", stored)
    assert ledger([str(tmp_path), "--out", str(tmp_path / "site")]) == 0
    page = (tmp_path / "site" / "errata.html").read_text()
    assert "; along d it fails from d = 8 on (pulled); along d it fails at d = 4, 8 (other)</p>" in page


@pytest.mark.browser
def test_statements_are_found_and_nothing_is_wider_than_a_telephone(site):
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("for want of chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 390, "height": 800})
        errors: list[str] = []
        page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
        page.goto(f"{(site / 'index.html').as_uri()}#claiming.stays-near")
        assert page.locator(".entry[open]").count() == 1
        page.locator("#search").fill("lemma two")
        assert page.locator(".entry:not([hidden])").count() == 2
        page.locator(".filters [data-filter=calm]").click()
        assert page.locator(".entry:not([hidden]) .title").all_inner_texts() == ["Two and two are three"]
        page.evaluate("location.hash = 'idle.stands-still'")
        page.wait_for_selector("[id='idle.stands-still'][open]")
        picture = page.locator("[id='claiming.stays-near'] img")
        picture.scroll_into_view_if_needed()
        assert picture.evaluate("one => one.decode().then(() => one.naturalWidth)") > 0
        for file in ("index.html", "errata.html"):
            page.goto((site / file).as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
        browser.close()
    assert not errors


def test_a_ledger_replaces_a_ledger_when_told_to_and_nothing_else(place, site, tmp_path, monkeypatch):
    monkeypatch.setattr("featscope.commands.ledger.entries", dict)
    with pytest.raises(ConfigError, match=r"--out = .* holds a ledger already: replace it by --overwrite"):
        ledger([str(place), "--out", str(site)])
    with pytest.raises(ConfigError, match=r"--out = .* holds a run: choose another"):
        ledger([str(place), "--out", str(place / "one"), "--overwrite"])
    (tmp_path / "mine").touch()
    with pytest.raises(ConfigError, match=r"--out = .* holds 'mine', which is no part of a ledger"):
        ledger([str(place), "--out", str(tmp_path), "--overwrite"])
    copy = Path(shutil.copytree(site, tmp_path / "copy"))
    (copy / "mine").write_text("mine")
    (tmp_path / "empty").mkdir()
    assert ledger([str(tmp_path / "empty"), "--out", str(copy), "--overwrite"]) == 0
    assert (copy / "mine").exists()
    assert not (copy / "runs" / "one.html").exists()
    assert "No run was given." in (copy / "index.html").read_text()


def test_a_ledger_that_was_interrupted_can_be_replaced(place, site, tmp_path, monkeypatch):
    copy = Path(shutil.copytree(site, tmp_path / "copy"))

    def interrupted(*given):
        raise KeyboardInterrupt

    for when in ("papers", "_html"):
        with monkeypatch.context() as patched:
            patched.setattr(f"featscope.report.ledger.{when}", interrupted)
            with pytest.raises(KeyboardInterrupt):
                ledger([str(place), "--out", str(copy), "--overwrite"])
        assert (copy / "index.html").exists() == (when == "papers")  # nothing is lost before there is something
    assert ledger([str(place), "--out", str(copy), "--overwrite"]) == 0
    assert (copy / "index.html").exists()


def test_a_forged_list_removes_nothing_elsewhere(tmp_path):
    (tmp_path / "mine").touch()
    site = tmp_path / "site"
    site.mkdir()
    (site / "ledger.json").write_text(json.dumps({"files": ["../mine", str(tmp_path / "mine")]}))
    remove_ledger(site)
    assert (tmp_path / "mine").exists()
    (site / "ledger.json").write_text("[]")
    assert not is_ledger(site)
