"""What is going on in a run folder, in a few numbers: cheap enough to be asked twice a second while all cores train."""

import json
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypedDict

import psutil

from featscope.files import AS_IT_IS
from featscope.runs.progress import NAME as PROGRESS

State = Literal["running", "paused", "judging", "ending", "finished", "not running", "unreadable"]
_ALIVE = ("running", "paused", "judging", "ending")
_MOST = 1_000_000  # bytes of a file that says how far a run is
_STALE = 60.0  # seconds without a word from another machine
_NUMBERS = ("done", "steps", "whole", "place", "of")


class Arm(TypedDict):
    """How far an arm is."""

    arm: str
    label: str
    place: int
    of: int
    done: float
    steps: int
    whole: int
    status: str


class Seen(TypedDict):
    """What the page shows beside the report. ``version`` changes with what the report is made of."""

    state: State
    arms: list[Arm]
    events: list[tuple[float, str]]
    seconds_left: float | None
    can_pause: bool
    memory: list[int]  # bytes that the run has, each page once; that are free; that there are
    since: float  # when its process began; 0 where none runs
    spent: float  # processor seconds of it
    version: str


def look(folder: Path, before: Seen | None = None) -> Seen:
    """What is going on in ``folder``. Nothing in it is believed before it is checked, and nothing raises.

    Args:
        folder: the run folder.
        before: what was seen a moment ago, of which memory and time are taken over: they cost more to find out.
    """
    said = _said(folder)
    alive = said is not None and _is_alive(said)
    state: State = "not running"
    if said is not None and alive:
        state = said["state"]
    elif os.path.exists(folder / "claims.json"):  # without them it was killed before its claims were judged
        state = "finished"
    arms: list[Arm] = said["arms"] if said is not None else []
    memory, spent = (before["memory"], before["spent"]) if before else ([], 0.0)
    if said is not None and alive and not memory and said["host"] == socket.gethostname():
        memory, spent = _use(said["pid"])
    return Seen(
        state=state,
        arms=arms,
        events=said["events"] if said is not None else [],
        seconds_left=said["seconds_left"] if said is not None and alive else None,
        can_pause=bool(said and alive and said["can_pause"]),
        memory=memory if alive else [],
        since=float(said["created"]) if said is not None and alive else 0.0,
        spent=spent,
        version=_version(folder, state),
    )


def _said(folder: Path) -> dict[str, Any] | None:
    with suppress(OSError, ValueError, RecursionError):
        handle = os.open(folder / PROGRESS, AS_IT_IS)
        with os.fdopen(handle, "rb") as file:
            said = json.loads(file.read(_MOST))
        if _is_sound(said):
            return said
    return None


def _is_sound(said: Any) -> bool:
    if not isinstance(said, dict) or said.get("state") not in _ALIVE or type(said.get("pid")) is not int:
        return False
    arms, events = said.get("arms"), said.get("events")
    left = said.get("seconds_left")
    return (
        all(_is_number(said.get(name)) for name in ("created", "at"))
        and isinstance(said.get("host"), str)
        and isinstance(said.get("can_pause"), bool)
        and (left is None or _is_number(left))
        and isinstance(arms, list)
        and all(isinstance(arm, dict) and all(_is_number(arm.get(name)) for name in _NUMBERS) for arm in arms)
        and all(isinstance(arm.get(name), str) for arm in arms for name in ("arm", "label", "status"))
        and isinstance(events, list)
        and all(
            isinstance(event, list) and len(event) == 2 and _is_number(event[0]) and isinstance(event[1], str)
            for event in events
        )
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18


def _is_alive(said: dict[str, Any]) -> bool:
    if said["host"] != socket.gethostname():
        return abs(time.time() - said["at"]) < _STALE  # clocks may differ a little, but no word is of the future
    try:
        process = psutil.Process(said["pid"])
        return abs(process.create_time() - said["created"]) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, ValueError, OverflowError):
        return False


def _use(pid: int) -> tuple[list[int], float]:
    """Memory, see `Seen`, and processor seconds of a run, without those of who watches."""
    with suppress(psutil.Error):
        first = psutil.Process(pid)
        used, spent = first.memory_info().rss, sum(first.cpu_times()[:2])
        for child in first.children(recursive=True):
            with suppress(psutil.Error):
                if child.pid != os.getpid():
                    about = child.memory_info()
                    used += about.rss - getattr(about, "shared", 0)
                    spent += sum(child.cpu_times()[:2])
        machine = psutil.virtual_memory()
        return [used, machine.available, machine.total], spent
    return [], 0.0


def _version(folder: Path, state: State) -> str:
    """Another word whenever the report would be another one."""
    stored = ("claims.json", "report.html", "trajectory.nc")
    files = [*(folder / name for name in stored), *sorted((folder / "checkpoint").glob("*.safetensors"))]
    stamps = []
    for file in files:
        with suppress(OSError):
            stamps.append(file.stat().st_mtime_ns)
    return f"{'finished' if state == 'finished' else 'so far'}-{len(stamps)}-{max(stamps, default=0)}"
