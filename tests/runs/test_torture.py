"""Runs and sweeps that are killed right before a write, and a lost worker: the rest is `make torture`."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "torture.py"


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="for want of workers that are forked")
def test_what_was_killed_and_went_on_is_as_what_nobody_touched():
    words = [sys.executable, TOOL, "--kills", "5", "--rows", "1", "3", "10"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, run, sweep, worker = ([cell.strip() for cell in row.split("|")] for row in done.stdout.splitlines())
    assert (run[1:3], sweep[1:3]) == (["`run`, killed at a write", "1"], ["`sweep`, killed at a write", "1"])
    assert worker[1:3] == ["`run`, a worker killed", "1"]
    assert [row[4] for row in (run, sweep, worker)] == ["0", "0", "0"]
