"""Machine code is made once for all processes, and never read where it is not what was made."""

import os

import pytest

from featscope.kernels import code_cache, machine
from featscope.kernels.code_cache import remembered as made_once


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The folder of a cache that is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "featscope" / "machine-code"


def never() -> bytes:
    raise AssertionError("it is there")


def test_it_is_made_once(kept):
    assert made_once("a text", lambda: b"its code") == b"its code"
    assert made_once("a text", never) == b"its code"
    assert made_once("another", lambda: b"other code") == b"other code"
    if os.name == "posix":
        assert kept.stat().st_mode & 0o077 == 0, "what lies there is run"


@pytest.mark.parametrize("spoil", [lambda c: c[:-1], lambda c: c[:-1] + b"x", lambda c: c[:32], lambda c: b""])
def test_a_damaged_file_is_made_anew(kept, spoil):
    made_once("a text", lambda: b"its code")
    (file,) = kept.iterdir()
    file.write_bytes(spoil(file.read_bytes()))
    assert made_once("a text", lambda: b"its code") == b"its code"
    assert made_once("a text", never) == b"its code"


def test_where_nothing_can_be_kept_it_is_made_each_time(kept, monkeypatch):
    kept.parent.write_text("a file in the place of the folder")
    assert made_once("a text", lambda: b"1") == b"1"
    assert made_once("a text", lambda: b"2") == b"2"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("pathlib.Path.expanduser", lambda path: (_ for _ in ()).throw(RuntimeError("no home")))
    assert made_once("a text", lambda: b"3") == b"3"


def test_what_was_not_used_for_longest_goes(kept, monkeypatch):
    monkeypatch.setattr(code_cache, "_KEPT", 3)
    file = {text: kept / f"{code_cache._sum(text.encode()).hex()}.o" for text in "abcd"}
    for hour, text in enumerate("abc"):
        made_once(text, text.encode)
        os.utime(file[text], (hour, hour))
    made_once("a", never)
    made_once("d", lambda: b"d")
    assert {text for text in file if file[text].exists()} == {*"acd"}


TEXT = """define void @f(ptr %a, i64 %n) {
  store i64 %n, ptr %a
  ret void
}"""


def test_code_of_another_processor_or_of_other_passes_is_another(kept, monkeypatch):
    machine.machine_code.__wrapped__(TEXT, "f")
    machine.machine_code.__wrapped__(TEXT, "f")
    assert len([*kept.iterdir()]) == 1
    machine.machine_code.__wrapped__(TEXT, "f", vectors=True)
    assert len([*kept.iterdir()]) == 2
    monkeypatch.setattr(machine, "_processor", lambda: ("", ""))
    machine.machine_code.__wrapped__(TEXT, "f")
    assert len([*kept.iterdir()]) == 3


def test_what_was_kept_does_what_was_made(kept):
    import ctypes

    for _ in range(2):
        place = ctypes.c_int64(0)
        machine.machine_code.__wrapped__(TEXT, "f")(ctypes.addressof(place), 7)
        assert place.value == 7
