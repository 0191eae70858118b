"""TeX as Unicode for the terminal, and that all statements can be read there and on the page."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from latex2mathml.converter import convert

from featscope import registry
from featscope.tex import _TEXTS, FORMULA, in_unicode


def unknown_macros(tex: str) -> set[str]:
    """Macros of which `in_unicode` would lose the name."""
    return {name for name in re.findall(r"\\([A-Za-z]+)", tex) if not _TEXTS.get_macro_spec(name)}


@pytest.mark.parametrize(
    ("tex", "shown"),
    [
        (r"\frac{1}{2}", "1/2"),
        (r"\frac{a + b}{2}", "(a + b)/2"),
        (r"\tfrac12", "1/2"),
        (r"x^{1/2} + d^{-1} - x_i^2", "x^(1/2) + d⁻¹ - x_i²"),
        (r"\alpha^{1.5}, A^{-k}/k, x^{(t)}, x^{++}", "α^1.5, A^(-k)/k, x^(t), x⁺⁺"),
        (r"x_{t+1}/x_t, \sum_{i=1}^n x_{ij}", "x_(t+1)/x_t, ∑_(i=1)^n x_ij"),
        (r"\nabla_{w_i} L", "∇_(w_i) L"),
        (r"W^\top x + f^{*} - f'", "Wᵀx + f* - f'"),
        (r"\|w\| \le \langle a, b \rangle", "‖w‖ ≤ ⟨a, b⟩"),
        (r"\|w\|\le\tilde{O}(1)", "‖w‖ ≤ Õ(1)"),
        (r"\left( x \right)", "(x)"),
        (r"\mathbb{E}[1 - \ell' \mid j]", "𝔼[1 - ℓ' | j]"),
        (r"F_{\min}/F_{\mathrm{maj}}", "F_min/F_maj"),
        (r"|E|/\log d, \|W\| / \|V\|", "|E|/log d, ‖W‖ / ‖V‖"),
        (r"\log \max_i x, y (\max S), = (p P)", "log max_i x, y(max S), = (p P)"),
        (r"\operatorname{sign} x", "sign x"),
        (r"\widehat{x} \overline{y} \tilde z", "x̂ y̅ z̃"),
        (r"2.1 \times 10^{-6}, C \cdot 15", "2.1 × 10⁻⁶, C · 15"),
        (r"\tau = 1 - \eta\lambda + \eta, x = -1, (-\alpha)", "τ = 1 - ηλ + η, x = -1, (-α)"),
        (r"a \ne b", "a ≠ b"),
        (r"\sqrt{d_1}, 1/\sqrt{d}", "√(d_1), 1/√d"),
        (r"\frac{\sigma^2}{M}\mathrm{tr}(V^2D^2) = \frac{\sigma^2}{M}", "(σ²/M)tr(V²D²) = σ²/M"),
        (r"p_T\frac{d(d-1)}{2}(\frac14+\gamma)", "p_T(d(d-1)/2)(1/4+γ)"),
        (r"3\frac{\eta}{2\eta_E} x, \frac1M \cdot y", "3(η/(2η_E)) x, 1/M · y"),
        (r"-\frac12\|x\|, |\frac12|, |a|\frac12|b|", "-(1/2)‖x‖, |1/2|, |a|(1/2)|b|"),
        (r"\frac{\frac12}{x}, x/\frac12, \frac12\frac{k!}{3}", "(1/2)/x, x/(1/2), (1/2)(k!/3)"),
        (r"\sqrt{a}b + \sqrt{a}(b) + \sqrt a \, b", "√(a)b + √(a)(b) + √a b"),
        (r"e^{x^{2}}, d^{1 - (a)^2}, x^{(a)/(b)}, 2^{-\sqrt{d}}", "e^(x²), d^(1 - (a)²), x^((a)/(b)), 2^(-√d)"),
        (r"\sum_{e\in\{\pm1\}^k} e", "∑_(e ∈ {±1}^k) e"),
        (r"2^kk!, d^24^T, x_{ij}y, \|x_i\|, \lVert x_i\rVert", "2^k k!, d² 4^T, x_ij y, ‖x_i‖, ‖x_i‖"),
    ],
)
def test_formulas_in_unicode(tex, shown):
    assert in_unicode(f"So ${tex}$.") == f"So {shown}."


@pytest.mark.parametrize(
    "text", ["plain \\words", "it costs $5", "between $5 and $6", "x_{1} outside", "$$", r"$\frac{x$", ""]
)
def test_what_is_no_formula_stays(text):
    assert in_unicode(text) == text


def test_macros_that_would_be_lost_are_named():
    assert unknown_macros(r"\frac{1}{2} \foo + \alpha \bar{x} \operatorname{Var}") == {"foo"}


def said_of(kind: Any) -> Iterator[tuple[str, str]]:
    """(where, words) of everything that a study's claims say."""
    for test in kind.tests:
        statement, arms = test.statement, test.arms(kind())
        for words in (statement.title, statement.text, statement.measured, statement.note, test.because):
            yield statement.id, words
        yield from ((statement.id, of_arm) for _, of_arm in arms.values())


@pytest.mark.parametrize("name", registry.entries())
def test_what_claims_say_can_be_read_in_a_terminal_and_on_the_page(name):
    _, kind = registry.find(name)
    assert kind.tests
    for where, words in said_of(kind):
        formulas = FORMULA.findall(words)
        assert words.count("$") == 2 * len(formulas), f"{where}: a dollar stands alone in {words!r}"
        for formula in formulas:
            assert not unknown_macros(formula), f"{where}: {formula}"
            shown, typeset = in_unicode(f"${formula}$"), convert(formula)
            assert not re.search(r"[\\$]", shown), f"{where}: {formula} is shown as {shown}"
            assert "\\" not in typeset, f"{where}: {formula} is typeset as {typeset}"
