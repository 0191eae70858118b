"""Worker processes, one a core, that train shards side by side.

Threads would do, were it not for the interpreter's lock: two threads hand it to each other at every tensor
operation, which costs small networks up to half of their speed. Workers are forked, so that they share what
is loaded and nothing needs to be imported or sent; results come back through a pipe. Where there is no safe
fork, and on a GPU, shards are trained one after the other in this process.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from featscope.allocator import keep_freed_memory
from featscope.runs.folder import RunFolder
from featscope.runs.program import StoppedError
from featscope.runs.progress import ProgressBoard, Show, parts
from featscope.runs.shard import Shard, ShardResult
from featscope.threads import compute_with_one_thread, cores

_SECONDS_BETWEEN_REPORTS = 0.2
_PR_SET_PDEATHSIG = 1
_STOP = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
STOPPING = "stopping after this step, saving ..."
"""Said once a run is to end."""
_KILLED = "a worker process was killed, perhaps for want of memory: OMP_NUM_THREADS=1 has one at a time"
_NO_FORK = "fork-based multiprocessing"  # in what torch says of it

T = TypeVar("T")


Trainer = Callable[[RunFolder, Sequence[Shard], str], list[ShardResult]]
"""(folder, shards, device) -> the results of the shards, in order."""


class InterruptedRunError(Exception):
    """The run was interrupted; its state is saved (exit code 130).

    Attributes:
        computed_by: of each shard that is done, the other machine that computed it, as `featscope.runs.environment`
            describes it; None for this one.
    """

    computed_by: Sequence[Mapping[str, Any] | None] = ()


@dataclass(frozen=True)
class _Work:
    """What forked workers find in memory."""

    compute: Callable[[int, Callable[[], bool], Callable[[float, str], None]], Any]
    stop: Any
    pause: Any
    reports: Any


_work: _Work | None = None  # of a worker
_alone: ContextVar[bool] = ContextVar("alone", default=False)


@contextmanager
def one_at_a_time(needed: bool) -> Iterator[None]:
    """Have shards trained one after the other in this process, by all cores, if ``needed``.

    A few workers of several threads each would do as much; but a fork of a process whose OpenMP threads have run has
    none, and waits for them for ever.
    """
    before = _alone.set(needed)
    try:
        yield
    finally:
        _alone.reset(before)


def at_a_time(most: int) -> int:
    """Shards that are trained at a time: ``most``, or one where memory holds no more."""
    return 1 if _alone.get() else most


def worker_count(device: str) -> int:
    """Shards that are trained at a time."""
    return cores() if device == "cpu" and sys.platform == "linux" else 1


def train_all(folder: RunFolder, shards: Sequence[Shard], device: str, show: Show = "bar") -> list[ShardResult]:
    """The results of ``shards``, in order; ``show`` says how progress is told.

    Raises:
        InterruptedRunError: Ctrl-C, a termination signal, or a worker that was killed.
        DivergedError, ConfigError: what a shard raised; the others have stopped and saved their state.
    """
    names = [shard.arm.name for shard in shards]

    def watched() -> ProgressBoard:
        return ProgressBoard(parts([shard.arm for shard in shards]), folder.path, show)

    def compute(index: int, stopped: Callable[[], bool], progress: Callable[[float, str], None]) -> ShardResult:
        return shards[index].run(folder, stopped, progress)

    workers = min(at_a_time(worker_count(device)), len(shards))
    if workers > 1:
        with _may_be_unfit_for_forking():
            return _in_workers(compute, len(shards), workers, watched(), names)
    board, threads = watched(), torch.get_num_threads()
    stop = Stop(board)
    torch.set_num_threads(cores())
    keep_freed_memory()
    asks = _Patient(board, stop)
    with board, stop_on_signals(stop):
        try:
            return [
                compute(i, asks, lambda steps, status, i=i: board.advance(names[i], steps, status))  # type: ignore[misc]
                for i in range(len(shards))
            ]
        except StoppedError:
            raise InterruptedRunError from None
        finally:
            torch.set_num_threads(threads)


@contextmanager
def _may_be_unfit_for_forking() -> Iterator[None]:
    """Where torch refuses in a fork, go on behind this, where the work is done in this process.

    A process that sees a GPU and has taken a gradient, as a notebook may have, has threads that no fork of it has.
    """
    try:
        yield
    except RuntimeError as error:
        if _NO_FORK not in str(error):
            raise


class Stop:
    """Whether a run is to end. Handlers of signals say so, which may interrupt whoever holds a lock: it has none.

    Args:
        board: where it is told, by those who ask.
        saying: what is told.
    """

    def __init__(self, board: ProgressBoard, saying: str = STOPPING) -> None:
        self._board, self._saying, self._told = board, saying, False
        self.asked = False

    def set(self) -> None:
        """From now on."""
        self.asked = True

    def is_set(self) -> bool:
        """Whether it is; the first time that it is, it is told."""
        if self.asked and not self._told:
            self._told = True
            with suppress(OSError):  # the terminal may be gone
                self._board.say(self._saying)
        return self.asked


class _Patient:
    """Whether training in this process is to stop, asked after every step; it waits here while a pause is asked for."""

    def __init__(self, board: ProgressBoard, stop: Stop) -> None:
        self._board, self._stop, self._looked = board, stop, 0.0

    def __call__(self) -> bool:
        if time.monotonic() - self._looked > _SECONDS_BETWEEN_REPORTS:
            while (wish := self._board.wish()) == "pause" and not self._stop.is_set():
                time.sleep(_SECONDS_BETWEEN_REPORTS)
                self._board.beat()
            if wish == "stop":
                self._stop.set()
            self._looked = time.monotonic()
        return self._stop.is_set()


def in_worker(compute: Callable[[], T]) -> T:
    """The result of ``compute`` in a worker of its own, so that this process stays fit for forking.

    Raises:
        InterruptedRunError: Ctrl-C or a termination signal, which does not wait for it.
    """
    if worker_count("cpu") > 1:
        with _may_be_unfit_for_forking():
            alone = ProgressBoard()
            return _in_workers(lambda index, stopped, progress: compute(), 1, 1, alone, [""], heeds=False)[0]
    return compute()


def _in_workers(
    compute: Callable[[int, Callable[[], bool], Callable[[float, str], None]], T],
    count: int,
    workers: int,
    board: ProgressBoard,
    names: Sequence[str],
    *,
    heeds: bool = True,
) -> list[T]:
    """Results in order; workers whose work ``heeds`` no stop are killed where one is asked for."""
    fork = multiprocessing.get_context("fork")
    ends, reports, pause = fork.Event(), fork.SimpleQueue(), fork.RawValue(ctypes.c_bool, False)
    stop = Stop(board, STOPPING if heeds else "stopping ...")
    work = _Work(compute, ends, pause, reports)  # handed over by the fork: another thread may have a pool of its own

    def show() -> None:
        while not reports.empty():
            index, steps, status = reports.get()
            board.advance(names[index], steps, status)
        wish = board.wish()
        pause.value = wish == "pause"
        if wish == "stop":
            stop.set()
        if stop.is_set() and not ends.is_set():
            ends.set()
            if not heeds:
                for worker in list((pool._processes or {}).values()):  # others may be the caller's own
                    worker.kill()
        board.beat()

    try:
        with (
            stop_on_signals(stop),
            ProcessPoolExecutor(workers, mp_context=fork, initializer=_begin, initargs=(os.getpid(), work)) as pool,
        ):
            futures = [pool.submit(_compute, index) for index in range(count)]  # forks, before any thread is begun
            try:
                with board:
                    while wait(futures, timeout=_SECONDS_BETWEEN_REPORTS).not_done:
                        show()
                    show()
            except BaseException:  # nobody reads what is told any more: the pool would wait until all is trained
                ends.set()
                raise
        results = _results(futures)
        if stop.is_set():  # when all was done, or while the pool ended
            raise InterruptedRunError
        return results
    except BrokenProcessPool:
        raise InterruptedRunError(*([] if stop.asked and not heeds else [_KILLED])) from None


def _results(futures: Sequence["Future[T]"]) -> list[T]:
    errors = [error for future in futures if (error := future.exception()) is not None]
    for error in errors:
        if not isinstance(error, StoppedError):
            raise error
    if errors:
        raise InterruptedRunError
    return [future.result() for future in futures]


def _begin(parent: int, work: _Work) -> None:
    """In each worker, first: leave signals of the terminal to the parent, end with it, and compute with one core."""
    global _work
    _work = work
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was gone before the call
        os._exit(1)
    compute_with_one_thread()
    keep_freed_memory()


def _compute(index: int) -> Any:
    assert _work is not None
    stop, pause, reports = _work.stop, _work.pause, _work.reports
    waiting, told = 0.0, 0.0

    def stopped() -> bool:
        while pause.value and not stop.is_set():
            time.sleep(_SECONDS_BETWEEN_REPORTS)
        return stop.is_set()

    if stopped():
        raise StoppedError

    def progress(steps: float, status: str) -> None:
        nonlocal waiting, told
        waiting += steps
        if time.monotonic() - told > _SECONDS_BETWEEN_REPORTS or status in ("measuring", "resumed"):
            reports.put((index, waiting, status))
            waiting, told = 0.0, time.monotonic()

    try:
        return _work.compute(index, stopped, progress)
    except BaseException:
        stop.set()
        raise


@contextmanager
def stop_on_signals(stop: Stop) -> Iterator[None]:
    """Let Ctrl-C, termination and the end of the terminal stop training between two steps.

    The second such signal ends it at once, and workers with it; what was saved before is kept.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: object) -> None:
        if stop.asked:
            _kill_workers()
            raise KeyboardInterrupt
        stop.set()

    heeded = [number for number in _STOP if signal.getsignal(number) != signal.SIG_IGN]  # nohup ignores one
    previous = {number: signal.signal(number, handle) for number in heeded}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let termination and the end of the terminal raise KeyboardInterrupt, as Ctrl-C does, where they would end the
    process without a word."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.getsignal(number) for number in _STOP}
    heeded = [number for number, handler in previous.items() if handler == signal.SIG_DFL]
    for number in heeded:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in heeded:
            signal.signal(number, previous[number])


def _kill_workers() -> None:
    for worker in multiprocessing.active_children():
        worker.kill()
