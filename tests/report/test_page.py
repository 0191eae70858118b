"""The page's words, numbers and data."""

import base64
import json
import math
import re
import zlib
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import report_samples as samples

from featscope.claims import Claim, interval_of_mean
from featscope.figures import Agreement, Curve, Curves, Figure, MatrixMovie, Panel, VerdictPanel, Verdicts
from featscope.report import Content, draw, write_page, write_report
from featscope.report.claim_view import Tone, by_source, outlook, tone_of, views
from featscope.report.figure_data import figure_data
from featscope.report.look import curve_swatches, reference_swatches, scale
from featscope.report.numbers import chosen, decimals_for, exact, interval, number
from featscope.report.page import page_html


def claim(measured: float, *, low: float, high: float, arm: str = "a", expected: bool = True, n: int = 8) -> Claim:
    return Claim("id", "source", "statement", "bound", arm, 0.5, ">=", 0.0, measured, (low, high), n, expected)


HOLDS = {"measured": 0.6, "low": 0.55, "high": 0.65}
FAILS = {"measured": 0.4, "low": 0.35, "high": 0.45}
OPEN = {"measured": 0.5, "low": 0.4, "high": 0.6}


@pytest.mark.parametrize(
    ("numbers", "expected", "control", "tone", "at_other_options"),
    [
        (HOLDS, True, False, "holds", "holds"),
        (FAILS, True, False, "loud", "calm"),
        (OPEN, True, False, "undecided", "undecided"),
        (HOLDS, False, False, "loud", "holds"),
        (FAILS, False, False, "calm", "calm"),
        (OPEN, False, False, "undecided", "undecided"),
        (FAILS, False, True, "control", "control"),
        (HOLDS, False, True, "loud", "holds"),
        (HOLDS, True, True, "holds", "holds"),
    ],
)
def test_only_what_is_against_expectation_is_loud(
    numbers: dict[str, float], expected: bool, control: bool, tone: Tone, at_other_options: Tone
) -> None:
    one = claim(**numbers, expected=expected)  # type: ignore[arg-type]
    assert tone_of(one, control) == tone
    assert tone_of(one, control, loud=False) == at_other_options


def test_what_would_decide_is_said_of_what_is_undecided_only() -> None:
    every = views([claim(**HOLDS), claim(**OPEN)], {}, ())  # type: ignore[arg-type]
    assert [bool(view.decides) for view in every] == [False, True]
    assert outlook(every[:1]) == ""


def test_the_outlook_names_a_number_that_decides_most_and_how_many_that_is() -> None:
    random = np.random.default_rng(1)
    samples_of = [random.normal(1.0, 0.5, 8) + 0.05 * k for k in range(5)]
    every = [
        Claim.from_samples(one, "<=", 1.3, id=str(k), source="", statement="", kind="bound", arm="")
        for k, one in enumerate(samples_of)
    ]
    needed = sorted(one.replicas_needed - one.n for one in every if one.verdict == "undecided" and one.replicas_needed)
    said = outlook(views(every, {}, ()))
    most = needed[max(1, int(0.8 * len(needed))) - 1]
    assert said.startswith(f"About {most} more replicas (repetitions with other random numbers) would decide")


def test_what_is_known_of_a_measurement_is_said_by_its_law() -> None:
    def said(samples: object, **more: object) -> str:
        about = {"id": "a", "source": "", "statement": "", "kind": "bound", "arm": ""}
        return views([Claim.from_samples(samples, ">=", 0.5, **about, **more)], {}, ())[0].interval  # type: ignore[arg-type]

    assert said([0.7, 0.9, 0.8], law="extreme", trials=[16, 16, 16]) == "the worst of 48 draws"
    assert said([0.7, 0.9], law="extreme") == "the worst of 2 draws"
    assert said([0.7, 0.9], law="exact") == "exact"
    assert said([0.7, 0.7]) == "the same in every replica"
    assert said([1.0, 1.0], law="yes/no") == "0.0707 to 1.00"


def test_what_is_small_beside_a_loose_bound_is_no_rounding():
    about = {"id": "a", "arm": "x", "source": "Lemma 1", "statement": "", "kind": "bound"}
    (view,) = views([Claim.from_samples([300.0, 350.0, 400.0, 380.0], "<=", 1e9, **about)], {}, ())
    assert view.measured == "358"
    assert " to " in view.interval
    (view,) = views([Claim.from_samples([1e-9, 2e-9, 3e-9, 2e-9], "=", 1.0, 0.1, **about)], {}, ())
    assert view.measured == "0"  # of an equation it is


def test_holm_s_correction_is_named_where_it_would_take_a_verdict_back() -> None:
    about = {"source": "", "statement": "", "kind": "bound", "arm": ""}
    samples = [0.0, 1.0, 0.5, 0.6, 0.9, 0.2, 0.7, 0.4]
    end, _ = interval_of_mean(np.array(samples))
    near = [Claim.from_samples(samples, ">=", end - k / 1000, id=str(k), **about) for k in (1, 2)]
    assert [claim.verdict for claim in near] == ["holds", "holds"]
    assert [bool(view.doubt) for view in views(near, {}, ())] == [True, True]
    assert [bool(view.doubt) for view in views(near[:1], {}, ())] == [False]


def test_intervals_and_pictures_stay_in_the_range_of_what_is_measured() -> None:
    share = Claim.from_samples(
        [1.0, 1.0, 0.9], ">=", 0.5, id="a", source="", statement="", kind="bound", arm="", range=(0, 1)
    )
    assert share.interval[1] == 1
    (view,) = views([share], {}, ())
    assert "to 1.00" in view.interval
    beyond = Claim.from_samples(
        [1.30, 1.31, 1.29], ">=", 0.5, id="a", source="", statement="", kind="bound", arm="", range=(0, 1)
    )
    (view,) = views([beyond], {}, ())
    low, high = map(float, view.interval.split(" to "))
    assert low < float(view.measured) < high


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.500"),
        (-1.25, "−1.25"),
        (0.0, "0"),
        (1234.5, "1234"),
        (3.21e-5, "3.21×10⁻⁵"),
        (9.999e-5, "1.00×10⁻⁴"),
        (2.5e7, "2.50×10⁷"),
        (float("nan"), "none"),
        (float("-inf"), "−∞"),
    ],
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


def test_other_numbers() -> None:
    assert number(0.9997) == "1.00"
    assert number(123428.0, decimals=0) == "1.23428×10⁵"
    assert number(123428.0, decimals=-3) == "1.23×10⁵"
    assert decimals_for(2e7, 3e7) == -6
    assert decimals_for(1.0, 1.0) is None
    assert number(-2.45e-4, decimals=4) == "−0.0002"
    assert number(2.45e-5, decimals=7) == "2.45×10⁻⁵"
    assert chosen(0.9) == "0.9"
    assert chosen(1e-5) == chosen(1e-5, decimals=4) == "1×10⁻⁵"
    assert chosen(100.0) == "100"
    assert [exact(one) for one in (1 / 3, -2.0, math.inf, 1 + 3e-12)] == [
        "0.3333333333333333",
        "−2",
        "∞",
        "1.000000000003",
    ]
    assert interval(0.49989, 0.50062) == "[0.49989, 0.50062]"
    assert interval(-0.0108, 0.1093) == "[−0.011, 0.109]"
    assert interval(2.41e-5, 3.18e-5) == "[2.41, 3.18]×10⁻⁵"
    assert interval(1.0, 1.0) == "[1.00, 1.00]"
    assert interval(0.0, 0.0) == "[0.00, 0.00]"
    assert interval(float("-inf"), 1.0) == "[−∞, 1.00]"


def bands(glyph: str) -> tuple[float, float, float, float]:
    """Where the accepted values begin and end in a claim's picture, and where its interval does."""
    accepted = re.search(r'class="g-ok" x="([-.\d]+)" y="4" width="([-.\d]+)"', glyph)
    bar = re.search(r'class="g-int" d="M([-.\d]+),11H([-.\d]+)"', glyph)
    assert accepted, glyph
    assert bar, glyph
    return float(accepted[1]), float(accepted[1]) + float(accepted[2]), float(bar[1]), float(bar[2])


def test_the_picture_of_a_claim_agrees_with_its_verdict() -> None:
    every = [view for view in views(samples.claims(), {}, ()) if np.isfinite(view.claim.measured)]
    assert len(every) == 24
    for view in every:
        left, right, low, high = bands(view.glyph)
        inside = left - 0.06 <= low and high <= right + 0.06
        assert inside or view.claim.verdict != "holds", view.claim.id
        assert not inside or view.claim.verdict != "fails", view.claim.id


def test_the_picture_of_a_claim_is_drawn_to_scale() -> None:
    """It is 160 wide with 8 at either side; a share's goes from 0 to 1, an equation's 2.5 tolerances to both sides."""
    share = replace(claim(**HOLDS), range=(0.0, 1.0))  # type: ignore[arg-type]
    equation = replace(share, relation="=", tolerance=0.1)
    nothing = replace(share, measured=float("nan"))
    of_share, of_equation, of_nothing = (view.glyph for view in views([share, equation, nothing], {}, ()))
    assert bands(of_share) == pytest.approx((80.0, 152.0, 8 + 0.55 * 144, 8 + 0.65 * 144))
    assert 'cx="94.4"' in of_share
    assert bands(of_equation) == pytest.approx((51.2, 108.8, 8 + 0.6 * 144, 8 + 0.8 * 144))
    assert of_nothing == ""


def test_scales_are_two_sided_only_around_zero() -> None:
    assert scale(-0.5, 1.0, "v")[:2] == (-1, 1)
    assert scale(0.0, 1.0, "v")[:2] == (0, 1)
    assert scale(2.0, 2.0, "v")[:2] == (2, 3)


def test_a_label_has_one_colour_in_all_panels() -> None:
    swatches = curve_swatches(samples.curves().panels)
    assert len(swatches) == 3
    assert len({swatch.colour for swatch in swatches.values()}) == 3


@pytest.mark.parametrize("figure", samples.figures(), ids=lambda figure: figure.id)
def test_every_kind_of_figure_is_data_that_a_script_can_read(figure: Figure) -> None:
    data = json.loads(json.dumps(figure_data(figure), allow_nan=False))
    kinds = ("curves", "movie", "agreement", "bars", "heatmaps", "images", "scatters", "verdicts")
    assert data.get("kind", "agreement") in kinds


def test_places_along_an_axis_have_all_their_digits_and_measurements_a_few() -> None:
    at = np.array([10025.0, 16384.0, 1 / 3])
    data = figure_data(Curves("curves", "t", "c", [Panel("p", "x", "y", [Curve("a", at, at)])]))
    (curve,) = data["panels"][0]["curves"]
    assert curve["x"] == [10025, 16384, 0.333333333333]
    assert curve["y"] == [10020, 16380, 0.3333]
    panel = VerdictPanel("a", at[:1], at[1:2], ["holds"], ["said"])
    for areas, y in ((True, 16384), (False, 16380)):
        (data,) = figure_data(Verdicts("where", "t", "c", [panel], "x", "y", areas=areas))["panels"]
        assert (data["x"], data["y"]) == ([10025], [y])


def test_a_movie_keeps_every_replica_to_a_few_levels() -> None:
    figure = samples.movie(neurons=20, features=5, frames=7)
    data = figure_data(figure)
    assert len(data["replicas"]) == data["of"] == 3
    for replica, packed in enumerate(data["replicas"]):
        cells = np.frombuffer(zlib.decompress(base64.b64decode(packed)), np.uint8).reshape(3, 7, 20, 5)
        levels = np.cumsum(cells, axis=1, dtype=np.uint8)
        stored = np.stack([frames[replica] for frames in figure.frames.values()])
        assert np.abs(levels / (data["levels"] - 1) - stored).max() <= 0.5 / (data["levels"] - 1) + 1e-9


class Outline(HTMLParser):
    """What of a page can be fetched, and the words outside of scripts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self._silent = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        assert not [name for name, _ in attrs if name.startswith("on") or name == "style"], tag
        self._silent = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._silent = False

    def handle_data(self, data: str) -> None:
        self.words += [] if self._silent else [data]


def test_the_page_escapes_and_holds_to_itself(tmp_path: Path) -> None:
    hostile = '</script><script>alert(1)</script> a<b & "c" $x<y$'
    figure = samples.movie(4, 3, 2)
    movie = replace(figure, title=hostile, frames={hostile: figure.frames["plain (no augmentation)"]})
    said = dict.fromkeys(("title", "source", "question", "found", "lede", "summary", "command", "changed"), hostile)
    arm = replace(samples.ARMS.rows[0], label=hostile, about=hostile)
    table = replace(samples.ARMS, rows=[arm], columns=[hostile], base=[hostile], same={hostile: hostile})
    claims = [replace(samples.claims()[0], title=hostile, statement=hostile, note=hostile, source=hostile, id=hostile)]
    write_page(
        tmp_path / "page.html",
        Content(**said, figures=[movie], arms=[table], claims=claims, facts={hostile: hostile}),  # type: ignore[arg-type]
    )
    html = (tmp_path / "page.html").read_text()
    page = Outline(html)
    assert "alert(1)" in "".join(page.words)
    assert page.tags.count("script") == 3  # the two of ours, and the data
    assert "default-src 'none'" in unescape(html)
    assert "unsafe" not in html
    assert [address for address in page.addresses if not address.startswith(("data:image/webp;base64,", "#"))] == []


def test_the_report_is_a_folder_of_figures_and_a_page(tmp_path: Path) -> None:
    page = write_report(tmp_path / "run", samples.content(figures=[samples.bars(), samples.agreement()]))
    assert page == tmp_path / "run" / "report.html"
    assert sorted(str(file.relative_to(tmp_path / "run")) for file in (tmp_path / "run").rglob("*.*")) == [
        "figures/agreement.png",
        "figures/probe.png",
        "report.html",
    ]


@pytest.mark.parametrize("replicas", [pytest.param(3, marks=pytest.mark.long), 20])
def test_the_page_of_many_large_figures_stays_small(tmp_path: Path, replicas: int) -> None:
    page = write_report(tmp_path / "run", samples.content(figures=samples.figures(replicas), replicas=replicas))
    assert page.stat().st_size < 1.5e6


def test_a_movie_of_many_replicas_keeps_the_first_of_them() -> None:
    few, many = (figure_data(samples.movie(replicas=replicas)) for replicas in (3, 20))
    assert 3 <= len(many["replicas"]) < many["of"] == 20
    assert many["replicas"][:3] == few["replicas"]
    large = figure_data(samples.movie(neurons=4000, frames=18, replicas=2))
    assert (len(large["replicas"]), large["of"]) == (1, 2)


def test_what_is_not_there_has_no_place_on_the_page(tmp_path: Path) -> None:
    write_page(tmp_path / "page.html", Content(title="bare", found="Nothing."))
    page = Outline((tmp_path / "page.html").read_text())
    assert "table" not in page.tags
    assert "figure" not in page.tags
    assert "Nothing." in page.words
    assert [address for address in page.addresses if address.startswith("#") and not address.startswith("#i-")] == [
        "#found",
        "#again",  # beside the title, and folded where there is no room for it
        "#again",
    ]


def test_without_headlines_what_is_against_expectation_comes_first(tmp_path: Path) -> None:
    write_page(tmp_path / "page.html", samples.content(headlines={}, figures=[]))
    html = (tmp_path / "page.html").read_text()
    cards = html[html.index('class="cards"') :]
    assert 2 <= cards[: cards.index("</ol>")].count("<li") <= 4
    assert "t-loud" in cards[: cards.index("</li>")]


def read(text: str) -> float:
    """A number as the page writes it."""
    mantissa, _, power = text.replace("−", "-").partition("×10")
    return float(mantissa) * 10.0 ** int(power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")) or 0)


@pytest.mark.parametrize(
    ("bound", "ends", "relation"),
    [
        (1.001, (1.0004, 1.0008), "<="),
        (1 + 1e-5, (1.00002, 1.00004), "<="),
        (0.98765, (0.98791, 0.98799), "<="),
        (123400.0, (123425.0, 123431.0), "<="),
        (250400.0, (249000.0, 250380.0), "<="),
        (1234500.0, (1234600.0, 1234900.0), "<="),
        (99.96, (99.98, 99.99), "<="),
    ],
)
def test_numbers_on_the_page_lie_on_the_side_of_the_bound_that_the_verdict_says(bound, ends, relation) -> None:
    made = replace(claim(sum(ends) / 2, low=ends[0], high=ends[1]), predicted=bound, relation=relation)
    (view,) = views([made], {}, ())
    shown = [read(text) for text in (view.measured, *view.interval.split(" to "))]
    wanted = read(view.wanted.removeprefix("at most "))
    assert all((one <= wanted) == (made.verdict == "holds") for one in shown)
    assert len(view.wanted) < 20


@pytest.mark.parametrize(
    ("predicted", "tolerance", "measured"),
    [
        (1.0, 1e-6, 1.00002),
        (1.25, 1e-5, 1.2500001),
        (0.98765, 1e-6, 0.98791),
        (0.33346, 4e-5, 0.33352),
        (1.0, 0.0123456, 1.01234),
        (1.0, 0.0123456, 1.01236),
    ],
)
def test_an_equation_reads_as_its_verdict_says(predicted: float, tolerance: float, measured: float) -> None:
    about = {"id": "a", "source": "", "statement": "", "kind": "identity", "arm": ""}
    made = Claim.from_samples(measured, "=", predicted, tolerance, law="exact", **about)
    (view,) = views([made], {}, ())
    wanted, accepted = map(read, view.wanted.split(" ± "))
    assert (abs(read(view.measured) - wanted) <= accepted) == (made.verdict == "holds")


def test_what_is_held_against_nothing_finite_is_still_told() -> None:
    for bound in (float("nan"), float("inf")):
        (view,) = views([replace(claim(**OPEN), predicted=bound)], {}, ())  # type: ignore[arg-type]
        assert view.measured == "0.500"


def own_agreement(labels: list[str]) -> Agreement:
    """Rows by the names of one's own."""
    ones = np.ones(len(labels))
    return Agreement("own", "Depths", "One row a depth.", labels, ones, ones, ones, ones, 0.1 * ones)


def test_an_agreement_whose_rows_are_no_claims_is_shown_as_its_picture(tmp_path: Path) -> None:
    figures = [samples.bars(), own_agreement(["depth 1", "depth 2"])]
    html = write_report(tmp_path, samples.content(figures=figures)).read_text()
    article = html[html.index('aria-labelledby="h-own"') :]
    article = article[: article.index("</article>")]
    assert '<img class="png" src="data:image/webp;base64,' in article
    assert "One row a depth." in article.split("<figcaption")[1]
    assert "<table" not in article
    assert 'data-csv="own"' in article
    assert "data-save" not in article


def test_an_agreement_whose_rows_are_claims_is_a_table(tmp_path: Path) -> None:
    one = samples.claims()[0]
    figure = own_agreement([f"{one.id} ({one.arm})"])
    html = write_report(tmp_path, samples.content(figures=[samples.bars(), figure])).read_text()
    assert '<img class="png"' not in html
    table = html[html.index('class="agree"') :]
    assert table.count("<tr data-tone") >= 1
    assert table.count('data-csv="own"') == 1
    assert 'data-save="own"' not in table


def test_curves_that_are_close_together_have_the_digits_that_tell_them_apart() -> None:
    x = np.arange(4.0)
    rising = Curve("a", x, 1000.1 + 0.1 * x, samples=np.array([1000.1 + 0.1 * x]))
    flat = [Curve("b", x, np.full(4, 2000.1)), Curve("c", x, np.full(4, 2000.4))]
    far = Curve("d", x, np.array([0.0, np.nan, 1e308, -1e308]))

    def shown(*curves: Curve) -> list[list[float | None]]:
        return [
            one["y"]
            for one in figure_data(Curves("i", "t", "c", [Panel("p", "x", "y", curves)]))["panels"][0]["curves"]
        ]

    assert shown(rising) == [[1000.1, 1000.2, 1000.3, 1000.4]]
    assert shown(*flat) == [[2000.1] * 4, [2000.4] * 4]
    assert shown(far, rising)[1] == [1000.1, 1000.2, 1000.3, 1000.4]
    assert shown(Curve("none", x, np.full(4, np.nan))) == [[None] * 4]


def test_an_axis_is_logarithmic_only_where_something_is_positive() -> None:
    def logarithmic(y: np.ndarray) -> tuple[bool, bool]:
        panel = Panel("p", "x", "y", [Curve("a", np.arange(2.0), y)], log_y=True)
        points = VerdictPanel("a", np.arange(2.0), y, ["holds"] * 2, ["so"] * 2)
        curves, verdicts = Curves("i", "t", "c", [panel]), Verdicts("v", "t", "c", [points], "x", "y", log_y=True)
        return figure_data(curves)["panels"][0]["logy"], figure_data(verdicts)["logy"]

    assert logarithmic(np.array([-1.0, 2.0])) == (True, True)
    assert logarithmic(np.array([-1.0, 0.0])) == (False, False)


def test_cells_beyond_the_scale_of_a_movie_and_what_is_infinite_are_told() -> None:
    cells = np.array([[0.0, 1.0, 1.015], [1.5, -0.5, np.inf]])
    data = figure_data(MatrixMovie("m", "t", "c", [0], {"m": cells[None, None]}, "row", "column", "value"))
    levels = np.frombuffer(zlib.decompress(base64.b64decode(data["replicas"][0])), np.uint8)
    top = data["levels"] - 1
    assert levels.tolist() == [0, top, top, data["above"], data["below"], data["none"]]


def test_no_two_curves_of_a_figure_look_alike() -> None:
    x = np.arange(2.0)
    names = [f"a{i}" for i in range(40)]
    curves = [Curve(name, x, x) for name in names] + [Curve(name, x, x, dashed=True) for name in ("theory", *names)]
    looks = [(one.colour, one.shape) for one in curve_swatches([Panel("p", "x", "y", curves)]).values()]
    assert len({*looks}) == len(looks) == 81
    assert len({one.shape for one in reference_swatches([(0.0, str(i)) for i in range(6)])}) == 6


def test_figures_of_one_id_do_not_stand_in_for_each_other(tmp_path: Path) -> None:
    """As `trend-a-b` of the claim a on the arm b would, of a study that was never checked."""
    first, second = samples.bars(), replace(samples.heatmaps(), id="Probe")
    content = Content("t", figures=[first, second, replace(second, id="probe")])
    assert [figure.id for figure in content.figures] == ["probe", "Probe-2", "probe-3"]
    page = page_html(content)
    assert '"Probe-2":{"kind":"heatmaps"' in page
    assert '"probe":{"kind":"bars"' in page


def test_pictures_of_a_report_before_are_removed_and_no_others(tmp_path: Path) -> None:
    others = [replace(samples.bars(), id=id) for id in ("fig-4.1", "a=b", "x@y+z")]
    write_report(tmp_path, Content("t", figures=[samples.bars(), samples.heatmaps(), *others]))
    draw(samples.bars(), tmp_path / "figures" / "for-my-talk.png")
    (tmp_path / "figures" / "cut.png").write_bytes(b"no picture")
    write_report(tmp_path, Content("t", figures=[samples.heatmaps()]))
    left = sorted(file.name for file in (tmp_path / "figures").iterdir())
    assert left == ["correlation.png", "cut.png", "for-my-talk.png"]


def test_sources_stand_by_their_numbers() -> None:
    every = views([replace(samples.claims()[0], source=f"Lemma {n}") for n in ("B.10", "B.9", "2", "10")], {}, ())
    assert [source for source, _ in by_source(every)] == ["Lemma 2", "Lemma 10", "Lemma B.9", "Lemma B.10"]
