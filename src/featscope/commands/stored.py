"""What is stored: `featscope list --runs`, and `featscope export`."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from featscope.catalogue import OWN_TRAINING
from featscope.claims import how_many_hold
from featscope.commands.parsing import parse
from featscope.options import ConfigError
from featscope.runs.environment import began
from featscope.runs.export import TABLES, Kind, export
from featscope.runs.lock import require_free
from featscope.runs.stored import read_claims, read_environment, read_plan, read_trajectory, with_texts
from featscope.runs.unfinished import is_unfinished

DEEPEST = 4
"""Folders below the one that is searched."""
_WIDE = 200  # where nobody looks, but a program reads


@dataclass(frozen=True)
class _ExportArgs:
    """Write what a run measured and judged as tables."""

    folder: tyro.conf.Positional[Path]
    """The run folder."""
    out: Path | None = None
    """Folder that receives the tables; `tables` in the run folder if not given."""
    format: Kind = "csv"
    """Kind of file; parquet needs the extra 'images'."""
    overwrite: bool = False
    """Replace tables that are there, and remove those of this format that another run left there."""


def export_run(words: list[str]) -> int:
    """Write a run as tables."""
    chosen: _ExportArgs = parse(_ExportArgs, words, "export")
    read_plan(chosen.folder)  # says so where there is no run
    require_free(chosen.folder, "FOLDER")
    out = chosen.out or chosen.folder / TABLES
    if out.resolve() != chosen.folder.resolve() and (out / "config.json").exists():
        raise ConfigError(f"--out = {str(out)!r} holds another run: choose another folder")
    runs, claims = with_texts(chosen.folder, read_trajectory(chosen.folder)), read_claims(chosen.folder)
    written = export(runs, claims, out, chosen.format, chosen.overwrite)
    print(f"{len(written)} tables: {written[0].parent}")
    return 0


def list_runs(folder: Path) -> int:
    """Print which runs are below a folder, when they began and what came of them."""
    if not folder.is_dir():
        raise ConfigError(f"--runs = {str(folder)!r} is no folder: allowed is one below which runs are, such as runs")
    found = list(runs_below(folder))
    table = Table()
    table.add_column("folder", no_wrap=True, min_width=max((cell_len(str(run)) for run in found), default=0))
    for heading in ("study", "began (UTC)", "seed", "replicas", "what came of it"):
        table.add_column(heading, overflow="fold")
    for run in found:
        table.add_row(*map(escape, _row(run)), style=None)
    if found:
        Console(width=None if sys.stdout.isatty() else _WIDE).print(table)
    else:
        print(f"No run is below {folder}, {DEEPEST} folders deep at most.")
    return 0


def runs_below(folder: Path) -> Iterator[Path]:
    """Folders with a plan, those behind links last; a run's own folders are not searched.

    Links are followed, as runs may lie on another disk; what has several names is given by one, not a link's if it can.
    """
    reached: dict[str, int] = {}  # real folder -> how deep it was found, at the least; 0 of a run
    tops = [folder]
    while tops:
        for place, below, files in os.walk(tops.pop(0)):  # into no links below
            here, real = Path(place), os.path.realpath(place)
            depth = len(here.relative_to(folder).parts)
            if reached.get(real, depth + 1) <= depth:  # by another name, or links lead in a circle
                below.clear()
                continue
            is_run = "config.json" in files
            reached[real] = 0 if is_run else depth
            if is_run:
                yield here
            if is_run or depth >= DEEPEST:
                below.clear()
            below.sort()
            tops += [here / name for name in below if (here / name).is_symlink()]


def _row(run: Path) -> list[str]:
    try:
        plan = read_plan(run)
    except ConfigError as error:
        return [str(run), "", "", "", "", f"cannot be read: {error}"]
    seed = "" if plan["study"] == OWN_TRAINING.name else str(plan["seed"])
    about = [plan["study"], "", seed, str(plan["replicas"])]
    try:
        about[1] = began(read_environment(run))
        came = how_many_hold(read_claims(run)) or "Nothing is claimed."
    except ConfigError as error:
        judged = (run / "claims.json").exists()
        came = f"cannot be read: {error}" if judged else "not judged: featscope judge and the folder"
        came = "not finished: run it again with --resume" if is_unfinished(run) else came
    return [str(run), *about, came]
