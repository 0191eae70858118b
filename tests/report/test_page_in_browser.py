"""The page in a browser: it opens offline, moves, unfolds, fits a telephone, and can be read without seeing it."""

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import report_samples as samples
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from featscope.figures import (
    Bars,
    Curve,
    Curves,
    Figure,
    Heatmaps,
    ImageGrids,
    MatrixMovie,
    Panel,
    Scatters,
    VerdictPanel,
    Verdicts,
)
from featscope.report import Content, write_report

pytestmark = pytest.mark.browser

_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")


class Opened:
    """A page, what it asked for and what it said on the console.

    Args:
        browser: the browser, which gets a window for it.
    """

    def __init__(self, browser: Browser) -> None:
        self.page: Page = browser.new_page(no_viewport=True, accept_downloads=True)
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

    def end(self, selector: str) -> float:
        """How far down the page what ``selector`` names ends."""
        box = self.page.locator(selector).bounding_box()
        assert box is not None
        return box["y"] + box["height"]

    def picture(self, canvas: int = 0) -> str:
        """A matrix of the movie as the browser drew it."""
        return self.run("(i) => document.querySelectorAll('.matrix canvas')[i].toDataURL()", canvas)

    def saved(self, figure: str) -> list[str]:
        """The lines of the file that the page makes of a figure's data."""
        with self.page.expect_download() as download:
            self.page.locator(f'[data-csv="{figure}"]').click()
        assert download.value.suggested_filename == f"{figure}.csv"
        return Path(download.value.path()).read_text(encoding="utf-8").splitlines()

    def slide(self, frame: int) -> str:
        """Move the slider and return what it says."""
        self.run(
            "(frame) => { const slider = document.querySelector('.player input'); slider.value = frame;"
            " slider.dispatchEvent(new Event('input', { bubbles: true })) }",
            frame,
        )
        self.wait(lambda: self.run("document.querySelector('[data-frame]').dataset.frame") == str(frame))
        return self.page.locator(".player output").inner_text()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Headless Chromium."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        missing = "for want of chromium"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=list(_FLAGS))
        yield started
        started.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample page."""
    return write_report(tmp_path_factory.mktemp("page"), samples.content())


@pytest.fixture
def shown(browser: Browser, file: Path) -> Iterator[Opened]:
    """The page, drawn, which must say nothing on the console."""
    opened = Opened(browser)
    opened.set_width(1280)
    opened.open(file)
    yield opened
    assert opened.said == []
    opened.page.close()


@pytest.fixture
def alone(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Opens a page with nothing but a figure, which must say nothing on the console."""
    opened = Opened(browser)
    opened.set_width(1280)

    def of(figure: Figure, replicas: int = 1) -> Opened:
        content = Content(title="bare", found="Nothing.", figures=[figure], replicas=replicas)
        opened.open(write_report(tmp_path, content))
        return opened

    yield of
    assert opened.said == []
    opened.page.close()


def test_it_asks_the_network_for_nothing(shown: Opened) -> None:
    files = [address for address in shown.asked_for if address.startswith("file:")]
    assert files, "the log records no requests"
    assert [address for address in shown.asked_for if not address.startswith(("file:", "data:", "blob:"))] == []
    assert len(set(files)) == 1


@pytest.mark.parametrize("width", [1280, 390])
def test_the_first_screen_has_question_sentence_counts_and_picture(shown: Opened, width: int) -> None:
    shown.set_width(width)
    said = samples.content()
    for selector, text in ((".kicker", said.question), ("h1", said.found), (".lede", said.lede)):
        assert shown.texts(selector) == [text.replace(" %", "\N{NO-BREAK SPACE}%")]
    counts = [" ".join(line.split()) for line in shown.texts(".tally li")]
    assert counts == [
        "18 hold",
        "1 fails, as expected beforehand",
        "1 fails on a control, as it must",
        "3 undecided",
        "2 against expectation",
    ]
    assert len(shown.page.locator(".strip a").all()) == 25
    picture = shown.page.locator(".picture canvas").first.bounding_box()
    assert picture is not None
    assert picture["y"] < 900
    if width == 1280:
        assert max(shown.end(".picture"), shown.end(".course")) <= 900
    assert shown.run("document.documentElement.scrollWidth") == width


def seldom(values: Sequence[Any], each_time: int = 0) -> list[Any]:
    """What to try: the first so many each time, all others with --long."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else [value]), marks=[pytest.mark.long] if i >= each_time else []
        )
        for i, value in enumerate(values)
    ]


def _many_panels() -> list[Figure]:
    x, points, square = np.arange(3.0), np.random.default_rng(1).normal(size=(9, 2)), np.zeros((4, 5, 5, 3))
    names = [f"a panel of the name {i}" for i in range(12)]
    curves = [Panel(name, "training step", "share of what is seen", [Curve("a", x, x)]) for name in names[:7]]
    return [
        Scatters("s", "t", "c", dict.fromkeys(names, points), dict.fromkeys(names, np.zeros(9, int)), ["one"]),
        Curves("c", "t", "c", curves),
        ImageGrids("i", "t", "c", dict.fromkeys(names[:5], square)),
        Heatmaps("h", "t", "c", dict.fromkeys(names[:6], np.eye(40)), "row", "column", "value"),
    ]


@pytest.mark.parametrize("figure", seldom(_many_panels(), 1), ids=lambda figure: type(figure).__name__)
def test_a_first_picture_of_many_panels_ends_on_the_first_screen(alone: Callable[..., Opened], figure: Figure) -> None:
    opened = alone(figure)
    assert opened.end(".picture") <= 900
    opened.set_width(390)
    opened.wait(lambda: opened.run("document.querySelector('.picture .panel').clientWidth") > 300)
    assert opened.run("document.documentElement.scrollWidth") == 390


def test_the_slider_moves_all_matrices_and_lines(shown: Opened) -> None:
    last = [shown.picture(i) for i in range(3)]
    assert shown.slide(0) == "step 0"
    assert all(shown.picture(i) != last[i] for i in range(3))
    assert shown.page.locator("#f-coverage .cursor").count() == 2
    assert shown.slide(17) == f"step {samples.STEPS[-1]}"  # it keeps 18 frames
    assert [shown.picture(i) for i in range(3)] == last


def test_play_runs_to_the_end_and_pauses(shown: Opened) -> None:
    play, label = shown.page.locator(".play"), shown.page.locator(".player output")
    shown.slide(5)
    play.click()
    assert "Pause" in play.inner_text()
    before = label.inner_text()
    shown.wait(lambda: label.inner_text() != before)
    play.click()
    assert "Play" in play.inner_text()
    paused = label.inner_text()
    shown.page.wait_for_timeout(600)
    assert label.inner_text() == paused
    shown.slide(16)
    play.click()
    shown.wait(lambda: "Play" in play.inner_text())
    assert label.inner_text() == f"step {samples.STEPS[-1]}"


def test_a_replica_is_picked_beside_curves_that_have_none_of_it(alone: Callable[..., Opened]) -> None:
    """As the share of runs that diverged, above the curves of a sweep."""
    x = np.arange(3.0)
    share = Curve("share", x, x / 3, samples=np.array([x / 3]))
    several = Curve("several", x, x, samples=np.array([x, 2 * x, 3 * x]))
    panels = [Panel("share", "x", "y", [share]), Panel("curves", "x", "y", [several])]
    opened = alone(Curves("apart", "t", "c", panels), replicas=3)
    lines = opened.page.locator("#f-apart g[clip-path] path")
    before = lines.count()
    opened.page.locator("#replica").select_option("2")
    opened.wait(lambda: lines.count() == before + 1)


def test_what_a_matrix_has_not_is_none(alone: Callable[..., Opened]) -> None:
    frames = np.zeros((1, 2, 2, 2))
    frames[0, :, 0, 1] = np.nan
    movie = MatrixMovie("cells", "t", "c", [0, 1], {"m": frames}, "row", "column", "value")
    assert alone(movie).saved("cells")[1:] == ["m,1,1,1,0.000", "m,1,1,2,", "m,1,2,1,0.000", "m,1,2,2,0.000"]


def test_one_replica_is_picked_everywhere(shown: Opened) -> None:
    mean, lines = shown.picture(), shown.page.locator("#f-coverage path[style*='stroke-width: 2.2']").count()
    shown.page.locator("#replica").select_option("2")
    shown.wait(lambda: shown.picture() != mean)
    assert shown.page.locator(".player select").input_value() == "2"
    assert shown.page.locator("#f-coverage path[style*='stroke-width: 2.2']").count() == lines + 1  # one has samples
    shown.page.locator(".player select").select_option("0")
    shown.wait(lambda: shown.picture() == mean)
    assert shown.page.locator("#replica").input_value() == "0"


def test_a_click_or_a_key_on_a_neuron_shows_its_course(shown: Opened) -> None:
    canvas, course = shown.page.locator(".matrix canvas").first, shown.page.locator(".course .name")
    box = canvas.bounding_box()
    assert box is not None
    canvas.click(position={"x": box["width"] * 2.5 / 32, "y": box["height"] * 9.5 / 256})
    shown.wait(lambda: "in column 3" in course.inner_text())
    row = int(course.inner_text().removeprefix("Row ").split()[0])
    assert 9 <= row <= 11  # rows are two pixels high
    canvas.press("ArrowDown")
    shown.wait(lambda: f"Row {row + 1} " in course.inner_text())
    canvas.press("ArrowRight")
    shown.wait(lambda: "in column 4" in course.inner_text())
    shown.page.locator(".course input").first.fill("99")
    shown.page.locator(".course input").first.press("Enter")
    shown.wait(lambda: "Row 99 " in course.inner_text())


def test_a_brush_zooms_and_keys_read_values(shown: Opened) -> None:
    panel = shown.page.locator("#f-coverage .panel").first
    chart, back = panel.locator("svg"), panel.locator(".back")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    assert not back.is_visible()
    middle = box["y"] + box["height"] / 2
    shown.page.mouse.move(box["x"] + box["width"] * 0.4, middle)
    assert "augmented: " in shown.page.locator(".tip").inner_text()
    shown.page.mouse.down()
    shown.page.mouse.move(box["x"] + box["width"] * 0.6, middle)
    shown.page.mouse.up()
    assert back.is_visible()
    back.click()
    assert not back.is_visible()
    chart.focus()
    chart.press("ArrowRight")
    assert shown.page.locator(".tip").inner_text().startswith("step 0")
    chart.press("ArrowRight")
    assert shown.page.locator(".tip").inner_text().startswith(f"step {samples.STEPS[1]}")


def test_the_legend_hides_a_series_in_all_panels(shown: Opened) -> None:
    button = shown.page.locator("#f-coverage .legend button").first
    lines = shown.page.locator("#f-coverage g[clip-path] path")
    before = lines.count()
    button.click()
    assert lines.count() < before - 1
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    assert lines.count() == before


def test_filters_and_links_open_the_claims(shown: Opened) -> None:
    shown.page.locator(".filters button").last.click()
    rows = [row for row in shown.page.locator(".source tr[data-tone]").all() if row.is_visible()]
    assert {row.get_attribute("data-tone") for row in rows} == {"loud"}
    assert len(rows) == 2
    shown.page.locator(".cards .says a").first.click()
    target = shown.page.locator(".source tr:target")
    shown.wait(lambda: target.is_visible())
    assert samples.claims()[2].note in target.inner_text()


@pytest.mark.parametrize(
    ("id", "first", "lines"),
    [
        ("coverage", "panel,curve,x,mean,low,high", 1 + 5 * 30),
        ("alignment", "panel,step,row,column", 1 + 24576),
        *seldom(
            [
                ("probe", "series,group,mean,low,high", 1 + 12),
                ("correlation", "panel,neuron,feature,correlation", 1 + 2 * 576),
                ("tsne", "panel,class,x,y", 1 + 1200),
                ("agreement", "claim,predicted,tolerance,measured", 7),
            ]
        ),
    ],
)
def test_the_data_of_a_figure_can_be_saved(shown: Opened, id: str, first: str, lines: int) -> None:
    table = shown.saved(id)
    assert table[0].startswith(first)
    assert len(table) == lines


def test_the_data_of_matrices_say_how_far_they_are_off(shown: Opened) -> None:
    heading, first, *_ = shown.saved("alignment")
    assert heading == "panel,step,row,column,value in replica 0 (± 0.016; exact: featscope export)"
    assert first.startswith(f"augmented (RandomMask),{samples.STEPS[-1]},1,1,")


def test_each_replica_has_its_column_where_curves_have_different_numbers_of_them(
    alone: Callable[..., Opened],
) -> None:
    x, y = np.arange(2), np.zeros(2)
    few, more = np.array([[1.0, 2.0], [3.0, 4.0]]), np.full((3, 2), 5.0)
    curves = [Curve("few", x, y, samples=few), Curve("more", x, y, samples=more), Curve("theory", x, y, dashed=True)]
    assert alone(Curves("apart", "t", "c", [Panel("p", "x", "y", curves)]), replicas=2).saved("apart") == [
        "panel,curve,x,mean,low,high,replica 0,replica 1,replica 2",
        "p,few,0,0,,,1,3,",
        "p,few,1,0,,,2,4,",
        "p,more,0,0,,,5,5,5",
        "p,more,1,0,,,5,5,5",
        "p,theory,0,0,,,,,",
        "p,theory,1,0,,,,,",
    ]


@pytest.mark.parametrize(("id", "name"), [("coverage", "coverage.svg"), ("filters", "filters-1.png")])
def test_a_figure_can_be_saved_as_a_picture(shown: Opened, id: str, name: str) -> None:
    with shown.page.expect_download() as saved:
        shown.page.locator(f'[data-save="{id}"]').click()
    assert saved.value.suggested_filename == name
    assert Path(saved.value.path()).stat().st_size > 500


def test_a_saved_picture_says_what_its_colours_and_axes_are(shown: Opened) -> None:
    with shown.page.expect_download() as saved:
        shown.page.locator('[data-save="coverage"]').click()
    drawing = ElementTree.parse(saved.value.path()).getroot()
    said = [text.text for text in drawing.iter("{http://www.w3.org/2000/svg}text")]
    for name in ("augmented", "plain", "theory, Theorem 3.4"):
        assert said.count(name) == 1
    assert said.count("step") == 2
    assert drawing[0].get("fill") == "rgb(255, 255, 255)"


def test_an_interval_over_something_else_than_replicas_is_drawn_beside_one_replica(
    alone: Callable[..., Opened],
) -> None:
    """As that of longbench's scores, which is over examples."""
    height = np.array([50.0, 40.0])
    opened = alone(Bars("over-examples", "t", "c", ["a", "b"], {"full": (height, height - 9, height + 9)}, "score"))
    assert opened.page.locator('#f-over-examples path[style*="stroke-width: 2.5"]').count() == 2
    assert "no interval over replicas" in opened.texts("#seen .prose")[0]


def test_no_band_spans_a_point_without_an_interval_and_what_cannot_be_drawn_is_named(
    alone: Callable[..., Opened],
) -> None:
    x, y = np.arange(1.0, 8), np.array([1, 2, np.nan, 3, 4, np.nan, 5.0])
    panel = Panel("p", "x", "y", [Curve("a", x, y, y - 1, y + 1), Curve("lost", x, np.nan * x)])
    opened = alone(Curves("gaps", "t", "c", [panel]))
    assert (
        opened.run("document.querySelector('#f-gaps [style*=\"opacity: 0.16\"]').getAttribute('d').match(/M/g).length")
        == 3
    )
    assert opened.texts("#f-gaps .left-out") == ["Not drawn: no value is known of lost."]


def test_it_says_that_it_is_drawn_once_what_follows_its_width_is(alone: Callable[..., Opened]) -> None:
    """A reader of the mark, such as the page of a run that goes on, shows the page from then on."""
    y = np.arange(3.0)
    opened = alone(Curves("late", "t", "c", [Panel("p", "x", "y", [Curve("a", y, y)])]))
    opened.page.add_init_script(
        "new MutationObserver(() => { window.drawnAt ??= document.querySelectorAll('#f-late .chart path').length })"
        ".observe(document, { subtree: true, attributeFilter: ['data-drawn'] })"
    )
    opened.page.reload()
    opened.wait(lambda: opened.run("window.drawnAt !== undefined"))
    assert opened.run("window.drawnAt") > 0


def test_a_logarithmic_axis_has_two_numbers_at_least(alone: Callable[..., Opened]) -> None:
    """From 1.5 to 90 lies one power of ten alone."""
    curve = Curve("a", np.arange(5.0), np.geomspace(1.5, 90, 5))
    opened = alone(Curves("decades", "t", "c", [Panel("p", "x", "y", [curve], log_y=True)]))
    assert opened.run("ticks(1.5, 90, true, 6)") == [2, 5, 10, 20, 50]
    assert {"2", "50"} <= {*opened.page.locator("#f-decades svg text").all_text_contents()}


def test_distances_between_points_are_alike_along_both_axes(alone: Callable[..., Opened]) -> None:
    at = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0], [-9.0, -2.0]])
    opened = alone(Scatters("map", "t", "c", {"a": at}, {"a": np.zeros(4, int)}, ["one"]))
    drawn = opened.run("document.querySelector('#f-map .chart path').getAttribute('d')")
    origin, right, above, _ = (tuple(map(float, place)) for place in re.findall(r"M([-\d.]+),([-\d.]+)a", drawn))
    assert right[0] - origin[0] == pytest.approx(origin[1] - above[1], abs=0.3)
    assert right[0] - origin[0] > 20


def test_no_line_joins_points_across_one_that_measured_nothing(alone: Callable[..., Opened]) -> None:
    y = np.array([1.0, np.nan, 3.0, 4.0])
    panel = VerdictPanel("arm", np.arange(4.0), y, ["undecided"] * 4, ["x: y"] * 4, y - 1, y + 1, [])
    opened = alone(Verdicts("line", "t", "c", [panel], "x", "measured"))
    (line,) = opened.run(
        "[...document.querySelectorAll('#f-line .chart path')].filter((path) => path.style.stroke === 'var(--soft)')"
        ".map((path) => path.getAttribute('d'))"
    )
    assert line.count("M") == 2


ELSE = pytest.mark.long
"""A width in the theme that it is not looked at in each time."""


@pytest.mark.parametrize(
    ("width", "theme"),
    [(1280, "light"), (390, "dark"), pytest.param(1280, "dark", marks=ELSE), pytest.param(390, "light", marks=ELSE)],
)
def test_it_can_be_read_without_seeing_it(shown: Opened, width: int, theme: str) -> None:
    shown.set_width(width)
    shown.page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    shown.run("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    found = Axe().run(shown.page)
    assert found.violations_count == 0, found.generate_report()


def test_the_theme_changes_and_stays(shown: Opened, file: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = shown.run(ground)
    shown.page.locator("#theme").click()
    dark = shown.run(ground)
    assert dark != light
    shown.open(file)
    assert shown.run(ground) == dark
    shown.page.locator("#theme").click()
    assert shown.run(ground) == light


def test_it_prints_with_every_claim_and_without_controls(shown: Opened) -> None:
    shown.page.emulate_media(media="print")
    shown.run("dispatchEvent(new Event('beforeprint'))")
    assert all(fold.get_attribute("open") is not None for fold in shown.page.locator("details").all())
    assert not shown.page.locator(".player").is_visible()
    assert not shown.page.locator(".filters").is_visible()
    shown.set_width(794)  # of A4
    assert shown.run("document.documentElement.scrollWidth") <= 794


def test_without_script_it_shows_sentence_verdicts_tables_and_pictures(browser: Browser, file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.locator("h1").inner_text().replace("\N{NO-BREAK SPACE}", " ") == samples.content().found
    assert page.locator(".cards .badge").count() == 5  # four, and what else is against expectation
    assert page.locator("table.arms tbody tr").count() == 3
    pictures = page.locator("noscript img").all()
    assert len(pictures) == len(samples.figures()) - 1  # the identities are a table
    assert all((box := picture.bounding_box()) and box["width"] > 200 for picture in pictures)
    assert not page.locator(".filters").is_visible()
    page.locator("details.source summary").first.click()
    assert page.locator("details tr[data-tone]").first.is_visible()
    context.close()


def test_a_page_with_nothing_but_a_figure_is_drawn(alone: Callable[..., Opened]) -> None:
    assert alone(samples.scaling()).page.locator(".picture svg[role=img]").count() == 1


def test_values_are_told_of_where_they_are(alone: Callable[..., Opened]) -> None:
    long = Curve("long", np.array([0, 1000, 1025]), np.array([4.0, 3.0, 2.0]))
    short = Curve("short", np.array([0, 1000]), np.array([6.0, 5.0]))
    opened = alone(Curves("steps", "t", "c", [Panel("p", "training step", "loss", [long, short])]))
    chart = opened.page.locator(".picture svg[role=img]")
    chart.focus()
    chart.press("ArrowLeft")
    assert opened.texts(".tip b") == ["training step 1025"]
    assert opened.texts(".tip p") == ["long: 2", "short (at 1000): 5"]
    chart.press("ArrowLeft")
    assert opened.texts(".tip p") == ["long: 3", "short: 5"]


_TAP = """chart => {
  const box = chart.getBoundingClientRect();
  const at = { bubbles: true, pointerType: "touch", clientX: box.right - 20, clientY: box.top + 40 };
  for (const kind of ["pointerdown", "pointerup", "pointerleave"]) chart.dispatchEvent(new PointerEvent(kind, at));
}"""


def test_a_finger_that_taps_is_told_values(alone: Callable[..., Opened]) -> None:
    opened = alone(Curves("c", "t", "c", [Panel("p", "step", "loss", [Curve("a", np.arange(3.0), np.arange(3.0))])]))
    opened.page.locator(".picture svg[role=img]").evaluate(_TAP)
    opened.page.locator(".tip").wait_for(state="visible")
    assert opened.texts(".tip p") == ["a: 2"]


def test_escape_keeps_the_place_of_the_keyboard(alone: Callable[..., Opened]) -> None:
    opened = alone(Curves("c", "t", "c", [Panel("p", "step", "loss", [Curve("a", np.arange(3.0), np.arange(3.0))])]))
    chart = opened.page.locator(".picture svg[role=img]")
    chart.focus()
    chart.press("ArrowLeft")
    chart.press("Escape")
    assert not opened.page.locator(".tip").is_visible()
    assert opened.run("document.activeElement.tagName") == "svg"


def test_intervals_that_go_beyond_the_axis_are_told(alone: Callable[..., Opened]) -> None:
    x, y = np.arange(3.0), np.array([1.0, 1.1, 1.2])
    for far, told in ((0.1, False), (5.0, True)):
        panel = Panel("p", "step", "loss", [Curve("a", x, y, y - far, y + far)])
        opened = alone(Curves("c", "t", "c", [panel]), 8)
        assert opened.page.get_by_text("Some intervals go beyond the axis.").is_visible() == told


def test_paper_has_all_claims_whatever_was_picked(shown: Opened) -> None:
    hidden = "document.querySelectorAll('.source tr[data-tone][hidden]').length"
    shown.page.locator(".filters button").nth(1).click()
    picked = shown.run(hidden)
    shown.run("window.dispatchEvent(new Event('beforeprint'))")
    assert (picked > 0, shown.run(hidden)) == (True, 0)
    shown.run("window.dispatchEvent(new Event('afterprint'))")
    assert shown.run(hidden) == picked
    shown.page.locator(".filters button").first.click()


def test_numbers_keep_the_digits_that_tell_them_apart(alone: Callable[..., Opened]) -> None:
    near = np.array([0.996])
    opened = alone(Bars("bars", "t", "c", ["only"], {"one": (near, near, near)}, "share"))
    chart = opened.page.locator(".picture svg[role=img]")
    assert "only 0.996" in (chart.get_attribute("aria-label") or "")
    assert "0.996" in chart.locator("text").all_text_contents()
    assert opened.run("written([5.541, 5.542, 5.543])") == ["5.541", "5.542", "5.543"]
    assert opened.run("written([0, 1.2e-5])") == ["0", "1.2×10⁻⁵"]
    for value, text in ((4096, "4096"), (-1234.56, "−1235"), (12.345, "12.3"), (1.5e6, "1.5×10⁶")):
        assert opened.run("number", value) == text


def test_where_a_claim_holds_is_drawn_and_read_by_keys(shown: Opened) -> None:
    home = shown.page.locator('[data-figure="where-plane"]')
    home.scroll_into_view_if_needed()
    chart = home.locator("svg[role=img]").first
    label = chart.get_attribute("aria-label") or ""
    assert label.startswith("augmented: holds at ")
    assert label.endswith("of 12 points")
    assert chart.locator("path").count() >= 12 + 3  # a mark a point, an area a verdict
    chart.focus()
    shown.page.keyboard.press("ArrowRight")
    shown.wait(lambda: shown.texts(".tip p") == ["holds"])
    assert shown.page.locator('[data-figure="where-line"] svg[role=img]').count() == 1


def verdict_points(opened: Opened) -> list[str]:
    """The marks of a diagram, as paths."""
    paths = opened.page.locator(".picture svg[role=img] > path[style*='stroke-width']").all()
    return [path.get_attribute("d") or "" for path in paths]


def test_verdicts_over_one_axis_can_be_logarithmic(alone: Callable[..., Opened]) -> None:
    panel = VerdictPanel("a", np.arange(3.0), np.array([0.01, 0.2, 3.0]), ["holds"] * 3, ["x=0: so"] * 3)
    opened = alone(Verdicts("v", "t", "c", [panel], "x", "y", log_y=True))
    assert len(verdict_points(opened)) >= 4
    assert not [path for path in verdict_points(opened) if "NaN" in path or "Infinity" in path]


def test_points_that_measured_nothing_are_rings_at_the_foot_that_keys_reach(alone: Callable[..., Opened]) -> None:
    y, said = np.array([1.0, np.nan, 2.0]), [f"x={i}: said {i}" for i in range(3)]
    panel = VerdictPanel("a", np.arange(3.0), y, ["holds", "undecided", "holds"], said, edges=[np.full(3, 1.5)])
    opened = alone(Verdicts("v", "t", "c", [panel], "x", "y"))
    chart = opened.page.locator(".picture svg[role=img]")
    ring = chart.locator("path[style*='--undecided']")
    assert ring.count() == 1
    foot = float(chart.get_attribute("height") or 0) - 22
    assert float((ring.get_attribute("d") or "").split(",")[1].split("a")[0]) == foot
    chart.focus()
    for i in range(3):
        chart.press("ArrowRight")
        assert opened.texts(".tip p") == [f"said {i}"]
    box = ring.bounding_box()
    assert box is not None
    opened.page.mouse.move(box["x"] + 5, box["y"] + 5)
    assert opened.texts(".tip b") == ["x=1"]


def test_a_movie_of_fewer_replicas_than_the_run_offers_its_own(alone: Callable[..., Opened]) -> None:
    movie = MatrixMovie("cells", "t", "c", [0, 1], {"m": np.zeros((2, 2, 2, 2))}, "row", "column", "value")
    opened = alone(movie, replicas=4)
    assert opened.texts(".player option") == ["0", "1"]
    opened.page.locator("#replica").select_option("3")
    assert opened.page.locator(".player select").input_value() == "0"
    assert opened.saved("cells")[0].startswith("panel,step,row,column,value in replica 0")


def test_what_ended_before_the_others_is_not_said_to_be_of_their_steps(alone: Callable[..., Opened]) -> None:
    frames = np.linspace(0, 1, 4)[:, None, None] * np.array([[1.0, 0.5]])
    ended = frames[[0, 1, 2, 2]]
    movie = MatrixMovie("cells", "t", "c", [0, 10, 20, 30], {"long": frames[None], "short": ended[None]}, "row",
                        "column", "value", last_steps={"short": 17})  # fmt: skip
    opened = alone(movie)
    names, seen = opened.page.locator(".matrix .name"), opened.page.locator(".matrix canvas")

    def told(frame: int) -> list[tuple[str, str]]:
        opened.slide(frame)
        labels = [(seen.nth(panel).get_attribute("aria-label") or "").partition(", at ")[2] for panel in range(2)]
        return [(names.nth(panel).inner_text(), labels[panel].partition(".")[0]) for panel in range(2)]

    assert told(1) == [("long", "step 10"), ("short", "step 10")]
    for frame, step in ((2, 20), (3, 30)):
        assert told(frame) == [("long", f"step {step}"), ("short (its last step, 17)", "step 17")]
        steps = {line.split(",")[0]: line.split(",")[1] for line in opened.saved("cells")[1:]}
        assert steps == {"long": str(step), "short": "17"}
    for panel, ends in enumerate((30, 17)):
        opened.page.locator(".course select").select_option(str(panel))
        points = opened.run("document.querySelector('.course svg path[style*=\"2.6\"]').getAttribute('d')")
        assert points.count("L") == (3 if ends == 30 else 2)


def test_a_movie_of_many_replicas_says_which_it_holds(alone: Callable[..., Opened]) -> None:
    opened = alone(samples.movie(replicas=20), replicas=20)
    last = opened.page.locator(".player option").count() - 1
    assert f"(the first {last + 1} of 20)" in opened.page.locator(".player label").inner_text()
    assert opened.texts(".instead") == [""]
    opened.page.locator("#replica").select_option("19")
    opened.wait(lambda: opened.texts(".instead") == ["The page does not hold replica 19 of this: it shows replica 0."])
    opened.page.locator("#replica").select_option(str(last))
    opened.wait(lambda: opened.texts(".instead") == [""])
    assert opened.page.locator(".player select").input_value() == str(last)


@pytest.mark.parametrize(
    "figure",
    seldom([samples.heatmaps(), samples.images(), samples.scatters(), samples.verdicts()], 1),
    ids=lambda figure: figure.id,
)
def test_what_has_nothing_of_a_replica_says_so_while_one_is_picked(
    alone: Callable[..., Opened], figure: Figure
) -> None:
    opened = alone(figure, replicas=2)
    assert opened.texts(".instead") == [""]
    opened.page.locator("#replica").select_option("1")
    assert opened.texts(".instead") == ["The same whichever replica is picked."]
    opened.page.locator("#replica").select_option("")
    assert opened.texts(".instead") == [""]


def test_cells_are_told_to_the_width_of_a_level_and_as_more_where_they_are_beyond(
    alone: Callable[..., Opened],
) -> None:
    frames = np.array([[0.0, 0.005], [0.0203, np.inf]])[None, None]
    movie = MatrixMovie("cells", "t", "c", [0], {"m": frames}, "paths, sorted", "neurons", "value", high=0.01)
    opened = alone(movie)
    assert opened.saved("cells")[1:] == ["m,0,1,1,0.00000", "m,0,1,2,0.00516", "m,0,2,1,>0.01000", "m,0,2,2,"]
    box = opened.page.locator(".matrix canvas").bounding_box()
    assert box is not None
    opened.page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + box["height"] * 0.75)
    opened.wait(lambda: opened.texts(".tip p") == ["value: >0.0100"])
    opened.page.locator(".matrix canvas").click(position={"x": box["width"] * 0.25, "y": box["height"] * 0.75})
    course = opened.page.locator(".course")
    opened.wait(lambda: "Row 2 (paths) ends at >0.0100 in column 1 (neurons)" in course.inner_text())
    assert "feature" not in course.inner_text()
    assert "neuron " not in course.inner_text()


def test_each_curve_has_its_interval_where_its_run_had_enough_replicas(alone: Callable[..., Opened]) -> None:
    x = np.arange(3.0)
    few, many = np.array([x, x + 1]), np.array([x + i for i in range(8)])
    curves = [Curve("few", x, x, x - 9, x + 9, samples=few), Curve("many", x, x, x - 1, x + 1, samples=many)]
    opened = alone(Curves("apart", "t", "c", [Panel("p", "x", "y", curves)]), replicas=8)
    body = opened.page.locator("#f-apart g[clip-path]")
    assert body.locator("path[style*='opacity: 0.16']").count() == 1
    assert body.locator("path[style*='opacity: 0.55']").count() == 2
    assert opened.page.locator("#replica option").count() == 9


def test_values_that_are_close_together_are_told_apart(alone: Callable[..., Opened]) -> None:
    x = np.arange(4.0)
    opened = alone(Curves("near", "t", "c", [Panel("p", "x", "y", [Curve("a", x, 1000.1 + 0.1 * x)])]))
    chart = opened.page.locator(".picture svg[role=img]")
    chart.focus()
    chart.press("ArrowRight")
    assert opened.texts(".tip p") == ["a: 1000.1"]
    assert "a ends at 1000.4" in (chart.get_attribute("aria-label") or "")


def test_a_colour_comes_twice_only_where_bars_differ_otherwise(alone: Callable[..., Opened]) -> None:
    one = (np.ones(1), np.ones(1), np.ones(1))
    opened = alone(Bars("bars", "t", "c", ["g"], {f"a{i}": one for i in range(16)}, "y"))
    bars = opened.page.locator(".picture path[style*='opacity: 0.22']").all()
    looks = [bar.evaluate("(bar) => bar.style.stroke + bar.style.strokeDasharray") for bar in bars]
    assert len({*looks}) == len(looks) == 16
    assert opened.run("[...tones(['a0', 'a7']).values()].map((place) => tone(place))") == ["var(--s0)", "var(--s1)"]
