"""No function takes from the scope around it a name that a comprehension in it counts with.

Python 3.12 and 3.13 run comprehensions as part of the function, and there take the one for the other.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from symtable import SymbolTable, symtable

import pytest

ROOT = Path(__file__).parents[1]
PARTS = {"listcomp", "setcomp", "dictcomp"}

TAKEN_TWICE = """
def outer():
    def inner():
        places = [one for one in range(3)]
        return [one(place) for place in places]
    def one(place):
        return place
    return inner
"""


def taken_twice(table: SymbolTable) -> Iterator[str]:
    """Such names, with their functions."""
    inside = [part for part in table.get_children() if part.get_name() in PARTS]
    counted = {name for part in inside for name in part.get_locals()}
    if table.get_type() == "function":
        yield from (f"{table.get_name()}, line {table.get_lineno()}: {name}" for name in counted & {*table.get_frees()})
    for part in table.get_children():
        yield from taken_twice(part)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="comprehensions are no scopes from Python 3.12 on")
def test_no_name_is_both_counted_with_and_taken_from_around():
    assert [*taken_twice(symtable(TAKEN_TWICE, "planted", "exec"))] == ["inner, line 3: one"]
    files = [file for folder in ("src", "tests", "tools", "benchmarks") for file in (ROOT / folder).rglob("*.py")]
    found = {str(file): [*taken_twice(symtable(file.read_text(), file.name, "exec"))] for file in files}
    assert not {file: names for file, names in found.items() if names}
