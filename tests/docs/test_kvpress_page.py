"""The tables beside kvpress are those of what was found, and every cell says something."""

import json
from pathlib import Path

from benchmarks.against_kvpress.page import PAGE, tables

RESULTS = Path(__file__).parents[2] / "benchmarks" / "against_kvpress" / "results.json"


def test_the_page_has_the_tables_of_the_stored_results():
    made, page = tables(json.loads(RESULTS.read_text(encoding="utf-8"))), PAGE.read_text(encoding="utf-8")
    assert set(made) == {"methods", "presses", "models", "exact", "costs", "accuracy"}
    for name, table in made.items():
        assert f"<!-- {name} -->\n{table}\n<!-- end of {name} -->" in page


def test_each_cell_is_measured_or_says_not_tried():
    for name, table in tables(json.loads(RESULTS.read_text(encoding="utf-8"))).items():
        rows = [line[2:-2].split(" | ") for line in table.splitlines() if line.startswith("| ")]
        assert all(cell.strip() for row in rows[1:] for cell in row), name
        assert len({len(row) for row in rows}) == 1
