"""Progress of long work: a bar in a terminal, a line now and then elsewhere."""

import sys
import threading
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_SECONDS_BETWEEN_LINES = 15.0


class Monitor:
    """Shows how far each arm is; workers report to it from their threads.

    Args:
        totals: arm name -> steps times shards.
    """

    def __init__(self, totals: dict[str, int]) -> None:
        self.console = Console(stderr=True)
        self._totals = totals
        self._done = dict.fromkeys(totals, 0.0)
        self._began: dict[str, float] = {}
        self._lock = threading.Lock()
        self._last_line = time.monotonic()
        self._bar: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> "Monitor":
        if self.console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:3.0f}%  {task.fields[status]}"),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=self.console,
                refresh_per_second=4,
            )
            self._tasks = {arm: self._bar.add_task(arm, total=t, status="waiting") for arm, t in self._totals.items()}
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, arm: str, steps: float, status: str) -> None:
        """``steps`` more steps of ``arm`` are done; ``status`` says loss and stage."""
        now = time.monotonic()
        with self._lock:
            self._done[arm] += steps
            began = self._began.setdefault(arm, now)
            rate = self._done[arm] / (now - began) if now > began else 0.0
            text = f"{rate:6.1f} steps/s  {status}"
            if self._bar is not None:
                self._bar.update(self._tasks[arm], completed=self._done[arm], status=text)
            elif now - self._last_line > _SECONDS_BETWEEN_LINES:
                self._last_line = now
                print(f"{arm}: {self._done[arm]:.0f}/{self._totals[arm]} {text}", file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """One line that stays."""
        with self._lock:
            if self._bar is not None:
                self._bar.console.print(text, highlight=False)
            else:
                print(text, file=sys.stderr, flush=True)
