"""Where statements stand in their papers: which paper, in which order, and which of them are corrections of others."""

import re
from collections.abc import Mapping, Sequence

from featscope.claims import Statement

_PART = r"(?:and its|Chapters?|Sections?|Appendi(?:x|ces)|Figures?|Tables?|Algorithms?|Theorems?|Lemmas?|Claims?)\b"
_PLACE = re.compile(r"(Sections?|Chapters?|Appendix|App\.)? ?\b([A-Z]|\d+)((?:\.\d+)*)(?:\(([a-z])\))?")
_EQUATION = re.compile(r"Eq(?:uation|\.)s? ?\(?[\w.]+\)?|\([A-Z]?\.?\d+(?:\.\d+)*\)")
_OURS = re.compile(r"^(?:derived|found here|from |what sweeps|the recursion)")
_MENDS = re.compile(r"^derived\b|\b(?:derived|mended|corrected|read for)\b")
_MOST = 2  # corrections that stand beside a statement

Place = tuple[int, ...]


def paper_of(source: str) -> str:
    """The paper of a study's source, "Wen & Li 2021, arXiv 2105.15134" of one that goes on with figures."""
    return re.split(rf", (?={_PART})", source, maxsplit=1)[0]


def part_of(source: str) -> str:
    """What part of its paper a study's source names; empty if none."""
    return source.removeprefix(paper_of(source)).removeprefix(", ")


def place_of(source: str) -> Place | None:
    """Where a source stands, as numbers that ascend through the paper; appendices come last.

    Equations, and tables and figures without a section's number, are counted through, so they say nothing: None.
    """
    for word, first, rest, part in _PLACE.findall(_EQUATION.sub("", source)):
        if (word or rest) and (rest or not first.isalpha() or word.startswith("App")):
            number = 1000 + ord(first) if first.isalpha() else int(first)
            return number, *map(int, rest.split(".")[1:]), *([ord(part)] if part else [])
    return None


def in_order(statements: Sequence[Statement]) -> list[Statement]:
    """Statements by where they stand; what has no place stays behind what it follows in the study."""
    places: list[Place] = []
    for statement in statements:
        places.append(place_of(statement.source) or (places[-1] if places else ()))
    return [statements[i] for i in sorted(range(len(statements)), key=lambda i: places[i])]


def printed(source: str) -> bool:
    """Whether the paper says so, rather than the study."""
    return not _OURS.match(source)


def corrections(statements: Sequence[Statement]) -> Mapping[str, list[str]]:
    """Id of each printed statement that is nowhere expected to hold -> ids of what is said in its place.

    That are the statements that its note names, and those derived for the same place that follow it in the study.
    """
    expected = {one.id: one for one in statements if one.expected}
    found = {}
    for number, wrong in enumerate(statements):
        if wrong.expected or not printed(wrong.source):
            continue
        named = [id for id in re.findall(r"[a-z0-9]+(?:-[a-z0-9]+)+", wrong.note) if id in expected]
        found[wrong.id] = list(dict.fromkeys([*named, *_following(wrong, statements[number + 1 :])]))[:_MOST]
    return found


def _following(wrong: Statement, later: Sequence[Statement]) -> list[str]:
    found = []
    for one in later:
        if one.expected and not (_MENDS.search(one.source) and _of_one_place(one.source, wrong.source)):
            break
        if one.expected:
            found.append(one.id)
    return found


def _of_one_place(one: str, other: str) -> bool:
    """Whether both begin at one place, or one within that of the other; by equations, where these are all they name."""
    here, there = place_of(one), place_of(other)
    if here is None or there is None:
        return bool(_core(one) & _core(other))
    return all(a == b for a, b in zip(here, there, strict=False))


def _core(source: str) -> set[str]:
    """Numbers that a source names: {"6.1", "E.34"}."""
    return set(re.findall(r"\b[A-Z]?\.?\d+(?:\.\d+)*\b", source)) - {""}
