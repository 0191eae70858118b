"""Tables that commands put into pages, between marks that name them."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from featscope.files import atomic_write

DOCS = Path(__file__).parents[1] / "docs"
LONG_PROMPTS = "long-prompts-measured.md"
"""The page of what was measured on long prompts, below docs/."""


def table(heading: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """In Markdown."""
    heading = list(heading)
    lines = [heading, ["---"] * len(heading), *(list(row) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def fill(page: Path, made: Mapping[str, str]) -> None:
    """Replace what stands between ``<!-- NAME -->`` and ``<!-- end of NAME -->``, for each name and its table.

    Raises:
        ValueError: marks are missing; the page stays as it was.
    """
    text = page.read_text(encoding="utf-8")
    for name, new in made.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"{page.name} lacks {begin.strip()} ... {end}: put them where the table is to stand")
        text = f"{before}{begin}{new}\n{end}{after}"
    atomic_write(page, text.encode())
