"""Files that are written whole or not at all."""

from featscope.files import atomic_write


def test_a_file_is_written_without_a_change_of_the_process_s_umask(tmp_path, monkeypatch):
    """Which all threads share."""
    monkeypatch.setattr("os.umask", lambda mask: 1 / 0)
    atomic_write(tmp_path / "a", b"one")
    atomic_write(tmp_path / "a", b"other")
    assert (tmp_path / "a").read_bytes() == b"other"
    assert [file.name for file in tmp_path.iterdir()] == ["a"]
