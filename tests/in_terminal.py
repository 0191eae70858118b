"""`featscope` in this process, as it is typed in a terminal."""

from pathlib import Path

import pytest

from featscope.cli import main


def call(capfd, *words: str | Path) -> tuple[int, str, str]:
    """Exit code, output and errors, lines joined and boxes taken off."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    out, err = capfd.readouterr()
    return ended.value.code, out, " ".join(err.replace("│", " ").split())
