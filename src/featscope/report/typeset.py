"""Words with mathematics in them, as HTML: what stands between dollars is TeX and becomes MathML."""

import re
from functools import cache
from html import unescape
from xml.etree.ElementTree import tostring

from latex2mathml.converter import convert_to_element
from markupsafe import Markup, escape

from featscope.tex import FORMULA

_EXPONENT = re.compile("[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{2,}|[⁺⁻][⁰¹²³⁴⁵⁶⁷⁸⁹]")
_MARKS = re.compile(r"[.,;:!?)\]]*")
_MINUS = re.compile(r"(?<![\w)\]-])-(?=\d)")  # before a number, and not within a name, a range or a power


@cache
def typeset(text: str) -> Markup:
    """HTML of ``text``, escaped but for its mathematics. What is no TeX stays as it was written."""
    parts, at = [], 0
    for found in FORMULA.finditer(text):
        begin = found.start() - text.startswith(("(", "["), max(0, found.start() - 1), found.start())
        end = found.end() + len(_MARKS.match(text, found.end())[0])  # type: ignore[index]  # which may be empty
        before, after = text[begin : found.start()], text[found.end() : end]
        parts += [_words(text[at:begin], text[at - 1 : at]), _whole(before, _formula(found[1]), after)]
        at = end
    return Markup("").join([*parts, _words(text[at:], text[at - 1 : at])])


def _whole(before: str, formula: Markup, after: str) -> Markup:
    """A formula and the marks beside it, between which browsers would break lines."""
    return Markup('<span class="whole">{}{}{}</span>').format(before, formula, after) if before or after else formula


def _words(text: str, before: str) -> Markup:
    """``text``, behind the character ``before``, with minus signs, and its numbers whole.

    No line breaks between a number and its per cent, and exponents of several characters are in one font: those of
    books have ¹, ² and ³ alone.
    """
    plain = _MINUS.sub("\N{MINUS SIGN}", before + text)[len(before) :].replace(" %", "\N{NO-BREAK SPACE}%")
    return Markup(_EXPONENT.sub(r'<span class="power">\g<0></span>', str(escape(plain))))


def _formula(tex: str) -> Markup:
    try:
        tree = convert_to_element(tex, xmlns="")
    except Exception:  # they are of many kinds, and a slip in a note must not cost the report
        return Markup(escape(f"${tex}$"))
    del tree.attrib["xmlns"]
    for node in tree.iter():  # it writes symbols as entities, and words as they come
        node.text = unescape(node.text) if node.text else node.text
    return Markup(tostring(tree, encoding="unicode"))
