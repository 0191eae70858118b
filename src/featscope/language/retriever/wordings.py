"""How needles and questions are worded: what the retriever is trained on, and what is kept from it.

A wording is what stands before a key, between key and value, and behind the value. A question repeats the words that
lead to the value (``{before}`` key ``{between}``), or it is put in words of its own. Sentences of `TRAINED` and
`HELD_OUT` stand in files beside this module. Those held out were written by somebody who knew none of the others; of
the others each was left away that leads to a value, or asks for it, nearly in the words of one held out.
"""

from importlib.resources import files
from typing import NamedTuple

Ends = tuple[str, str]
"""What stands before the key, and behind it."""


class Wording(NamedTuple):
    """A way to say that a key has a value, in text or in tokens' text."""

    before: str
    between: str
    after: str


class Wordings(NamedTuple):
    """Words for relations, ways to say them, and ways to ask for them.

    Attributes:
        nouns: each stands for ``{noun}``.
        verbs: base, third person, past, past participle: ``{base}``, ``{does}``, ``{did}``, ``{done}``.
        of_nouns: wordings with a noun, or none of both.
        of_verbs: wordings with a verb.
        ask_nouns: questions in words of their own about wordings with a noun.
        ask_verbs: about those with a verb.
        openers: what a question that repeats the needle's words begins with.
    """

    nouns: tuple[str, ...]
    verbs: tuple[tuple[str, str, str, str], ...]
    of_nouns: tuple[Wording, ...]
    of_verbs: tuple[Wording, ...]
    ask_nouns: tuple[Ends, ...]
    ask_verbs: tuple[Ends, ...]
    openers: tuple[str, ...]


def read_wordings(text: str) -> Wordings:
    """Sections of lines, each headed ``## `` and the name of a part of `Wordings`.

    ``KEY`` and ``VALUE`` mark where these go; a backslash and an n is the end of a line.

    Raises:
        ValueError: a section is missing or unknown, or a line is in none.
    """
    sections: dict[str, list[str]] = {}
    for line in filter(None, text.splitlines()):
        if line.startswith("## "):
            lines = sections.setdefault(line[3:], [])
        elif not sections:
            raise ValueError(f"{line!r} stands before the first section")
        else:
            lines.append(line.replace("\\n", "\n"))
    if {*sections} != {*Wordings._fields}:
        raise ValueError(f"sections are {', '.join(sections)}: expected {', '.join(Wordings._fields)}")
    return Wordings(
        nouns=tuple(sections["nouns"]),
        verbs=tuple((base, does, did, done) for base, does, did, done in map(str.split, sections["verbs"])),
        of_nouns=tuple(as_wording(f" {line}") for line in sections["of_nouns"]),
        of_verbs=tuple(as_wording(f" {line}") for line in sections["of_verbs"]),
        ask_nouns=tuple(as_ends(f"\n{line}") for line in sections["ask_nouns"]),
        ask_verbs=tuple(as_ends(f"\n{line}") for line in sections["ask_verbs"]),
        openers=tuple(f"\n{line}" for line in sections["openers"]),
    )


def as_wording(sentence: str) -> Wording:
    """A sentence, cut at key and value. Blanks before these are theirs; where nothing follows the value a line ends."""
    before, rest = sentence.split("KEY")
    between, after = rest.split("VALUE")
    return Wording(before.rstrip(" "), between.rstrip(" "), after or "\n")


def as_ends(question: str) -> Ends:
    """A question, cut at the key."""
    before, behind = question.split("KEY")
    return before.rstrip(" "), behind.rstrip(" ")


def _read(name: str) -> Wordings:
    return read_wordings(files(__package__).joinpath(name).read_text(encoding="utf-8"))


TRAINED, HELD_OUT = _read("trained.txt"), _read("held_out.txt")
GATE = Wording(" In", "", " opens the gate.")
"""The wording of `passwords`, which is trained on; words that are new there are in no sentence."""
