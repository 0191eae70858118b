"""TeX for eyes that have only a terminal."""

import re
from typing import Any

from pylatexenc.latex2text import LatexNodes2Text, MacroTextSpec, get_default_latex_context_db
from pylatexenc.latexwalker import LatexMacroNode, LatexWalker
from pylatexenc.latexwalker import get_default_latex_context_db as get_default_walker_db
from pylatexenc.macrospec import std_macro

_OPERATORS = ("Pr", "arg", "det", "dim", "rank", "sign", "Var", "Cov", "lim", "max", "min", "log", "exp", "sup", "inf")
_SIZES = ("left", "right", "big", "Big", "bigl", "bigr", "Bigl", "Bigr")
_RAISED = str.maketrans("0123456789+-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻")


def in_unicode(text: str) -> str:
    """``text`` with what stands between dollars written in Unicode; all else stays as it is."""
    parts = text.split("$")
    if len(parts) % 2 == 0:  # a dollar that no other one closes is a dollar
        return text
    return "".join(_formula(part) if i % 2 else part for i, part in enumerate(parts))


def unknown_macros(tex: str) -> set[str]:
    """Macros of which `in_unicode` would lose the name."""
    return {name for name in re.findall(r"\\([A-Za-z]+)", tex) if not _TEXTS.get_macro_spec(name)}


def _formula(tex: str) -> str:
    tex = re.sub(r"\^\{([^{}]*[/ ][^{}]*)\}", r"^{(\1)}", tex)  # what braces hold together
    walker = LatexWalker(tex, latex_context=_MACROS, tolerant_parsing=True)
    nodes, _, _ = walker.get_latex_nodes()
    plain = LatexNodes2Text(latex_context=_TEXTS, math_mode="text").nodelist_to_text(nodes)
    plain = re.sub(r"\^([+-]?[0-9]+|\++)", lambda power: power[1].translate(_RAISED), plain)
    plain = plain.replace("^⊤", "ᵀ").replace("^∗", "*").replace("^*", "*").replace("^'", "'").replace("′", "'")
    return re.sub(r"([⟨(]) | ([⟩)(])", r"\1\2", re.sub(" +", " ", plain)).strip()


def _fraction(node: LatexMacroNode, l2tobj: Any) -> str:
    above, below = (l2tobj.nodelist_to_text([part]).strip() for part in node.nodeargd.argnlist[-2:])
    return "/".join(part if re.fullmatch(r"[\w.]+", part) else f"({part})" for part in (above, below))


def _own_argument(node: LatexMacroNode, l2tobj: Any) -> str:
    return l2tobj.nodelist_to_text(node.nodeargd.argnlist[-1:])


_MACROS = get_default_walker_db()
_MACROS.add_context_category(
    "featscope",
    prepend=True,
    macros=[*(std_macro(name, "{{") for name in ("tfrac", "dfrac", "frac")), std_macro("operatorname", "*{")],
)
_TEXTS = get_default_latex_context_db()
_TEXTS.add_context_category(
    "featscope",
    prepend=True,
    macros=[
        *(MacroTextSpec(name, f" {name} ") for name in _OPERATORS),
        *(MacroTextSpec(name, "") for name in _SIZES),
        *(MacroTextSpec(name, _fraction) for name in ("tfrac", "dfrac", "frac")),
        MacroTextSpec("operatorname", _own_argument),
    ],
)
