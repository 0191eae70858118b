"""TeX for eyes that have only a terminal."""

import re
from collections.abc import Callable
from typing import Any

from pylatexenc.latex2text import LatexNodes2Text, MacroTextSpec, get_default_latex_context_db
from pylatexenc.latexwalker import LatexMacroNode, LatexWalker
from pylatexenc.latexwalker import get_default_latex_context_db as get_default_walker_db
from pylatexenc.macrospec import std_macro

_OPERATORS = ("Pr", "arg", "det", "dim", "rank", "sign", "Var", "Cov", "lim", "max", "min", "log", "exp", "sup", "inf")
_SIZES = ("left", "right", "big", "Big", "bigl", "bigr", "Bigl", "Bigr")
_RAISED = str.maketrans("0123456789+-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻")
_RELATIONS = "≤≥≠≈∼∝∈→×·≪≫≲≳"
_BEFORE_TERM, _AFTER_TERM = f"([{{⟨⌈⌊,;:=<>+-±∓{_RELATIONS}", f")]}}⟩⌉⌋,;:.=<>+-±∓{_RELATIONS}"
_BEGIN, _END = "\ue000", "\ue001"  # of a fraction, until it is known what stands beside it
_SYMBOL = re.compile(r"([0-9.]+|[^\W\d_][\u0300-\u036f]*)(_(\w+|\([^()]*\)))?(\^\w+)?!?")
_OVER_AND_UNDER = {"widehat": "\u0302", "widetilde": "\u0303", "overline": "\u0305", "underline": "\u0332"}

FORMULA = re.compile(r"\$(\S|\S[^$]*\S)\$(?!\d)")
"""What is mathematics in a text. Two prices are not: no formula ends with a blank, and no digit follows its dollar."""


def in_unicode(text: str) -> str:
    """``text`` with what stands between dollars written in Unicode; all else, and what is no TeX, stays as it is."""
    return FORMULA.sub(_written, text)


def raised(power: int | str) -> str:
    """A whole number as an exponent: -15 is ⁻¹⁵."""
    return str(power).translate(_RAISED)


def _written(found: re.Match[str]) -> str:
    try:
        return _formula(found[1])
    except Exception:  # they are of many kinds, and a slip in a statement must not hide the others
        return found[0]


def _formula(tex: str) -> str:
    walker = LatexWalker(_held_together(tex), latex_context=_MACROS, tolerant_parsing=True)
    nodes, _, _ = walker.get_latex_nodes()
    plain = _with_fractions(LatexNodes2Text(latex_context=_TEXTS, math_mode="text").nodelist_to_text(nodes))
    plain = re.sub(r"\^([+-]?[0-9]+(?![0-9.])|\++)", lambda power: raised(power[1]), plain)
    plain = plain.replace("^⊤", "ᵀ").replace("^∗", "*").replace("^*", "*").replace("^'", "'").replace("′", "'")
    return _spaced(re.sub(r"√\((\w)\)(?![\w(\[{^∑∏∫])", r"√\1", plain))


def _held_together(tex: str) -> str:
    """``tex`` with an index or exponent in parentheses if without its braces it would be unclear where it ends, and
    with a blank behind it if what follows would be read as a part of it."""
    found = re.search(r"(?<!\\)([_^])(\{|[A-Za-z0-9])", tex)
    if found is None:
        return tex
    mark, inside = found.groups()
    end = found.end()
    if inside == "{":
        end = _closing(tex, end)
        inside = tex[found.end() : end - 1]
    clear = re.fullmatch(r"[A-Za-z0-9,']*|\*|[+-]?[0-9.]+|\++|\([^()]*\)|\\[A-Za-z]+(\{[A-Za-z0-9]*\})?", inside)
    number = mark == "^" and re.fullmatch(r"[+-]?[0-9]+", inside)  # which is raised, so that only digits go on
    goes_on = r"[0-9]" if number else r"[A-Za-z0-9]|\\(?!r[Vvi]|[bB]ig)[A-Za-z]"  # not the end of a norm
    blank = " " if clear and re.match(goes_on, tex[end:]) else ""
    inside = _held_together(inside) if clear else f"({_held_together(inside)})"
    return f"{tex[: found.start()]}{mark}{{{inside}}}{blank}{_held_together(tex[end:])}"


def _closing(tex: str, at: int) -> int:
    """Where the group ends whose first character is at ``at``, behind its brace."""
    depth = 1
    for brace in re.compile(r"\\.|[{}]").finditer(tex, at):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if not depth:
            return brace.end()
    raise ValueError(tex)


def _with_fractions(plain: str) -> str:
    """``plain`` with those fractions in parentheses that have a factor beside them."""
    while (end := plain.find(_END)) >= 0:
        begin = plain.rindex(_BEGIN, 0, end)
        before, fraction, after = plain[:begin], plain[begin + 1 : end], plain[end + 1 :]
        left, right = before.rstrip(), after.lstrip()
        open_bars = "".join(bar for bar in "|‖" if left.count(bar) % 2)  # the next of these closes, another one opens
        factor = (left and left[-1] not in _BEFORE_TERM + open_bars) or (
            right and right[0] not in _AFTER_TERM + open_bars
        )
        plain = f"{before}({fraction}){after}" if factor else f"{before}{fraction}{after}"
    return plain


def _spaced(plain: str) -> str:
    """Blanks on both sides of a relation, and of + and - between terms: in TeX a macro takes the blank that ends it."""
    plain = re.sub(f" ?([{_RELATIONS}]) ?", r" \1 ", plain)
    plain = re.sub(r" ([=<>]) ?| ?([=<>]) ", lambda one: f" {one[1] or one[2]} ", plain)
    plain = re.sub(r"(?<=[^\s(^])([+-]) ", r" \1 ", plain)
    plain = re.sub(r" ?([_^]) ?(\w)", r"\1\2", re.sub(" +", " ", plain))
    plain = re.sub(r"(?<=[⟨(]) | (?=[⟩)])|(?<=\w) (?=\()", "", plain)
    return re.sub(r" /(?! )|(?<! )/ ", "/", plain).strip()


def _fraction(node: LatexMacroNode, l2tobj: Any) -> str:
    above, below = (_with_fractions(l2tobj.nodelist_to_text([part])).strip() for part in node.nodeargd.argnlist[-2:])
    factors = above
    while factors != (factors := re.sub(r"\([^()]*\)", "", factors)):
        pass
    above = above if re.fullmatch(r"[\w.^!\u0300-\u036f]*", factors) else f"({above})"
    return f"{_BEGIN}{above}/{below if _SYMBOL.fullmatch(below) else f'({below})'}{_END}"


def _own_argument(node: LatexMacroNode, l2tobj: Any) -> str:
    return l2tobj.nodelist_to_text(node.nodeargd.argnlist[-1:])


def _marked(mark: str) -> Callable[[LatexMacroNode, Any], str]:
    """A macro that puts ``mark`` over or under each letter of its argument."""
    return lambda node, l2tobj: "".join(letter + mark for letter in _own_argument(node, l2tobj))


_MACROS = get_default_walker_db()
_MACROS.add_context_category(
    "featscope",
    prepend=True,
    macros=[*(std_macro(name, "{{") for name in ("tfrac", "dfrac", "frac")), std_macro("operatorname", "*{")],
)
# pylatexenc reads the names of a function's arguments, which a checker of types around the function would hide.
_TEXTS = get_default_latex_context_db()
_TEXTS.add_context_category(
    "featscope",
    prepend=True,
    macros=[
        *(MacroTextSpec(name, f" {name} ") for name in _OPERATORS),
        *(MacroTextSpec(name, "") for name in _SIZES),
        *(MacroTextSpec(name, lambda node, l2tobj: _fraction(node, l2tobj)) for name in ("tfrac", "dfrac", "frac")),
        MacroTextSpec("operatorname", lambda node, l2tobj: _own_argument(node, l2tobj)),
        *(MacroTextSpec(name, _marked(mark)) for name, mark in _OVER_AND_UNDER.items()),
        MacroTextSpec("|", "‖"),
        MacroTextSpec("ne", "≠"),
        MacroTextSpec("mid", " | "),
    ],
)
