"""A server beside a run, in a process of its own: it takes no part in training, and ends soon after the run."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from featscope.threads import compute_with_one_thread
from featscope.watch.pages import import_all
from featscope.watch.server import close, watch

_NICE = 5  # training goes first
_SECONDS_TO_SHOW_THE_END = 5.0
_SECONDS_BETWEEN_LOOKS = 0.2


@contextmanager
def watched(folder: Path) -> Iterator[None]:
    """A server of the run that will be in ``folder``, from now until those who watch have seen how it ended."""
    import_all()
    # Forked where that is safe, so that nothing is imported twice; before training has begun a thread.
    context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    here, there = context.Pipe()
    server = context.Process(target=_serve, args=(folder, here, there), daemon=True)
    server.start()
    there.close()
    try:
        if here.poll(30):
            with suppress(EOFError):
                print(f"watch: {here.recv()}", file=sys.stderr, flush=True)
        yield
    finally:
        here.close()
        server.join(_SECONDS_TO_SHOW_THE_END + 2)


def _serve(folder: Path, of_parent: Connection, parent: Connection) -> None:
    of_parent.close()  # so that the other end is at an end once the parent is
    for number in (signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGINT)):
        signal.signal(number, signal.SIG_IGN)  # the run heeds them, and ends this
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # not the run's handler
    with suppress(OSError, AttributeError):
        os.nice(_NICE)
    compute_with_one_thread()
    server = watch(folder)
    parent.send(server.address.url)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    while not _ended(parent):
        time.sleep(_SECONDS_BETWEEN_LOOKS)
        server.keep()
    until = time.monotonic() + _SECONDS_TO_SHOW_THE_END
    while server.streams and time.monotonic() < until:  # a browser needs a moment to fetch the last page
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    close(server)


def _ended(parent: Connection) -> bool:
    try:
        return parent.poll() and parent.recv() is None
    except (EOFError, OSError):
        return True
