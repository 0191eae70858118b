"""Mathematics on the page: TeX between dollars becomes MathML, and nothing else does."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import report_samples as samples

from featscope.report import write_page
from featscope.report.typeset import typeset

X = '<math display="inline"><mrow><mi>x</mi></mrow></math>'


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a < b & c", "a &lt; b &amp; c"),
        ("$x$", X),
        ("of <i> $x$", f"of &lt;i&gt; {X}"),
        ("f ($x$), [$x$", f'f <span class="whole">({X}),</span> <span class="whole">[{X}</span>'),
        ("($x$ < 1)", f'<span class="whole">({X}</span> &lt; 1)'),
        ("($x$)-2", f'<span class="whole">({X})</span>-2'),
        ("$x$$x$.", f'{X}<span class="whole">{X}.</span>'),
        ("it costs $5", "it costs $5"),
        ("a $5 and $6 prompt", "a $5 and $6 prompt"),
        ("$x_{$ is unfinished", "$x_{$ is unfinished"),
        ("$$", "$$"),
        ("-0.03 points (-2) at -1", "\N{MINUS SIGN}0.03 points (\N{MINUS SIGN}2) at \N{MINUS SIGN}1"),
        ("CIFAR-10, 2-4, 1e-5, x-1 and --steps", "CIFAR-10, 2-4, 1e-5, x-1 and --steps"),
        ("10⁻¹⁵ < 10⁴", '10<span class="power">⁻¹⁵</span> &lt; 10⁴'),
        ("x² at 10⁻⁵", 'x² at 10<span class="power">⁻⁵</span>'),
        ("", ""),
    ],
)
def test_words_are_escaped_and_formulas_typeset(text: str, html: str) -> None:
    assert typeset(text) == html


def test_structure_is_kept() -> None:
    tree = ElementTree.fromstring(typeset(r"$\frac{1}{2} \le \|w\|^2 < \mathbb{E}[x]$"))
    half, *_ = tree.iter("mfrac")
    assert ["".join(part.itertext()) for part in half] == ["1", "2"]
    square, *_ = tree.iter("msup")
    assert "".join(square.itertext()) == "‖2"
    assert "".join(tree.itertext()) == "12≤‖w‖2<𝔼[x]"


@pytest.mark.parametrize("tex", [r"\text{<script>alert(1)</script>}", "x < script > y", "<script>", r"x &lt;script"])
def test_a_formula_cannot_smuggle_markup(tex: str) -> None:
    html = typeset(f"${tex}$")
    assert {part.tag for part in ElementTree.fromstring(html).iter()} <= {"math", "mrow", "mi", "mo", "mtext", "mn"}
    assert "<script" not in html
    assert "alert(1)" not in html or "alert(1)" in ElementTree.fromstring(html).find(".//mtext").text  # type: ignore[operator, union-attr]


def test_title_statement_measure_and_note_of_a_claim_are_typeset(tmp_path: Path) -> None:
    claim = samples.claims()[0]
    told = replace(claim, title="As $a$", statement="It is $b$.", measures="the $c$.", note=r"Because $d_1 \to e$.")
    write_page(tmp_path / "page.html", samples.content(claims=[told], figures=[], headlines={}))
    fold = (tmp_path / "page.html").read_text().partition('<tr id="c1"')[2].partition("</tr>")[0]
    formulas = [ElementTree.fromstring(formula) for formula in re.findall(r"<math.*?</math>", fold)]
    assert ["".join(formula.itertext()) for formula in formulas] == ["a", "b", "c", "d1→e"]
