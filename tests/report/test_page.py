"""The page's words, numbers and data."""

import base64
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import report_samples as samples

from featscope.claims import Claim
from featscope.figures import Figure
from featscope.report import write_page, write_report
from featscope.report.interactive import drawing
from featscope.report.interactive_matrices import quantised
from featscope.report.look import Scale, curve_swatches, scale
from featscope.report.numbers import chosen, exact, interval, number
from featscope.report.verdicts import rows, tally, unexpected


def claim(measured: float, *, low: float, high: float, arm: str = "a", expected: bool = True, n: int = 8) -> Claim:
    return Claim("id", "source", "statement", "bound", arm, 0.5, ">=", 0.0, measured, (low, high), n, expected)


HOLDS = {"measured": 0.6, "low": 0.55, "high": 0.65}
FAILS = {"measured": 0.4, "low": 0.35, "high": 0.45}
OPEN = {"measured": 0.5, "low": 0.4, "high": 0.6}


@pytest.mark.parametrize(
    ("numbers", "expected", "arm", "remark", "surprising"),
    [
        (HOLDS, True, "a", "", False),
        (FAILS, True, "a", "unexpected: should hold", True),
        (OPEN, True, "a", "unexpected: should hold", True),
        (HOLDS, False, "a", "unexpected", True),
        (FAILS, False, "a", "as expected", False),
        (OPEN, False, "a", "", False),
        (FAILS, False, "control", "as it must", False),
        (HOLDS, False, "control", "unexpected: must not hold here", True),
        (HOLDS, True, "control", "", False),
    ],
)
def test_rows_say_what_was_expected(
    numbers: dict[str, float], expected: bool, arm: str, remark: str, surprising: bool
) -> None:
    one = claim(**numbers, expected=expected, arm=arm)  # type: ignore[arg-type]
    (row,) = rows([one], {"control"})
    assert (row.remark, row.unexpected, unexpected(one)) == (remark, surprising, surprising)
    assert row.control == (arm == "control")


def test_tally_counts_each_claim_once() -> None:
    claims = samples.claims()
    counts = tally(claims, samples.CONTROLS)
    assert sum(count.number for count in counts) == len(claims) == 25
    assert ", ".join(f"{count.number} {count.words}" for count in counts) == (
        "18 hold, 1 fails as expected, 1 fails on a control, as it must, 3 undecided, "
        "1 fails unexpectedly, 1 holds unexpectedly"
    )


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
    assert number(-2.45e-4, decimals=4) == "−0.0002"
    assert number(2.45e-5, decimals=7) == "2.45×10⁻⁵"
    assert chosen(0.9) == "0.9"
    assert chosen(1e-5) == "1×10⁻⁵"
    assert chosen(100.0) == "100"
    assert exact(1 / 3) == "0.3333333333"
    assert interval(0.49989, 0.50062) == "[0.49989, 0.50062]"
    assert interval(-0.0108, 0.1093) == "[−0.011, 0.109]"
    assert interval(2.41e-5, 3.18e-5) == "[2.41, 3.18]×10⁻⁵"
    assert interval(1.0, 1.0) == "[1.00, 1.00]"
    assert interval(0.0, 0.0) == "[0.00, 0.00]"
    assert interval(float("-inf"), 1.0) == "[−∞, 1.00]"


def test_glyph_agrees_with_the_verdict() -> None:
    for row in rows(samples.claims(), samples.CONTROLS):
        left, right = row.glyph.accepted
        inside = left - 1e-6 <= row.glyph.low and row.glyph.high <= right + 1e-6
        if np.isfinite(row.claim.measured):
            assert inside == (row.claim.verdict == "holds"), row.claim.id


def test_quantised_bytes_give_the_values_back() -> None:
    colours = Scale(-1.0, 1.0, ("#fff", "#000"), "v")
    values = np.random.default_rng(0).uniform(-1, 1, (2, 3, 4))
    assert np.abs(-1 + quantised(values, colours) / 254 * 2 - values).max() <= 1 / 254 + 1e-12
    np.testing.assert_array_equal(quantised(np.array([np.nan, -9, 9]), colours), [255, 0, 254])


def test_scales_are_two_sided_only_around_zero() -> None:
    assert scale(-0.5, 1.0, "v")[:2] == (-1, 1)
    assert scale(0.0, 1.0, "v")[:2] == (0, 1)
    assert scale(2.0, 2.0, "v")[:2] == (2, 3)


def test_a_label_has_one_colour_in_all_panels() -> None:
    swatches = curve_swatches(samples.curves().panels)
    assert len(swatches) == 3
    assert len({swatch.colour for swatch in swatches.values()}) == 3


@pytest.mark.parametrize("figure", samples.figures(), ids=lambda figure: figure.id)
def test_every_type_has_an_interactive_drawing(figure: Figure) -> None:
    shown = drawing(figure)
    assert shown.plots
    for plot in shown.plots:
        assert (plot.plotly is None) != (plot.picture is None)
        if plot.plotly is not None:
            assert {"data", "layout"} <= set(json.loads(plot.plotly))


def test_a_large_movie_stays_small() -> None:
    shown = drawing(samples.movie(neurons=256, features=32, frames=30))
    assert sum(len(plot.frames or "") + len(plot.plotly or "") for plot in shown.plots) < 1.2e6
    frames = np.frombuffer(base64.b64decode(shown.plots[0].frames or ""), np.uint8)
    assert frames.size == 30 * 256 * 32


def test_the_page_escapes_and_holds_to_itself(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    hostile = '</script><script>alert(1)</script> a<b & "c"'
    figure = samples.movie(4, 3, 2)
    figures = [replace(figure, title=hostile, frames={hostile: figure.frames["plain (no augmentation)"]})]
    texts = dict.fromkeys(("title", "source", "about", "headline"), hostile)
    write_page(page, **texts, claims=[], figures=figures, facts={"command": hostile})
    html = page.read_text()
    assert "<script>alert(1)" not in html
    assert "connect-src" not in html
    assert "default-src 'none'" in html
    markup = re.sub(r"<script\b.*?</script>", "", html, flags=re.S)
    assert not re.search(r"""(src|href)\s*=\s*["'](?!data:|#)""", markup)


def test_the_report_is_a_folder_of_figures_and_a_page(tmp_path: Path) -> None:
    figures = [samples.bars(), samples.agreement()]
    page = write_report(tmp_path / "run", **samples.PAGE, claims=samples.claims(), figures=figures)
    assert page == tmp_path / "run" / "report.html"
    assert sorted(str(file.relative_to(tmp_path / "run")) for file in (tmp_path / "run").rglob("*.*")) == [
        "figures/agreement.png",
        "figures/probe.png",
        "report.html",
    ]


def test_without_script_it_shows_the_claims(tmp_path: Path) -> None:
    write_page(tmp_path / "page.html", **samples.PAGE, claims=samples.claims()[:1], figures=[])
    html = (tmp_path / "page.html").read_text()
    assert "<noscript><style>tr.detail[hidden] { display: table-row; }" in html


def test_without_claims_it_has_no_table(tmp_path: Path) -> None:
    write_page(tmp_path / "page.html", **samples.PAGE, claims=[], figures=samples.figures()[:1])
    html = (tmp_path / "page.html").read_text()
    assert "<table" not in html
    assert "Everything came out" not in html
    assert 'class="figure' in html
