"""Processes that run a trial with a planted fault. They are kept from one fault to the next, so that torch is imported
once.
"""

import os
import signal
import subprocess
import sys
import weakref
from contextlib import suppress
from pathlib import Path
from select import select

from featscope.testing import planted

_ALONE = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
Server = subprocess.Popen[str]


class Servers:
    """Processes that do jobs (`featscope.testing.planted`), as many as there are jobs at a time."""

    def __init__(self) -> None:
        self._idle: list[Server] = []
        weakref.finalize(self, _end, self._idle)

    def do(self, job: Path, seconds: float | None) -> int | None:
        """How the process ended that did ``job``; None where that takes longer than ``seconds`` by the clock."""
        try:
            server = self._idle.pop()
        except IndexError:
            server = _begin()
        assert server.stdin is not None
        assert server.stdout is not None
        print(job, file=server.stdin, flush=True)
        if not select([server.stdout], [], [], seconds)[0]:
            os.killpg(server.pid, signal.SIGKILL)
            server.communicate()
            return None
        answer = server.stdout.readline()
        self._idle.append(server)
        return int(answer)


def _begin() -> Server:
    return subprocess.Popen(
        [sys.executable, "-P", planted.__file__],
        env=os.environ | _ALONE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that its forks end with it
    )


def _end(servers: list[Server]) -> None:
    for server in servers:
        with suppress(BrokenPipeError):
            server.communicate()
