"""A report in a folder."""

import re
from html import unescape
from pathlib import Path

from featscope.options import ConfigError, is_name
from featscope.report.draw import draw
from featscope.report.page import Content, write_page


def write_report(directory: Path, content: Content) -> Path:
    """Write ``figures/ID.png`` for each figure and ``report.html`` into ``directory``; the page's path.

    Pictures that the page before it has, and this one not, are removed.

    Raises:
        ConfigError: something else stands in a file's place, or in that of ``figures``.
    """
    pictures, page = directory / "figures", directory / "report.html"
    if pictures.exists() and not pictures.is_dir():
        raise ConfigError(f"{pictures} is a file: allowed is a folder; move the file away")
    for file in (page, *(pictures / f"{figure.id}.png" for figure in content.figures)):
        if file.is_dir():
            raise ConfigError(f"{file} is a folder: allowed is a file; move the folder away")
    pictures.mkdir(parents=True, exist_ok=True)
    for figure in content.figures:
        draw(figure, pictures / f"{figure.id}.png")
    ids = {figure.id.lower() for figure in content.figures}  # some machines know no capitals
    for id in _figures_of(page):
        if id.lower() not in ids:
            (pictures / f"{id}.png").unlink(missing_ok=True)
    write_page(page, content, pictures)
    return page


def _figures_of(page: Path) -> set[str]:
    """Ids of the figures of a page that was there before."""
    if not page.is_file():
        return set()
    found = re.findall(r'<figure[^>]* id="f-([^"]+)"', page.read_text(encoding="utf-8", errors="replace"))
    return {*filter(is_name, map(unescape, found))}
