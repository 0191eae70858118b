"""A report in a folder."""

from pathlib import Path

from featscope.report.draw import draw
from featscope.report.page import Content, write_page


def write_report(directory: Path, content: Content) -> Path:
    """Write ``figures/ID.png`` for each figure and ``report.html`` into ``directory``; the page's path."""
    pictures = directory / "figures"
    pictures.mkdir(parents=True, exist_ok=True)
    for figure in content.figures:
        draw(figure, pictures / f"{figure.id}.png")
    page = directory / "report.html"
    write_page(page, content, pictures)
    return page
