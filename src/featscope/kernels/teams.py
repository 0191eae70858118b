"""Parts of one computation side by side, each in a thread that sleeps while there is nothing to do."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

_others: ThreadPoolExecutor | None = None


def side_by_side(parts: Sequence[Callable[[], object]]) -> None:
    """Call all, the last in this thread; returns when all have ended, and raises what one raised.

    Parts do not wait for each other, nor call this. Where this is interrupted others may go on: what they write into
    must be theirs to keep.
    """
    waiting: list[Future[object]] = []
    try:
        for part in parts[:-1]:
            waiting.append(_team().submit(part))
    except RuntimeError:  # the interpreter is about to end and starts no threads
        for part in parts[len(waiting) : -1]:
            part()
    try:
        parts[-1]()
    finally:
        wait(waiting)
    for one in waiting:
        one.result()


def _team() -> ThreadPoolExecutor:
    global _others
    if _others is None:
        _others = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="featscope")
    return _others


def _forget() -> None:
    global _others
    _others = None


if hasattr(os, "register_at_fork"):  # a forked process has none of these threads
    os.register_at_fork(after_in_child=_forget)
