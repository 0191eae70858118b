"""The tables of Llama's shapes on a GPU are those of what was measured."""

import json

from benchmarks.llama_picture import STORED, tables
from benchmarks.marked import DOCS


def test_the_page_has_the_tables_of_the_stored_results():
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    made = tables(json.loads(STORED.read_text(encoding="utf-8")))
    assert made
    for name, table in made.items():
        assert f"<!-- {name} -->\n{table}\n<!-- end of {name} -->" in page
