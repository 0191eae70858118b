"""What the source says of something stands alone: `help` and pages show it without what stands above it."""

from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src/featscope"


def test_nothing_is_said_by_pointing_to_what_stands_above():
    assert not [str(file) for file in SOURCE.rglob("*.py") if "as above" in file.read_text(encoding="utf-8").lower()]
