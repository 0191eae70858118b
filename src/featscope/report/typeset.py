"""Words with mathematics in them, as HTML: what stands between dollars is TeX and becomes MathML."""

from functools import cache

from latex2mathml.converter import convert
from markupsafe import Markup, escape


@cache
def typeset(text: str) -> Markup:
    """HTML of ``text``, escaped but for its mathematics."""
    words_and_formulas = text.split("$")
    if len(words_and_formulas) % 2 == 0:  # a dollar that no other one closes is a dollar
        return Markup(escape(text))
    parts = [_formula(part) if i % 2 else escape(part) for i, part in enumerate(words_and_formulas)]
    return Markup("").join(parts)


def _formula(tex: str) -> Markup:
    return Markup(convert(tex).replace(' xmlns="http://www.w3.org/1998/Math/MathML"', ""))
