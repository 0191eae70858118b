"""A run folder: what it holds, and how it is written and read."""

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from typing import Any

import torch
import xarray as xr

from featscope.claims import LEVEL, Claim
from featscope.files import atomic_write
from featscope.options import ConfigError
from featscope.runs import asked, checksum, progress
from featscope.runs.export import TABLES, remove_tables
from featscope.runs.lock import NAME as LOCK
from featscope.runs.lock import Lock, require_free
from featscope.runs.stored import ARMS, RUN, read_plan, run_of
from featscope.tensors import DamagedError, packed, unpacked

_BESIDE_A_PLAN = ("environment.json", "trajectory.nc", "claims.json")
_FILES = (*_BESIDE_A_PLAN, "trends.json", "report.html", "unfinished.html", "config.json")
"""What a run writes; the last to go is what says that the folder holds one."""
WATCHED = ".featscope.watch"
"""Where a run is watched; the file outlives the run, so that a page that is open finds the next one."""
_WHILE_IT_RUNS = (progress.NAME, asked.NAME)
_PARTS = {"checkpoint": "*.safetensors", "weights": "*.safetensors", "figures": "*.png"}
_HALF = "." + 16 * "[0-9a-f]"
"""What `atomic_write` puts behind the name of a file that is not whole yet, as a pattern."""

_LARGE = 2**20  # bytes from which compression is worth its time


def _packed(run: xr.Dataset) -> dict[str, dict[str, Any]]:
    """How the large variables of ``run`` are compressed, without loss."""
    large = (name for name, variable in run.variables.items() if variable.nbytes > _LARGE)
    return {str(name): {"zlib": True, "complevel": 4, "shuffle": True} for name in large}


def _half_written(path: Path) -> set[Path]:
    """What a killed run left of the files that it was writing."""
    patterns = [f".{name}{_HALF}" for name in (*_FILES, asked.NAME)]
    patterns += [f"{part}/.{files}{_HALF}" for part, files in _PARTS.items()]
    patterns += [*_WHILE_IT_RUNS, f"{progress.NAME}.[0-9]*"]  # by process
    return {found for pattern in patterns for found in path.glob(pattern)}


def _untouched(path: Path) -> bool:
    """Whether a folder holds nothing, or no more than a run that was killed before it wrote a file."""
    ours = _half_written(path) | {path / part for part in (*_PARTS, LOCK, WATCHED)}
    return all(found in ours for found in path.rglob("*"))


def holds_run(path: Path) -> bool:
    """Whether a folder's ``config.json`` is a run's: other programs write one, too. If it is damaged or gone, what else
    is there tells."""
    try:
        read_plan(path)
    except ConfigError:
        found = sum((path / name).exists() for name in ("config.json", *_BESIDE_A_PLAN))
        return found > 1
    return True


def _require_usable(path: Path, resume: bool, overwrite: bool) -> None:
    if resume and overwrite:
        raise ConfigError("--resume and --overwrite exclude each other: give one of them")
    if path.exists() and not path.is_dir():
        raise ConfigError(f"out = {str(path)!r} is a file: allowed is a folder; choose another name")
    untouched = not path.exists() or _untouched(path)
    if resume and not (path / "config.json").exists() and not (path.exists() and untouched):
        raise ConfigError(f"out = {str(path)!r} holds no run to resume: drop --resume, or correct the path")
    if not (untouched or resume):
        if not holds_run(path):
            raise ConfigError(f"out = {str(path)!r} holds files, and no run: choose another folder")
        if overwrite:
            return
        raise ConfigError(
            f"out = {str(path)!r} is not empty: pass --resume to go on, --overwrite to replace (in Python "
            "resume=True, overwrite=True), or another folder"
        )


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: no name may have NUL in it
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"out = {str(path)!r} cannot be written ({why}): choose another folder") from None


class RunFolder:
    """The files of one run. Everything is written atomically; nothing is pickled."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._made: list[Path] = []
        self._lock: Lock | None = None
        self._to_clear = False  # whether it holds the run that is to be overwritten

    @classmethod
    def create(cls, path: Path) -> "RunFolder":
        """Make a folder that nobody else uses; `held` keeps others out of it.

        Raises:
            ConfigError: the folder cannot be written, or holds files.
        """
        with _writing(path):
            _require_usable(path, resume=False, overwrite=False)
            folder = cls._with_parts(path)
            folder.sweep()
        return folder

    @classmethod
    @contextmanager
    def held(cls, path: Path, *, resume: bool = False, overwrite: bool = False) -> Iterator["RunFolder"]:
        """Make or take over the folder, with nobody else in it until the end. A run to overwrite stays until `clear`.

        Raises:
            ConfigError: the folder cannot be written, or holds files that are no run's, or a run and neither flag was
                given, or there is nothing to resume, or another run holds it.
        """
        if str(path) != str(path).encode(errors="replace").decode():
            raise ConfigError(f"out = {str(path)!r} is out of range: allowed are names in UTF-8, which files need")
        with _writing(path):
            require_free(path)
            _require_usable(path, resume, overwrite)
            folder = cls._with_parts(path)
            folder._lock = Lock(path)
        try:
            with _writing(path):
                _require_usable(path, resume, overwrite)  # another run may have been faster, and be done
                folder.sweep()
                folder._to_clear = overwrite and holds_run(path)
            yield folder
        finally:
            folder._no_longer_runs()
            folder._lock.release()

    @classmethod
    def _with_parts(cls, path: Path) -> "RunFolder":
        folder = cls(path)
        folder._made = [new for part in _PARTS for new in (path / part, path, *path.parents) if not new.exists()]
        for part in _PARTS:
            (path / part).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
        return folder

    def _no_longer_runs(self) -> None:
        with suppress(OSError):  # a folder that somebody has removed
            for name in _WHILE_IT_RUNS:
                (self.path / name).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove what killed processes left of the files that they were writing."""
        for left in _half_written(self.path):
            left.unlink()

    def remove_unless_begun(self) -> None:
        """Leave nothing behind of a run that was refused before any of it was done: no file, and no folder of ours.

        A run that it was to overwrite, and has not, stays as it is.
        """
        if self._to_clear or any(f for part, files in _PARTS.items() for f in (self.path / part).glob(files)):
            return
        for name in (*_FILES, WATCHED, *_WHILE_IT_RUNS):
            (self.path / name).unlink(missing_ok=True)
        if self._lock is not None:
            self._lock.release()
        for made in sorted(set(self._made), key=lambda path: len(path.parts), reverse=True):
            with suppress(OSError):  # something else is in it by now
                made.rmdir()

    def clear(self) -> None:
        """Remove the run that is to be overwritten, once nothing more can refuse the new one."""
        if not self._to_clear:
            return
        inside = (f for part, files in _PARTS.items() for f in (self.path / part).glob(files))
        remove_tables(self.path / TABLES)
        for file in (*inside, *(self.path / name for name in _FILES)):
            file.unlink(missing_ok=True)
        self._to_clear = False

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write ``content`` as readable JSON, with a checksum."""
        atomic_write(self.path / name, checksum.sealed(content))

    def write_trajectory(self, runs: Mapping[str, xr.Dataset]) -> None:
        """Write ``trajectory.nc``, one group an arm, with a checksum and with which run it is of."""
        tree = xr.DataTree.from_dict({arm: run.drop_encoding() for arm, run in runs.items()})
        tree.attrs |= {checksum.NAME: checksum.IN_NETCDF, ARMS: [*runs], RUN: json.dumps(run_of(self.path))}
        # In memory: HDF5 may crash where a disk is full.
        data = tree.to_netcdf(engine="netcdf4", encoding={f"/{arm}": _packed(runs[arm]) for arm in runs})
        atomic_write(self.path / "trajectory.nc", checksum.with_line(bytes(data)))

    def write_claims(
        self,
        study: str,
        seed: int,
        replicas: int,
        config: Any,
        claims: Sequence[Claim],
        diverged: Mapping[str, tuple[int, int]],
    ) -> None:
        """Write ``claims.json``; of each arm in which some ``diverged``, how many, and of how many.

        Trends of the claims that were there before go first.
        """
        (self.path / "trends.json").unlink(missing_ok=True)
        content = {"study": study, "seed": seed, "replicas": replicas, "config": config, "level": LEVEL}
        content |= {"diverged": {arm: list(lost) for arm, lost in diverged.items()}}
        self.write_json("claims.json", content | {"claims": [claim.to_json() for claim in claims]})

    def write_tensors(self, name: str, tensors: Mapping[str, torch.Tensor], about: Mapping[str, Any]) -> None:
        """Write tensors and a JSON-able description to a safetensors file, with a checksum."""
        atomic_write(self.path / name, packed(tensors, about))

    def read_tensors(self, name: str) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
        """What `write_tensors` wrote; None if there is no such file, or a damaged one, which is set aside.

        Raises:
            ConfigError: the system does not let it be read.
        """
        file = self.path / name
        try:
            return unpacked(file)
        except FileNotFoundError:
            return None
        except DamagedError as error:
            self.set_aside(name, str(error))
            return None
        except OSError as error:
            raise ConfigError(
                f"{file} cannot be read ({error.strerror or error}): allow it, or move the file"
            ) from None

    def set_aside(self, name: str, why: str) -> None:
        """Rename a file that cannot be used, and say so. Nothing is lost: what was set aside before stays, too."""
        file = self.path / name
        endings = chain([".damaged"], (f".damaged.{number}" for number in count(2)))
        aside = next(path for ending in endings if not (path := file.with_name(file.name + ending)).exists())
        file.rename(aside)
        said = f"{file} {why}: it is now {aside.name}, and what it held of this run is computed again"
        print(f"featscope: {said}", file=sys.stderr, flush=True)
