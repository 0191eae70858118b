"""Parts of one computation that run at the same time and wait for each other, each in a thread.

Waiting takes a few thousand looks at a counter, in machine code; who has waited longer lets others have the core
between looks. To sleep and be woken takes a thread longer than most parts do, and several times a step.
"""

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from queue import SimpleQueue

from featscope.kernels.loops import Code, Whole
from featscope.kernels.machine import waits

_OPEN = 2**30  # of a barrier: nobody waits at it any more
_LOOKS = 4096  # before others may have the core: some 50 microseconds
_turn = threading.Lock()  # parts of two computations that wait for each other must not share threads
_helpers: "list[_Helper]" = []


def at_once(parts: Sequence[Callable[[], object]], barrier: ctypes.c_int32) -> bool:
    """Call all at the same time, the last in this thread; returns when all have ended, and raises what one raised.

    Where this is interrupted others may go on for a moment: what they write into must be theirs to keep.

    Args:
        parts: that may wait for each other, and do not call this.
        barrier: the counter by which they do (`arrive_and_wait`); nobody waits at it any more where one of them raises.

    Returns:
        whether they were called: not so where no threads are to be had.
    """
    if sys.is_finalizing():  # where other threads have stopped for good
        return False
    with _turn:
        if not _are_there(len(parts) - 1):
            return False
        ended: SimpleQueue[BaseException | None] = SimpleQueue()
        begun = 0
        try:
            for helper, part in zip(_helpers, parts[:-1], strict=False):
                helper.work.put((part, barrier, ended))
                begun += 1
            parts[-1]()
        finally:
            barrier.value = _OPEN  # all have met, or somebody will never come
            errors = [ended.get() for _ in range(begun)]
    for error in errors:
        if error is not None:
            raise error
    return True


_Work = tuple[Callable[[], object], ctypes.c_int32, "SimpleQueue[BaseException | None]"]


class _Helper(threading.Thread):
    """A thread that sleeps until there is work."""

    def __init__(self) -> None:
        super().__init__(name="featscope", daemon=True)
        self.work: SimpleQueue[_Work] = SimpleQueue()

    def run(self) -> None:
        while True:
            part, barrier, ended = self.work.get()
            error = None
            try:
                part()
            except BaseException as raised:  # for who waits
                barrier.value = _OPEN
                error = raised
            del part  # with the arrays it holds
            ended.put(error)


def _are_there(count: int) -> bool:
    """Whether there are so many helpers, of whom missing ones are started."""
    try:
        while len(_helpers) < count:
            helper = _Helper()
            helper.start()
            _helpers.append(helper)
    except RuntimeError:  # there are too many threads, or the interpreter is about to end
        return False
    return True


def _forget() -> None:
    global _turn
    _turn = threading.Lock()
    _helpers.clear()


if hasattr(os, "register_at_fork"):  # a forked process has none of these threads
    os.register_at_fork(after_in_child=_forget)


def arrive_and_wait(code: Code, barrier: Whole, all_of: Whole, let_others: Whole) -> None:
    """The code of a barrier: a counter, which begins at 0, is raised, and waited for until all have raised it.

    What others wrote before they raised it can be read then.

    Args:
        code: that is written.
        barrier: address of the counter, 32 bits. It is none of an array, which nobody else may write.
        all_of: times it has been raised when all are there.
        let_others: address of `other_threads_first`.
    """
    counter = code.new(f"inttoptr i64 {barrier.name} to ptr")
    code.new(f"atomicrmw add ptr {counter}, i32 1 seq_cst")
    looks, wanted = code.slot("i32"), code.new(f"trunc i64 {all_of.name} to i32")
    others_first = code.new(f"inttoptr i64 {let_others.name} to ptr")
    for line in (f"store i32 0, ptr {looks}", "br label %look", "look:"):
        code.do(line)
    there = code.new(f"icmp uge i32 {code.new(f'load atomic i32, ptr {counter} seq_cst, align 4')}, {wanted}")
    for line in (f"br i1 {there}, label %met_all, label %wait", "wait:"):
        code.do(line)
    count = code.new(f"add i32 {code.new(f'load i32, ptr {looks}')}, 1")
    patient = code.new(f"icmp ugt i32 {count}, {_LOOKS}")
    for line in (f"br i1 {patient}, label %others, label %at_once", "at_once:"):
        code.do(line)
    code.do(f"store i32 {count}, ptr {looks}")
    if pause := waits():
        code.do(f"call void {pause}")
    for line in ("br label %look", "others:"):
        code.do(line)
    code.new(f"call i32 {others_first}()")
    for line in ("br label %look", "met_all:"):
        code.do(line)


@lru_cache
def other_threads_first() -> int:
    """The address of the system's function that lets other threads have the core."""
    if sys.platform == "win32":
        return ctypes.cast(ctypes.windll.kernel32.SwitchToThread, ctypes.c_void_p).value or 0
    return ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value or 0
