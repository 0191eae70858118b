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
_OVER_AND_UNDER = {"widehat": "\u0302", "widetilde": "\u0303", "overline": "\u0305", "underline": "\u0332"}

FORMULA = re.compile(r"\$(\S|\S[^$]*\S)\$(?!\d)")
"""What is mathematics in a text. Two prices are not: no formula ends with a blank, and no digit follows its dollar."""


def in_unicode(text: str) -> str:
    """``text`` with what stands between dollars written in Unicode; all else, and what is no TeX, stays as it is."""
    return FORMULA.sub(_written, text)


def raised(power: int | str) -> str:
    """A whole number as an exponent: -15 is ⁻¹⁵."""
    return str(power).translate(_RAISED)


def unknown_macros(tex: str) -> set[str]:
    """Macros of which `in_unicode` would lose the name."""
    return {name for name in re.findall(r"\\([A-Za-z]+)", tex) if not _TEXTS.get_macro_spec(name)}


def _written(found: re.Match[str]) -> str:
    try:
        return _formula(found[1])
    except Exception:  # they are of many kinds, and a slip in a statement must not hide the others
        return found[0]


def _formula(tex: str) -> str:
    tex = re.sub(r"([_^])\{([^{}]*)\}", _held_together, tex)
    walker = LatexWalker(tex, latex_context=_MACROS, tolerant_parsing=True)
    nodes, _, _ = walker.get_latex_nodes()
    plain = LatexNodes2Text(latex_context=_TEXTS, math_mode="text").nodelist_to_text(nodes)
    plain = re.sub(r"\^([+-]?[0-9]+(?![0-9.])|\++)", lambda power: raised(power[1]), plain)
    plain = plain.replace("^⊤", "ᵀ").replace("^∗", "*").replace("^*", "*").replace("^'", "'").replace("′", "'")
    return _spaced(re.sub(r"√\((\w)\)", r"√\1", plain))


def _held_together(found: re.Match[str]) -> str:
    """An index or exponent, in parentheses if without its braces it would be unclear where it ends."""
    mark, inside = found.groups()
    clear = re.fullmatch(r"[A-Za-z0-9,']*|\*|[+-]?[0-9.]+|\++|\(.*\)|\\[A-Za-z]+", inside)
    return f"{mark}{{{inside}}}" if clear else f"{mark}{{({inside})}}"


def _spaced(plain: str) -> str:
    """Blanks on both sides of a relation, and of + and - between terms: in TeX a macro takes the blank that ends it."""
    plain = re.sub(f" ?([{_RELATIONS}]) ?", r" \1 ", plain)
    plain = re.sub(r" ([=<>]) ?| ?([=<>]) ", lambda one: f" {one[1] or one[2]} ", plain)
    plain = re.sub(r"(?<=[^\s(^])([+-]) ", r" \1 ", plain)
    plain = re.sub(r" ?([_^]) ?(\w)", r"\1\2", re.sub(" +", " ", plain))
    plain = re.sub(r"(?<=[⟨(]) | (?=[⟩)])|(?<=\w) (?=\()", "", plain)
    return re.sub(r" /(?! )|(?<! )/ ", "/", plain).strip()


def _fraction(node: LatexMacroNode, l2tobj: Any) -> str:
    above, below = (l2tobj.nodelist_to_text([part]).strip() for part in node.nodeargd.argnlist[-2:])
    return "/".join(part if re.fullmatch(r"[\w.]+", part) else f"({part})" for part in (above, below))


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
