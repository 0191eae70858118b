"""A report in a folder."""

from pathlib import Path

from PIL import Image

from featscope.options import ConfigError
from featscope.report.draw import SOFTWARE, draw
from featscope.report.page import Content, write_page


def write_report(directory: Path, content: Content) -> Path:
    """Write ``figures/ID.png`` for each figure and ``report.html`` into ``directory``; the page's path.

    Pictures of a report that was there before are removed.

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
    names = {f"{figure.id}.png".lower() for figure in content.figures}  # some machines know no capitals
    for file in pictures.glob("*.png"):
        if file.name.lower() not in names and _is_ours(file):  # of a report before this one
            file.unlink()
    write_page(page, content, pictures)
    return page


def _is_ours(png: Path) -> bool:
    """Whether `draw` made it."""
    try:
        with Image.open(png) as picture:
            return picture.info.get("Software") == SOFTWARE
    except (OSError, SyntaxError, ValueError):  # as Pillow says that it is damaged
        return False
