"""The page in a browser: it opens offline, moves, unfolds, and fits a telephone."""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import report_samples as samples
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from featscope.report import write_page
from featscope.report.numbers import exact

pytestmark = pytest.mark.browser

Browser = webdriver.Chrome


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The sample page, drawn, in headless Chromium."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        missing = "chromium and chromedriver are needed to open the page"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    folder = tmp_path_factory.mktemp("page")
    page = folder / "report.html"
    write_page(page, **samples.PAGE, claims=samples.claims(), figures=samples.figures(), controls=samples.CONTROLS)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        f"--user-data-dir={folder / 'profile'}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(driver))
    try:
        _set_width(browser, 1280)
        browser.get(page.as_uri())
        _wait(browser, lambda: browser.execute_script("return document.documentElement.dataset.drawn") == "all")
        yield browser
    finally:
        browser.quit()


@pytest.fixture
def page(opened: Browser) -> Iterator[Browser]:
    """The page, which must say nothing on the console."""
    yield opened
    assert opened.get_log("browser") == []


def _set_width(browser: Browser, width: int) -> None:
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)


def _wait(browser: Browser, condition: Callable[[], bool]) -> None:
    WebDriverWait(browser, 30, poll_frequency=0.1).until(lambda _: condition())


def _drawn_matrices(browser: Browser) -> list[str]:
    """What the heat maps of the movie show, as the browser drew it."""
    return browser.execute_script(
        "return [...document.querySelectorAll('.movie .hm image')].map((image) => image.getAttribute('href')"
        " || image.getAttributeNS('http://www.w3.org/1999/xlink', 'href'))"
    )


def _slide(browser: Browser, frame: int) -> str:
    """Move the slider and return its label."""
    browser.execute_script(
        "const slider = document.querySelector('.movie input'); slider.value = arguments[0];"
        "slider.dispatchEvent(new Event('input', { bubbles: true }))",
        frame,
    )
    return browser.find_element(By.CSS_SELECTOR, ".movie output").text


def test_it_asks_the_network_for_nothing(page: Browser) -> None:
    sent = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    requests = [m["params"] for m in sent if m["method"] == "Network.requestWillBeSent"]
    addresses = [r["request"]["url"] for r in requests if r["documentURL"].startswith("file:")]
    assert [address for address in addresses if address.startswith("file:")], "the log records no requests"
    assert [address for address in addresses if not address.startswith(("file:", "data:", "blob:"))] == []
    assert len({address for address in addresses if address.startswith("file:")}) == 1


def test_it_opens_on_what_was_found(page: Browser) -> None:
    assert page.find_element(By.CSS_SELECTOR, ".headline").text == samples.PAGE["headline"]
    order = page.execute_script(
        "return [...document.querySelectorAll('.headline, table, .figure')].map((e) => e.className || e.tagName)"
    )
    assert order[:3] == ["headline", "TABLE", "figure movie"]
    assert len(page.find_elements(By.CSS_SELECTOR, "tr.claim")) == 25
    assert page.find_element(By.CSS_SELECTOR, ".tally").text.replace("\n", " ").startswith("18 hold")
    control = page.find_elements(By.CSS_SELECTOR, "tr.claim")[5].text
    assert "control" in control
    assert "fails, as it must" in control


def test_the_slider_moves_all_panels(page: Browser) -> None:
    last = _drawn_matrices(page)
    assert len(last) == 3
    assert _slide(page, 0) == "step 0"
    _wait(page, lambda: all(a != b for a, b in zip(_drawn_matrices(page), last, strict=True)))
    corner = page.execute_script("return document.querySelectorAll('.movie .plot')[0].data[0].z[0][0]")
    shown = samples.movie().frames["augmented (RandomMask)"][0, 0, 0]
    assert corner == pytest.approx(shown, abs=0.5 / 254)
    assert _slide(page, len(samples.STEPS) - 1) == f"step {samples.STEPS[-1]}"
    _wait(page, lambda: _drawn_matrices(page) == last)


def test_play_runs_to_the_end_and_pauses(page: Browser) -> None:
    play = page.find_element(By.CSS_SELECTOR, ".movie .play")
    label = page.find_element(By.CSS_SELECTOR, ".movie output")
    _slide(page, 5)
    play.click()
    assert "Pause" in play.text
    _wait(page, lambda: label.text not in ("step 120", "step 0"))
    play.click()
    assert "Play" in play.text
    time.sleep(0.4)
    paused = label.text
    time.sleep(0.4)
    assert label.text == paused
    _slide(page, len(samples.STEPS) - 3)
    play.click()
    _wait(page, lambda: "Play" in play.text)
    assert label.text == f"step {samples.STEPS[-1]}"


def test_every_claim_unfolds(page: Browser) -> None:
    buttons = page.find_elements(By.CSS_SELECTOR, "tr.claim .open")
    for button, claim in zip(buttons, samples.claims(), strict=True):
        detail = page.find_element(By.ID, button.get_attribute("aria-controls"))
        assert not detail.is_displayed()
        button.send_keys(Keys.ENTER)
        assert button.get_attribute("aria-expanded") == "true"
        assert detail.is_displayed()
        text = detail.text
        low, high = claim.interval
        parts = [claim.statement, claim.source, claim.note, exact(claim.predicted), exact(claim.measured)]
        parts += [exact(claim.tolerance)] if claim.relation == "=" else []
        parts += [f"[{exact(low)}, {exact(high)}]"] if low < high else []
        assert [part for part in parts if part not in text] == [], claim.id
    expand = page.find_element(By.ID, "expand")
    assert expand.text == "Hide all details"
    expand.click()
    assert not [row for row in page.find_elements(By.CSS_SELECTOR, "tr.detail") if row.is_displayed()]


def test_the_legend_hides_a_series_in_all_panels(page: Browser) -> None:
    figure = page.find_element(By.ID, "coverage")
    button = figure.find_elements(By.CSS_SELECTOR, ".legend button")[0]
    visible = "return document.querySelectorAll('#coverage .js-line').length"
    before = page.execute_script(visible)
    button.click()
    _wait(page, lambda: page.execute_script(visible) < before - 1)
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    _wait(page, lambda: page.execute_script(visible) == before)


def test_it_fits_a_telephone(page: Browser) -> None:
    _set_width(page, 390)
    page.find_element(By.ID, "expand").click()
    page.execute_script("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    widest = "return Math.max(...[...document.querySelectorAll('.plot .main-svg')].map((e) => e.clientWidth))"
    _wait(page, lambda: page.execute_script(widest) <= 390)
    assert page.execute_script("return document.documentElement.scrollWidth") == 390
    outside = page.execute_script(
        "return [...document.querySelectorAll('main *, header *')]"
        ".filter((e) => !e.closest('pre, svg, thead, nav')"
        " && e.getBoundingClientRect().right > 390.5).map((e) => e.outerHTML.slice(0, 120))"
    )
    assert outside == []


def test_it_prints_as_a_table_with_what_is_open(page: Browser) -> None:
    _set_width(page, 700)
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        rows = page.find_elements(By.CSS_SELECTOR, "tr.claim")
        assert {row.value_of_css_property("display") for row in rows} == {"table-row"}
        assert page.find_element(By.CSS_SELECTOR, "table").size["width"] <= 700
        assert not page.find_element(By.ID, "expand").is_displayed()
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_figures_are_drawn_where_there_are_no_claims(page: Browser, tmp_path: Path) -> None:
    """The last test: it leaves the page."""
    bare = tmp_path / "report.html"
    write_page(bare, **samples.PAGE, claims=[], figures=[samples.curves()])
    page.get(bare.as_uri())
    _wait(page, lambda: page.execute_script("return document.documentElement.dataset.drawn") == "all")
    assert page.execute_script("return document.querySelector('main').firstElementChild.className") == "figure"
    assert page.find_elements(By.CSS_SELECTOR, ".plot .main-svg")
