"""A run that goes on with more than it was begun with, as what it found so far tells it to."""

from pathlib import Path

from featscope.runs.folder import RunFolder
from featscope.runs.lock import locked
from featscope.runs.plain import to_plain
from featscope.runs.stored import read_plan
from featscope.studies import Study


def grow(directory: Path, study: Study) -> None:
    """Let the finished run in ``directory`` be one of ``study`` that is not finished: `run` goes on with
    ``resume=True``, and trains those arms of ``study`` alone that are not there yet.

    Whoever stops between leaves a run that is resumed as it was, or as it is now.

    Raises:
        ConfigError: there is no run, or another one holds the folder.
    """
    with locked(directory):
        plan = read_plan(directory)
        for name in ("claims.json", "trajectory.nc"):
            (directory / name).unlink(missing_ok=True)
        RunFolder(directory).write_json("config.json", plan | {"config": to_plain(study)})
