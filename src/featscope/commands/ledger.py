"""`featscope ledger`: every statement of every paper, and what runs say of it, as a site of plain files."""

import sys
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

import tyro

from featscope.commands.parsing import parse
from featscope.commands.stored import runs_below
from featscope.options import ConfigError
from featscope.registry import entries
from featscope.report.ledger import is_ledger, write_ledger
from featscope.report.ledger_runs import named, read_run


@dataclass(frozen=True)
class _LedgerArgs:
    """Make a site out of runs: every statement of every paper, its verdicts, and an errata page."""

    folder: tyro.conf.Positional[Path]
    """A folder below which runs are."""
    out: Path | None = None
    """Folder that receives the site; `ledger` in FOLDER if not given."""
    overwrite: bool = False
    """Replace a ledger that is there."""


def ledger(words: list[str]) -> int:
    """Write the site."""
    chosen: _LedgerArgs = parse(_LedgerArgs, words, "ledger")
    folder = chosen.folder
    if not _is_folder(folder):
        raise ConfigError(f"FOLDER = {str(folder)!r} is no folder: allowed is one below which runs are, such as runs")
    out = chosen.out or folder / "ledger"
    _require_usable(out, chosen.overwrite)
    runs = []
    for place, name in named(list(runs_below(folder)), folder):
        print(place, file=sys.stderr)
        runs.append(read_run(place, name))
    again = f"featscope ledger {quote(str(folder))} --out {quote(str(out))} --overwrite"
    try:
        page = write_ledger(out, list(entries().values()), runs, again)
    except OSError as error:
        raise ConfigError(f"--out = {str(out)!r} cannot be written ({error.strerror}): choose another folder") from None
    for run in runs:
        if run.damaged:
            print(f"{run.folder} cannot be read: {run.damaged}")
    print(f"{len(runs)} run{'s' if len(runs) != 1 else ''}. page: {page}")
    return 0


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # as of a name that is too long
        return False


def _require_usable(out: Path, overwrite: bool) -> None:
    """Make the folder, or refuse it where something would be lost, before anything is read."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        there = sorted(file.name for file in out.iterdir())
    except (OSError, ValueError) as error:  # ValueError: no name may have NUL in it
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"--out = {str(out)!r} cannot be written ({why}): choose another folder") from None
    if "config.json" in there:
        raise ConfigError(f"--out = {str(out)!r} holds a run: choose another folder")
    if there and not is_ledger(out):
        raise ConfigError(
            f"--out = {str(out)!r} holds {there[0]!r}, which is no part of a ledger: allowed is a new or empty folder, "
            "or one with a ledger. Choose another."
        )
    if there and not overwrite:
        raise ConfigError(
            f"--out = {str(out)!r} holds a ledger already: replace it by --overwrite, or choose another folder"
        )
