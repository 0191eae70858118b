"""The page of every study's smallest run, in a browser: quiet, within the screen, picture first, readable unseen."""

import os
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from one_step import NAMES, one_step
from playwright.sync_api import Browser, sync_playwright

from featscope.report import Content, write_page
from featscope.report.run_report import content

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


OFTEN = ("icl-attention",)
"""The page that is looked at each time. All are made alike, and `make test-long` looks at each."""


@cache
def page_of(name: str) -> Content:
    """What the page says of a step of every arm, two replicas each."""
    study, runs = one_step(name)
    return content(study, runs, study.claims(runs))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Headless Chromium."""
    if CHROMIUM is None:
        missing = "for want of chromium"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield started
        started.close()


@pytest.mark.browser
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "name", [name if name in OFTEN else pytest.param(name, marks=pytest.mark.long) for name in NAMES]
)
def test_the_page_is_quiet_fits_and_can_be_read_unseen(name: str, browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    write_page(file, page_of(name))
    assert file.stat().st_size < 1.5e6
    for width, theme in ((1280, "light"), (390, "dark")):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)  # type: ignore[arg-type]
        said: list[str] = []
        page.on("console", lambda message, said=said: said.append(message.text))
        page.on("pageerror", lambda error, said=said: said.append(str(error)))
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-drawn=all]")
        page.wait_for_timeout(100)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        picture = page.locator(".picture canvas, .picture svg[role=img]").first.bounding_box()
        assert picture is not None
        assert picture["y"] < 900
        whole = [part.bounding_box() for part in page.locator(".picture, .hero .course").all()]
        if width == 1280:
            assert all(part is not None and part["y"] + part["height"] <= 900 for part in whole), whole
        if theme == "light":  # colours of both themes: `tests/report/test_page_in_browser.py`
            page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
            found = Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
        assert said == []
        page.close()
