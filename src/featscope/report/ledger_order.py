"""Where statements stand in their papers: which paper, in which order, and which of them are corrections of others."""

import re
from collections.abc import Mapping, Sequence

from featscope.claims import Statement

_PART = r"(?:and its|Chapters?|Sections?|Appendi(?:x|ces)|Figures?|Tables?|Algorithms?|Theorems?|Lemmas?|Claims?)\b"
_PLACE = re.compile(r"(Sections?|Chapters?|Appendix|App\.)? ?\b([A-Z]|\d+)((?:\.\d+)*)(?:\(([a-z])\))?")
_EQUATION = re.compile(r"Eq(?:uation|\.)s? ?\(?[\w.]+\)?|\([A-Z]?\.?\d+(?:\.\d+)*\)")
_OURS = re.compile(r"^(?:derived|found here|from |what sweeps|the recursion)")

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
    """Id of each printed statement that is nowhere expected to hold -> ids of what says that it stands in its place."""
    wrong = [one.id for one in statements if not one.expected and printed(one.source)]
    return {id: [one.id for one in statements if id in one.corrects] for id in wrong}
