"""A report in a folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from featscope.claims import Claim
from featscope.figures import Figure
from featscope.report.draw import draw
from featscope.report.page import write_page


def write_report(
    directory: Path,
    *,
    title: str,
    source: str,
    about: str,
    headline: str,
    claims: Sequence[Claim],
    figures: Sequence[Figure],
    facts: Mapping[str, str],
    controls: frozenset[str] = frozenset(),
) -> Path:
    """Write ``figures/ID.png`` for each figure and ``report.html`` into ``directory``.

    The arguments are those of `write_page`.

    Returns:
        The page's path.
    """
    (directory / "figures").mkdir(parents=True, exist_ok=True)
    for figure in figures:
        draw(figure, directory / "figures" / f"{figure.id}.png")
    page = directory / "report.html"
    write_page(
        page,
        title=title,
        source=source,
        about=about,
        headline=headline,
        claims=claims,
        figures=figures,
        facts=facts,
        controls=controls,
    )
    return page
