"""`python -m benchmarks.watched`: what it costs that somebody watches a run, in processor time.

The server of a watched run is a process of its own. Its time is compared with that of the run beside it: the same run
twice, watched and not, differs by more than the server takes, as the processor's speed does. A reader asks for every
page that there is, as a browser would.
"""

import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from statistics import mean

import numpy as np
import psutil

from featscope.claims import interval_of_mean

RUNS = 5
STUDIES = ("multi-index", "gradient-features")
_CALL = "import sys; from featscope.cli import main; sys.exit(main())"
_VERSION = re.compile(rb'"version": ?"([^"]*)"')
_SECONDS_BETWEEN_LOOKS = 0.1


def read_all(url: str) -> None:
    """Ask for the report whenever the stream of events says that there is another, until the server ends."""
    last = b""
    with suppress(OSError, HTTPException), urllib.request.urlopen(url + "events", timeout=600) as stream:
        for line in stream:
            if (found := _VERSION.search(line)) and found[1] != last:
                last = found[1]
                urllib.request.urlopen(url + "report", timeout=120).read()


def shares(study: str, folder: Path) -> tuple[float, float]:
    """Processor seconds of a run of ``study`` with its workers, and of the server beside it, which it starts first."""
    words = ["run", study, "--quiet", "--watch", "--out", str(folder)]
    command = [sys.executable, "-c", _CALL, *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:

        def follow() -> None:
            assert process.stderr
            for line in process.stderr:
                if found := re.match(r"watch: (\S+)", line):
                    threading.Thread(target=read_all, args=(found[1],), daemon=True).start()

        threading.Thread(target=follow, daemon=True).start()
        run, spent = psutil.Process(process.pid), dict[float, float]()
        while process.poll() is None:
            with suppress(psutil.Error):
                for one in [run, *run.children(recursive=True)]:
                    times = one.cpu_times()
                    spent[one.create_time()] = times.user + times.system
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    assert process.returncode == 0, f"the run ended with {process.returncode}"
    of_server = spent[sorted(spent)[1]]
    return sum(spent.values()) - of_server, of_server


def main() -> None:
    """Print every run, and the mean share with its interval."""
    for study in STUDIES:
        more = []
        for place in range(RUNS):
            with tempfile.TemporaryDirectory() as made:
                of_run, of_server = shares(study, Path(made) / "run")
            more.append(100 * of_server / of_run)
            print(f"{study} {place + 1}: run {of_run:.1f} s, server {of_server:.2f} s: {more[-1]:.2f} %", flush=True)
        low, high = interval_of_mean(np.array(more))
        print(f"{study}: {mean(more):.2f} % more ({low:.2f} to {high:.2f})", flush=True)


if __name__ == "__main__":
    main()
