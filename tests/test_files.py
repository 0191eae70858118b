"""Files that are written whole or not at all."""

import pytest

from featscope.files import atomic_write


def test_a_file_is_written_without_a_change_of_the_process_s_umask(tmp_path, monkeypatch):
    """Which all threads share."""
    monkeypatch.setattr("os.umask", lambda mask: 1 / 0)
    atomic_write(tmp_path / "a", b"one")
    atomic_write(tmp_path / "a", b"other")
    assert (tmp_path / "a").read_bytes() == b"other"
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


def test_until_all_is_on_the_disk_the_old_file_stays(tmp_path, monkeypatch):
    file = tmp_path / "a"
    file.write_bytes(b"old")

    def refuse(_):
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", refuse)
    with pytest.raises(OSError, match="no space left"):
        atomic_write(file, b"new")
    monkeypatch.undo()
    monkeypatch.setattr("pathlib.Path.write_bytes", lambda *_: 1 / 0)  # which would cut the old one short first
    assert [one.name for one in tmp_path.iterdir()] == ["a"]
    assert file.read_bytes() == b"old"
    atomic_write(file, b"new")
    assert file.read_bytes() == b"new"
