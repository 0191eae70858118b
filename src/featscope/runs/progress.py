"""Progress of long work: a bar in a terminal, a line now and then elsewhere, or an event a line for machines; and a
small file in the run folder for whoever watches from another process."""

import json
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import psutil
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from featscope.runs import asked
from featscope.runs.asked import Wish

NAME = ".featscope.progress"
"""The file for those who watch. It goes with the run; where it stays behind, the run was killed."""
Show = Literal["bar", "quiet", "json"]
"""How progress is told: in the terminal, not at all, or as a line of JSON an event."""
_SECONDS_BETWEEN_LINES = 15.0
_SECONDS_BETWEEN_EVENTS = 1.0
_SECONDS_BETWEEN_FILES = 0.5
_EVENTS = 50  # that are kept for those who come late


@dataclass(frozen=True)
class Part:
    """An arm in the order of the story.

    Attributes:
        name: the arm.
        label: in two or three words.
        steps: times shards.
        whole: steps of one shard.
    """

    name: str
    label: str
    steps: int
    whole: int


def parts(arms: Sequence[Any]) -> list[Part]:
    """The parts that the arms of ``arms``, one for each shard, come to; in the order of the story."""
    found: dict[str, Part] = {}
    for arm in arms:
        steps = arm.recipe.steps
        before = found[arm.name].steps if arm.name in found else 0
        found[arm.name] = Part(arm.name, arm.label or arm.name, before + steps, steps)
    return list(found.values())


class ProgressBoard:
    """Shows how far each arm is; what workers report is told to it by the process that waits for them.

    Args:
        arms: in the order of the story.
        folder: the run folder, where it says how far it is and looks what is asked; none for work without one.
        show: how.
        can_pause: whether work waits when it is asked to.
    """

    def __init__(
        self, arms: Sequence[Part] = (), folder: Path | None = None, show: Show = "bar", can_pause: bool = True
    ) -> None:
        self.console = Console(stderr=True)
        self._arms, self._folder, self._show, self._can_pause = list(arms), folder, show, can_pause
        self._place = {arm.name: place for place, arm in enumerate(self._arms, 1)}
        self._steps = {arm.name: arm.steps for arm in self._arms}
        self._done = dict.fromkeys(self._steps, 0.0)
        self._found = dict.fromkeys(self._steps, 0.0)  # steps that an earlier run had done
        self._began: dict[str, float] = {}
        self._status = dict.fromkeys(self._steps, "")
        self._events: list[tuple[float, str]] = []
        self._state = "running"
        self._start, self._waited, self._since = time.monotonic(), 0.0, 0.0
        self._last_line = self._last_file = time.monotonic()
        self._last_event = dict.fromkeys(self._steps, 0.0)
        self._bar: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> "ProgressBoard":
        if self.console.is_terminal and self._show == "bar" and self._arms:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:3.0f}%  {task.fields[status]}"),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=self.console,
                refresh_per_second=4,
            )
            of = len(self._arms)
            self._tasks = {
                arm.name: self._bar.add_task(f"{place} of {of} {arm.name}", total=arm.steps, status="waiting")
                for place, arm in enumerate(self._arms, 1)
            }
            self._bar.start()
        self._note("training begins")
        self._write()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._state = "judging" if kind is None else "ending"
        self._write()

    def advance(self, arm: str, steps: float, status: str) -> None:
        """``steps`` more steps of ``arm`` are done; ``status`` says loss and stage."""
        now = time.monotonic()
        self._done[arm] += steps
        if status in ("starting", "resumed"):
            self._found[arm] += steps
        if arm not in self._began:
            self._began[arm] = now - self._waited
            self._note(f"{arm} begins" if status != "resumed" else f"{arm} goes on")
        self._status[arm] = status or self._status[arm]
        total = self._steps[arm]
        ended = self._done[arm] >= total - 0.5 and self._done[arm] - steps < total - 0.5
        if ended:
            self._note(f"{arm} has done its steps")
        spent = now - self._waited - self._began[arm]
        rate = (self._done[arm] - self._found[arm]) / spent if spent > 0 else 0.0
        text = f"{rate:6.1f} steps/s  {status}"
        if self._bar is not None:
            self._bar.update(self._tasks[arm], completed=self._done[arm], status=text)
        elif self._show == "bar" and now - self._last_line > _SECONDS_BETWEEN_LINES:
            self._last_line = now
            place = f"{self._place[arm]} of {len(self._arms)}"
            print(f"{arm} ({place}): {self._done[arm]:.0f}/{total} {text}", file=sys.stderr, flush=True)
        elif self._show == "json" and (ended or now - self._last_event[arm] > _SECONDS_BETWEEN_EVENTS):
            self._last_event[arm] = now
            self._tell("progress", **self._of(self._arms[self._place[arm] - 1]), seconds_left=self._left())
        self.beat()

    def beat(self) -> None:
        """Say how far it is to those who watch, if the last time is a while ago."""
        if time.monotonic() - self._last_file > _SECONDS_BETWEEN_FILES:
            self._write()

    def wish(self) -> Wish:
        """What is asked of the run; work that cannot pause is never asked to."""
        wish = asked.asked(self._folder) if self._folder is not None else ""
        if not self._can_pause and wish == "pause":
            wish = ""
        if (wish == "pause") != (self._state == "paused") and self._state in ("running", "paused"):
            now = time.monotonic()
            if wish == "pause":
                self._since, self._state = now, "paused"
            else:
                self._waited, self._state = self._waited + now - self._since, "running"
            self._note(self._state if wish == "pause" else "goes on")
            if self._show == "json":
                self._tell("paused" if wish == "pause" else "resumed")
            self._write()
        return wish

    def say(self, text: str) -> None:
        """One line that stays."""
        if self._bar is not None:
            self._bar.console.print(text, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def _left(self) -> float | None:
        """Seconds that are left, pauses aside: arms on their way go on at their own pace, those to come at that of
        all so far."""
        now = (self._since if self._state == "paused" else time.monotonic()) - self._waited
        fresh, spent = sum(self._done.values()) - sum(self._found.values()), now - self._start
        to_come = sum(steps for arm, steps in self._steps.items() if arm not in self._began)
        if fresh <= 0:
            return None
        left = [0.0]
        for arm, began in self._began.items():
            done, rest = self._done[arm] - self._found[arm], self._steps[arm] - self._done[arm]
            left.append(rest / max(done, 1.0) * max(now - began, 0.0) if rest > 0 else 0.0)
        return to_come / fresh * spent + max(left)

    def _note(self, text: str) -> None:
        self._events = [*self._events, (time.time(), text)][-_EVENTS:]

    def _tell(self, event: str, **more: Any) -> None:
        print(json.dumps({"event": event} | more), flush=True)

    def _of(self, arm: Part) -> dict[str, Any]:
        done = round(self._done[arm.name], 3)
        place = {"arm": arm.name, "label": arm.label, "place": self._place[arm.name], "of": len(self._arms)}
        return place | {"done": done, "steps": arm.steps, "whole": arm.whole, "status": self._status[arm.name]}

    def _write(self) -> None:
        """Into a file of the same name; a reader sees the old one or the new one. It is not synced, as it is worth
        nothing after a crash, and where it cannot be written the run goes on without."""
        self._last_file = time.monotonic()
        if self._folder is None:
            return
        tell_watchers(
            self._folder,
            {
                "state": self._state,
                "can_pause": self._can_pause,
                "seconds": time.monotonic() - self._start - self._waited,
                "seconds_left": self._left(),
                "arms": [self._of(arm) for arm in self._arms],
                "events": self._events,
            },
        )


def tell_watchers(folder: Path, said: Mapping[str, Any]) -> None:
    """Leave what this process does in a run folder for those who watch it; where that cannot be written it goes on."""
    process = psutil.Process()
    who = {"pid": process.pid, "created": process.create_time(), "host": socket.gethostname(), "at": time.time()}
    half = folder / f"{NAME}.{os.getpid()}"
    with suppress(OSError):
        half.write_text(json.dumps(who | dict(said)))
        half.replace(folder / NAME)
