"""Faults that tests plant can still be planted. One in ten is tried by default, so that the others may rot unseen."""

import builtins
import dis
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from featscope.testing import Fault

FILES = [file for file in sorted(Path(__file__).parents[1].glob("studies/test_*.py")) if " Fault(" in file.read_text()]


def codes(code: CodeType) -> Iterator[CodeType]:
    """It, and all that are written within it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from codes(one)


def unknown(line: Any) -> set[str]:
    """Names that a function takes from its module, which has none such."""
    line = getattr(line, "__func__", getattr(line, "fget", line))
    if not isinstance(line, FunctionType):
        return set()
    said = (one for code in codes(line.__code__) for one in dis.get_instructions(code))
    taken = {one.argval for one in said if one.opname == "LOAD_GLOBAL"}
    return {name for name in taken if name not in line.__globals__ and not hasattr(builtins, name)}


def within(found: Any) -> Iterator[Fault]:
    """All faults in lists and dictionaries, however deep."""
    if isinstance(found, Fault):
        yield found
    elif isinstance(found, dict | list | tuple):
        for one in found.values() if isinstance(found, dict) else found:
            yield from within(one)


def faults(file: Path) -> list[Fault]:
    """All that the file has."""
    spec = spec_from_file_location(f"faults_of_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return [one for said in vars(module).values() for one in within(said)]


def test_a_name_that_is_nowhere_is_seen():
    assert unknown(lambda: [nowhere for _ in range(3)]) == {"nowhere"}  # type: ignore[name-defined]
    assert unknown(lambda: len([FILES])) == set()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_faults_replace_is_there_and_all_that_they_take(file):
    found = faults(file)
    assert found
    for fault in found:
        assert hasattr(fault.where, fault.name), fault
        assert not unknown(fault.line), fault
