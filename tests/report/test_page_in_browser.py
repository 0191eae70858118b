"""The page in a browser: it opens offline, moves, unfolds, and fits a telephone."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import report_samples as samples
from playwright.sync_api import Browser, Page, sync_playwright

from featscope.report import write_page
from featscope.report.numbers import exact
from featscope.tex import FORMULA

pytestmark = pytest.mark.browser

_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")


class Opened:
    """A page, what it asked for and what it said on the console.

    Args:
        browser: the browser, which gets a window for it.
    """

    def __init__(self, browser: Browser) -> None:
        self.page: Page = browser.new_page(no_viewport=True)
        self.screen = self.page.context.new_cdp_session(self.page)
        self.asked_for: list[str] = []
        self.said: list[str] = []
        self.page.on("request", lambda request: self.asked_for.append(request.url))
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))

    def open(self, file: Path) -> None:
        """Open ``file`` and wait until all of it is drawn."""
        self.page.goto(file.as_uri())
        self.wait(lambda: self.run("document.documentElement.dataset.drawn") == "all")

    def run(self, script: str, argument: object = None) -> Any:
        """What a script in the page finds."""
        return self.page.evaluate(script, argument)

    def texts(self, selector: str) -> list[str]:
        """What can be read in the elements that ``selector`` names."""
        return self.page.locator(selector).all_inner_texts()

    def wait(self, condition: Callable[[], bool]) -> None:
        """Until ``condition`` holds; fail if it does not within half a minute."""
        give_up = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < give_up
            self.page.wait_for_timeout(50)

    def set_width(self, width: int) -> None:
        """Make the screen so wide; a narrow one is a telephone's."""
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.screen.send("Emulation.setDeviceMetricsOverride", screen)

    def drawn_matrices(self) -> list[str]:
        """What the heat maps of the movie show, as the browser drew it."""
        return self.run(
            "[...document.querySelectorAll('.movie .hm image')].map((image) => image.getAttribute('href')"
            " || image.getAttributeNS('http://www.w3.org/1999/xlink', 'href'))"
        )

    def slide(self, frame: int) -> str:
        """Move the slider and return its label."""
        self.run(
            "(frame) => { const slider = document.querySelector('.movie input'); slider.value = frame;"
            " slider.dispatchEvent(new Event('input', { bubbles: true })) }",
            frame,
        )
        return self.page.locator(".movie output").inner_text()


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """The sample page, drawn, in headless Chromium."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        missing = "for want of chromium"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    file = tmp_path_factory.mktemp("page") / "report.html"
    write_page(file, **samples.PAGE, claims=samples.claims(), figures=samples.figures(), controls=samples.CONTROLS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(_FLAGS))
        shown = Opened(browser)
        shown.set_width(1280)
        shown.open(file)
        yield shown
        browser.close()


@pytest.fixture
def shown(opened: Opened) -> Iterator[Opened]:
    """The page, which must say nothing on the console."""
    yield opened
    said = opened.said.copy()
    opened.said.clear()
    assert said == []


def test_it_asks_the_network_for_nothing(shown: Opened) -> None:
    files = [address for address in shown.asked_for if address.startswith("file:")]
    assert files, "the log records no requests"
    assert [address for address in shown.asked_for if not address.startswith(("file:", "data:", "blob:"))] == []
    assert len(set(files)) == 1


def test_it_opens_on_what_was_found(shown: Opened) -> None:
    assert shown.texts(".headline") == [samples.PAGE["headline"]]
    order = shown.run(
        "[...document.querySelectorAll('.headline, table, .figure')].map((e) => e.className || e.tagName)"
    )
    assert order[:3] == ["headline", "TABLE", "figure movie"]
    claims = shown.texts("tr.claim")
    assert len(claims) == 25
    (tally,) = shown.texts(".tally")
    assert tally.replace("\n", " ").startswith("18 hold")
    assert "control" in claims[5]
    assert "fails, as it must" in claims[5]


def test_the_slider_moves_all_panels(shown: Opened) -> None:
    last = shown.drawn_matrices()
    assert len(last) == 3
    assert shown.slide(0) == "step 0"
    shown.wait(lambda: all(a != b for a, b in zip(shown.drawn_matrices(), last, strict=True)))
    corner = shown.run("document.querySelectorAll('.movie .plot')[0].data[0].z[0][0]")
    stored = samples.movie().frames["augmented (RandomMask)"][0, 0, 0]
    assert corner == pytest.approx(stored, abs=0.5 / 254)
    assert shown.slide(len(samples.STEPS) - 1) == f"step {samples.STEPS[-1]}"
    shown.wait(lambda: shown.drawn_matrices() == last)


def test_play_runs_to_the_end_and_pauses(shown: Opened) -> None:
    play, label = shown.page.locator(".movie .play"), shown.page.locator(".movie output")
    shown.slide(5)
    play.click()
    assert "Pause" in play.inner_text()
    shown.wait(lambda: label.inner_text() not in ("step 120", "step 0"))
    play.click()
    assert "Play" in play.inner_text()
    shown.page.wait_for_timeout(400)
    paused = label.inner_text()
    shown.page.wait_for_timeout(400)
    assert label.inner_text() == paused
    shown.slide(len(samples.STEPS) - 3)
    play.click()
    shown.wait(lambda: "Play" in play.inner_text())
    assert label.inner_text() == f"step {samples.STEPS[-1]}"


def test_every_claim_unfolds(shown: Opened) -> None:
    buttons = shown.page.locator("tr.claim .open").all()
    for button, claim in zip(buttons, samples.claims(), strict=True):
        detail = shown.page.locator(f"#{button.get_attribute('aria-controls')}")
        assert not detail.is_visible()
        button.press("Enter")
        assert button.get_attribute("aria-expanded") == "true"
        assert detail.is_visible()
        text = detail.inner_text()
        low, high = claim.interval
        words, formulas = FORMULA.split(claim.statement)[::2], FORMULA.findall(claim.statement)
        parts = [claim.title, *words, claim.measures, claim.source, claim.note]
        parts += [exact(claim.predicted), exact(claim.measured)]
        parts += [exact(claim.tolerance)] if claim.relation == "=" else []
        parts += [f"[{exact(low)}, {exact(high)}]"] if low < high else []
        assert [part for part in parts if part.strip() not in text] == [], claim.id
        typeset = [formula.bounding_box() for formula in detail.locator("math").all()]
        assert len(typeset) == len(formulas), claim.id
        assert all(box and box["width"] > 10 and box["height"] > 10 for box in typeset)
    expand = shown.page.locator("#expand")
    assert expand.inner_text() == "Hide all details"
    expand.click()
    assert not [row for row in shown.page.locator("tr.detail").all() if row.is_visible()]


def test_the_legend_hides_a_series_in_all_panels(shown: Opened) -> None:
    button = shown.page.locator("#coverage .legend button").first
    visible = "document.querySelectorAll('#coverage .js-line').length"
    before = shown.run(visible)
    button.click()
    shown.wait(lambda: shown.run(visible) < before - 1)
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    shown.wait(lambda: shown.run(visible) == before)


def test_it_fits_a_telephone(shown: Opened) -> None:
    shown.set_width(390)
    shown.page.locator("#expand").click()
    shown.run("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    widest = "Math.max(...[...document.querySelectorAll('.plot .main-svg')].map((e) => e.clientWidth))"
    shown.wait(lambda: shown.run(widest) <= 390)
    assert shown.run("document.documentElement.scrollWidth") == 390
    outside = shown.run(
        "[...document.querySelectorAll('main *, header *')]"
        ".filter((e) => !e.closest('pre, svg, thead, nav')"
        " && e.getBoundingClientRect().right > 390.5).map((e) => e.outerHTML.slice(0, 120))"
    )
    assert outside == []


def test_it_prints_as_a_table_with_what_is_open(shown: Opened) -> None:
    shown.set_width(700)
    shown.page.emulate_media(media="print")
    try:
        display = "[...document.querySelectorAll('tr.claim')].map((row) => getComputedStyle(row).display)"
        assert set(shown.run(display)) == {"table-row"}
        box = shown.page.locator("table").bounding_box()
        assert box is not None
        assert box["width"] <= 700
        assert not shown.page.locator("#expand").is_visible()
    finally:
        shown.page.emulate_media(media="null")


def test_figures_are_drawn_where_there_are_no_claims(shown: Opened, tmp_path: Path) -> None:
    """The last test: it leaves the page."""
    bare = tmp_path / "report.html"
    write_page(bare, **samples.PAGE, claims=[], figures=[samples.curves()])
    shown.open(bare)
    assert shown.run("document.querySelector('main').firstElementChild.className") == "figure"
    assert shown.page.locator(".plot .main-svg").count()
