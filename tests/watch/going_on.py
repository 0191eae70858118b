"""Runs that somebody watches: one that was ended on its way, and one that seems to go on."""

import json
import os
import socket
import time
from pathlib import Path

import psutil
import pytest

from featscope.runs import Settings, run
from featscope.runs.progress import NAME as PROGRESS
from featscope.studies import Study


class EndedError(BaseException):
    """What ends a run on its way."""


def ended_on_its_way(folder: Path, study: Study, looks: int, replicas: int = 2) -> None:
    """A run of ``study`` in this process, killed after so many looks."""
    seen, watch = 0, type(study).watch

    def counted(self, experiment):
        nonlocal seen
        seen += 1
        if seen > looks:
            raise EndedError
        return watch(self, experiment)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("featscope.runs.workers.cores", lambda: 1)
        patch.setattr("featscope.runs.program._SECONDS_BETWEEN_CHECKPOINTS", 0)
        patch.setattr(type(study), "watch", counted)
        with pytest.raises(EndedError):
            run(study, Settings(replicas=replicas), folder)


def progress(**changed: object) -> dict[str, object]:
    """What a run of this process says of itself."""
    arm = {"arm": "pulled", "label": "pulled here", "place": 1, "of": 2, "steps": 40, "whole": 20, "status": "loss 0.5"}
    return {
        "pid": os.getpid(),
        "created": psutil.Process().create_time(),
        "host": socket.gethostname(),
        "at": time.time(),
        "state": "running",
        "can_pause": True,
        "seconds": 3.0,
        "seconds_left": 60.0,
        "arms": [
            arm | {"done": 12.0},
            arm | {"arm": "other", "label": "the other", "place": 2, "done": 0, "status": ""},
        ],
        "events": [[time.time(), "training begins"]],
    } | changed


def say(folder: Path, **changed: object) -> None:
    """Let ``folder`` say that this process runs there."""
    (folder / PROGRESS).write_text(json.dumps(progress(**changed)))
