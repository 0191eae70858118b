"""A sweep of one to two minutes by Ray workers on this machine, against the local engine at equal cores."""

import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.compare import turns

AXES = ("--axis", "eps_min=0.1:1.0:10", "--axis", "noise_std=0.01,0.03,0.05")
REPLICAS = 32
ROUNDS = 2


def sweep(engine: str) -> float:
    """Wall seconds of the whole command: start-up, training and the report."""
    command = str(Path(sys.executable).with_name("featscope"))
    with tempfile.TemporaryDirectory() as scratch:
        out = ("--replicas", str(REPLICAS), "--engine", engine, "--out", str(Path(scratch) / "sweep"))
        began = time.perf_counter()
        subprocess.run([command, "sweep", "imbalance", *AXES, *out], capture_output=True, check=True)
        return time.perf_counter() - began


def compare() -> dict[str, float]:
    """Seconds of either engine, in turns."""
    return turns({engine: partial(sweep, engine) for engine in ("local", "ray")}, ROUNDS)
