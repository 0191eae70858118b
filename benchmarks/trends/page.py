"""The page that the tables stand on."""

from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "trends.md"


def fill(command: str, table: str) -> None:
    """Replace what ``command`` made last time."""
    begin, end = f"<!-- made by `{command}` -->", f"<!-- end of what `{command}` made -->"
    text = PAGE.read_text()
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"{PAGE.name} lacks {begin} ... {end}: put them where the table is to stand")
    PAGE.write_text(f"{before}{begin}\n{table}\n{end}{after}")
