"""`featscope` in a process of its own, on a study so small that it ends in seconds."""

import os
import subprocess
import sys
from pathlib import Path

SMALL = [
    "--data.features",
    "6",
    "--data.input-dim",
    "32",
    "--learner.width",
    "8",
    "--objective.anchors",
    "8",
    "--objective.negatives",
    "8",
    "--steps",
    "30",
    "--probe-every",
    "5",
    "--replicas",
    "2",
    "--bias.feature-energy",
    "0.2",
]

_PRELUDE = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # where tests run in the background it is ignored
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from featscope.runs import program
program._SECONDS_BETWEEN_CHECKPOINTS = 0.02
"""
_NO_REPORT = """
from types import ModuleType
sys.modules["featscope.report"] = ModuleType("featscope.report")  # what draws takes a second to import
sys.modules["featscope.report.run_report"] = report = ModuleType("featscope.report.run_report")
report.report_run, report.changed_in_words = lambda out: out / "report.html", lambda study: ""
"""
_MAIN = "from featscope.cli import main; main()"


def start(*words: str | Path, report: bool = False, **options) -> subprocess.Popen:
    """Begin ``featscope`` with ``words``; checkpoints follow each other fast."""
    program = _PRELUDE + ("" if report else _NO_REPORT) + _MAIN
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def finish(process: subprocess.Popen) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    try:
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()  # what does not end must not outlive its test
    return process.returncode, out, err


def featscope(*words: str | Path, path: Path | None = None, cwd: Path | None = None) -> tuple[int, str, str]:
    """Run the plain command to its end; ``path`` is prepended to what Python searches."""
    environment = dict(os.environ)
    if path is not None:
        environment["PYTHONPATH"] = os.pathsep.join([str(path), *filter(None, [environment.get("PYTHONPATH")])])
    command = [sys.executable, "-c", "from featscope.cli import main; main()", *map(str, words)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, cwd=cwd)
    return run.returncode, run.stdout, run.stderr
