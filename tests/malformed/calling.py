"""`featscope` called in this process, and what a call that is refused owes: a sentence, and nothing written."""

import contextlib
import inspect
import io
import os
import re
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Literal
from unittest.mock import patch

from featscope.cli import main
from featscope.hub import asking_hub
from featscope.runs.lock import NAME as LOCK

PATIENCE = 20.0
"""Seconds of computing after which a call hangs. Most take a twentieth of one."""
LONGEST = 6000
"""Letters of a message that anybody reads, beside the one time that it repeats each word."""

Goes = Literal["no step", "one step", "to the end"]
"""How far a call goes where nothing is wrong: until the first step would be taken, to see how much memory it needs;
until training would begin; or all the way. A report ends when all is read, but in the last."""


class BegunError(BaseException):
    """What the call came to; nothing was wrong before."""


class HangsError(BaseException):
    """It took longer than `PATIENCE`."""


@dataclass(frozen=True)
class Ended:
    """How a call ended.

    Attributes:
        words: what was called.
        code: exit code; None where it would have begun.
        out: what it printed.
        err: what it printed as an error, with lines joined and boxes taken off.
        seconds: how long it took.
        written: files and folders that are new, gone or changed.
    """

    words: tuple[str, ...]
    code: int | None
    out: str
    err: str
    seconds: float
    written: tuple[str, ...]


def _listing(folder: Path) -> set[tuple[str, int, int]]:
    found = set()
    for path in folder.rglob("*"):
        about, is_file = path.lstat(), path.is_file()
        if path.name != LOCK:  # which stays, empty or not
            state = (about.st_size, about.st_mtime_ns) if is_file else (0, 0)
            found.add((str(path.relative_to(folder)), *state))
    return found


def _begin(*_: object, **__: object) -> None:
    raise BegunError


_ENDS = {
    "no step": ("featscope.runs.execute._fitting", "featscope.report.run_report.content"),
    "one step": ("featscope.commands.run.train_all", "featscope.report.run_report.content"),
    "to the end": (),
}
_getsource = lru_cache(maxsize=None)(inspect.getsource)  # tyro reads each class again at each call
_entry_points = lru_cache(maxsize=None)(entry_points)


@contextlib.contextmanager
def _patiently() -> Iterator[None]:
    def handle(*_: object) -> None:
        raise HangsError(f"more than {PATIENCE} s of computing")

    before = signal.signal(signal.SIGPROF, handle)  # beside SIGALRM, which is pytest's
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def call(*words: str | Path, within: Path, goes: Goes = "no step") -> Ended:
    """``featscope`` with ``words``, in the folder ``within``, without a network and without workers.

    Raises:
        HangsError: it goes on and on.
        Exception: whatever it lets through, which is a defect.
    """
    typed = tuple(str(word) for word in words)
    before, began, place = _listing(within), time.monotonic(), Path.cwd()
    code: int | None = None
    out, err = io.StringIO(), io.StringIO()
    os.chdir(within)
    try:
        with contextlib.ExitStack() as stack:
            for end in _ENDS[goes]:
                stack.enter_context(patch(end, _begin))
            stack.enter_context(patch("featscope.runs.workers.cores", lambda: 1))
            stack.enter_context(patch("featscope.hub._answers", lambda: False))
            stack.enter_context(patch("inspect.getsource", _getsource))
            stack.enter_context(patch("featscope.registry.entry_points", _entry_points))
            stack.enter_context(asking_hub())
            stack.enter_context(contextlib.redirect_stdout(out))
            stack.enter_context(contextlib.redirect_stderr(err))
            stack.enter_context(_patiently())
            main(list(typed))
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BegunError:
        pass
    finally:
        os.chdir(place)
    said = " ".join(err.getvalue().replace("│", " ").split())
    written = tuple(sorted({name for name, *_ in before ^ _listing(within)}))
    return Ended(typed, code, out.getvalue(), said, time.monotonic() - began, written)


def refused(*words: str | Path, within: Path, names: Sequence[str] = (), goes: Goes = "no step") -> Ended:
    """A call that must be refused, see `require_refused`."""
    ended = call(*words, within=within, goes=goes)
    require_refused(ended, names)
    return ended


def _names(said: str, name: str) -> bool:
    """Whether a message has a name as a whole word or words: "lr" is not named by "already"."""
    before, after = (r"\b" if re.match(r"\w", end) else "" for end in (name[0], name[-1]))
    return re.search(before + re.escape(name) + after, said) is not None


def require_refused(ended: Ended, names: Sequence[str] = ()) -> None:
    """See that a call ended with exit code 2, a sentence that has one of ``names``, and nothing written."""
    assert ended.code == 2, ended
    assert ended.err, f"exit code 2 without a word: {ended}"
    assert "Traceback" not in ended.err, ended
    assert not names or any(_names(ended.err, name) for name in names), f"none of {names} in {ended}"
    repeated = 4 * sum(len(word) for word in ended.words if len(word) <= 4096)
    assert len(ended.err) < LONGEST + repeated, f"{len(ended.err)} letters: {ended}"
    assert not ended.written, ended


def require_refused_or_begun(ended: Ended, names: Sequence[str] = ()) -> None:
    """See that a call is refused as it should be, or finds nothing wrong.

    Training may diverge at its first step, which has an exit code of its own.
    """
    if ended.code not in (None, 0, 3):
        require_refused(ended, names)
