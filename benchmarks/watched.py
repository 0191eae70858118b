"""`python -m benchmarks.watched`: what it costs that somebody watches a run, in seconds of the processor.

Pairs of runs, one with a reader who asks for every page that there is and one without, in turns. Processor seconds are
those of the run and of all that it started.
"""

import os
import re
import subprocess
import sys
import tempfile
import threading
import urllib.request
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from statistics import mean

import numpy as np

from featscope.claims import interval_of_mean

PAIRS = 5
WORDS = ("run", "multi-index", "--replicas", "24", "--quiet")
_CALL = "import sys; from featscope.cli import main; sys.exit(main())"
_VERSION = re.compile(rb'"version": ?"([^"]*)"')


def read_all(url: str) -> None:
    """Ask for the report whenever the stream of events says that there is another, until the server ends."""
    last = b""
    with suppress(OSError, HTTPException), urllib.request.urlopen(url + "events", timeout=600) as stream:
        for line in stream:
            if (found := _VERSION.search(line)) and found[1] != last:
                last = found[1]
                urllib.request.urlopen(url + "report", timeout=120).read()


def seconds(folder: Path, watched: bool) -> float:
    """Processor seconds of a run in ``folder``."""
    words = [*WORDS, "--out", str(folder), *(["--watch"] if watched else [])]
    process = subprocess.Popen(
        [sys.executable, "-c", _CALL, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )

    def follow() -> None:
        assert process.stderr
        for line in process.stderr:
            if found := re.match(r"watch: (\S+)", line):
                threading.Thread(target=read_all, args=(found[1],), daemon=True).start()

    threading.Thread(target=follow, daemon=True).start()
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, f"the run ended with {status}"
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print every pair, and the mean with its interval."""
    more = []
    with tempfile.TemporaryDirectory() as made:
        for pair in range(PAIRS):
            order = (True, False) if pair % 2 else (False, True)
            found = {watched: seconds(Path(made) / f"{pair}-{watched}", watched) for watched in order}
            more.append(100 * (found[True] / found[False] - 1))
            print(f"watched {found[True]:.1f} s, not {found[False]:.1f} s: {more[-1]:+.1f} %", flush=True)
    low, high = interval_of_mean(np.array(more))
    print(f"{mean(more):.1f} % more ({low:.1f} to {high:.1f})")


if __name__ == "__main__":
    main()
