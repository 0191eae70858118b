"""The page in a browser: it follows a run, its buttons work, and it finds a server that was killed and begun anew."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from going_on import ended_on_its_way, progress, say
from playwright.sync_api import Page, expect, sync_playwright

from featscope.runs.asked import asked
from featscope.runs.progress import NAME as PROGRESS
from swept import Pull, installed

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """A window of headless Chromium, as wide as a telephone's."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        if os.environ.get("CI"):
            pytest.fail("for want of chromium")
        pytest.skip("for want of chromium")
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        yield browser.new_page(viewport={"width": 390, "height": 800})
        browser.close()


class Watcher:
    """`featscope watch` in a process of its own."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        path = [environment["PYTHONPATH"], os.environ.get("PYTHONPATH", "")]
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from featscope.cli import main; main()", "watch", str(folder)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment | {"PYTHONPATH": os.pathsep.join(filter(None, path))},
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[1]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.mark.long
def test_a_page_that_stays_open(page, tmp_path):
    expect.set_options(timeout=20_000)
    folder = tmp_path / "run"
    ended_on_its_way(folder, Pull(steps=20, probe_every=2), looks=8)
    say(folder)
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    watcher = Watcher(folder, installed(tmp_path / "package"))
    try:
        page.goto(watcher.address)
        expect(page.locator("#state")).to_have_text("Training arm 1 of 2, about 60 seconds left")
        expect(page.locator("#arms li").first).to_contain_text("1. pulled here")
        expect(page.locator("#arms li").last).to_contain_text("to come")
        report = page.frame_locator("iframe:not(.coming)")
        expect(report.locator("h1")).to_contain_text("Unfinished: 0 of 2 arms are done", timeout=30_000)
        expect(report.locator(".panel svg").first).to_be_visible()
        expect(report.locator("header.bar")).to_be_hidden()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390

        expect(page.locator("#facts")).to_contain_text("what is below was drawn")
        expect(page.locator("#strip")).to_be_hidden()
        page.wait_for_timeout(3000)
        page.reload()  # the report is as old as it was
        expect(page.locator("#facts")).to_contain_text(re.compile(r"drawn ([3-9]|\d\d) seconds ago"))

        one = progress()["arms"][0]
        say(
            folder,
            arms=[one | {"place": place, "of": 16, "done": 40.0 * (2 - place)} for place in (1, 2)]
            + [one | {"place": place, "of": 16, "done": 0, "status": ""} for place in range(3, 17)],
        )
        expect(page.locator("#strip span")).to_have_count(16)
        expect(page.locator("#arms li")).to_have_count(1)
        expect(page.locator("#arms li")).to_contain_text("2. pulled here")
        expect(page.locator("#all-arms summary")).to_have_text("All 16 arms: 1 done, 14 to come")
        expect(page.locator("#all-arms li").last).to_be_hidden()
        say(folder)
        expect(page.locator("#strip")).to_be_hidden()

        page.get_by_role("button", name="Pause").click()
        page.wait_for_timeout(300)
        assert asked(folder) == "pause"
        say(folder, state="paused")
        expect(page.get_by_role("button", name="Go on")).to_be_visible()
        page.get_by_role("button", name="Stop").click()
        page.wait_for_timeout(300)
        assert asked(folder) == "stop"

        watcher.kill()
        expect(page.locator("#trouble")).to_contain_text("The server does not answer")
        watcher = Watcher(folder, installed(tmp_path / "again"))
        say(folder, seconds_left=7200.0)
        expect(page.locator("#state")).to_have_text("Training arm 1 of 2, about 2 hours left", timeout=10_000)
        expect(page.locator("#trouble")).to_be_hidden()

        (folder / PROGRESS).unlink()
        expect(page.locator("#state")).to_have_text("Not running")
        expect(page.get_by_role("button", name="Stop")).to_be_hidden()
        assert said == []
    finally:
        watcher.kill()
