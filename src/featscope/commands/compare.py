"""`featscope compare`: runs of one study beside each other."""

import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import tyro
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from featscope.commands.parsing import parse
from featscope.options import ConfigError
from featscope.report.comparison import headline, known_alone, set_otherwise, write_comparison
from featscope.report.numbers import decimals_for, number
from featscope.runs.compared import Pair, after_holm, pairs, read_runs, shift


@dataclass(frozen=True)
class _CompareArgs:
    """Lay runs of one study beside each other: options, versions, claims with their differences, curves."""

    folders: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Run folders; the others are compared with the first."""
    out: Path | None = None
    """Folder that receives the page; a new one below runs/ if not given."""
    overwrite: bool = False
    """Replace a page that is there."""


def compare(words: list[str]) -> int:
    """Print what differs, and write the page."""
    chosen: _CompareArgs = parse(_CompareArgs, words, "compare")
    runs = read_runs(chosen.folders)
    out = chosen.out or Path("runs") / f"compare-{datetime.now():%Y%m%d-%H%M%S}"
    if (out / "config.json").exists():
        raise ConfigError(f"--out = {str(out)!r} holds a run, whose page would be lost: choose another folder")
    if (out / "report.html").exists() and not chosen.overwrite:
        raise ConfigError(f"--out = {str(out)!r} holds a page: replace it by --overwrite, or choose another folder")
    try:
        page = write_comparison(runs, out)
    except OSError as error:
        raise ConfigError(f"--out = {str(out)!r} cannot be written ({error.strerror}): choose another folder") from None
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    for title, rows in set_otherwise(runs):
        if rows:
            table = Table(title=f"{title} that differ", box=box.SIMPLE, padding=(0, 1))
            for heading in ("", *(run.name for run in runs)):
                table.add_column(escape(heading), overflow="fold")
            for name, values in rows.items():
                table.add_row(*map(escape, (name, *values)))
            console.print(table)
        else:
            console.print(f"All {title} are the same.")
    if said := known_alone(runs):
        console.print(said)
    first, *others = runs
    found = {other.name: pairs(first, other) for other in others}
    for other in others:
        told = {
            key: pair for key, pair in found[other.name].items() if pair.changed or pair.apart or pair.asked_otherwise
        }
        if told:
            console.print(_claims(first.name, other.name, told, after_holm(found[other.name])))
    print(headline(runs, found))
    print(f"page: {page}")
    return 0


def _claims(first: str, other: str, found: dict[str, Pair], sure: set[str]) -> Table:
    table = Table(title=f"{other} beside {first}: claims that may differ", box=box.SIMPLE, padding=(0, 1))
    for heading in ("claim", "arm", first, other, "difference, 99 % interval", ""):
        table.add_column(escape(heading), overflow="fold")
    for key, pair in found.items():
        values = [f"{number(one.measured)} {one.verdict}" for one in (pair.one, pair.other)]
        difference = number(shift(pair))
        if pair.difference is not None:
            low, high = pair.difference.interval
            decimals = decimals_for(low, high)
            difference += f" ({number(low, decimals)} to {number(high, decimals)})"
        said = "[bold]another verdict[/bold]" if pair.changed else "differs" if key in sure else ""
        said = said or ("perhaps by chance" if pair.apart else "")
        said = ", ".join(filter(None, (said, "another bound" if pair.asked_otherwise else "")))
        table.add_row(*map(escape, (*key.split("@", 1), *values, difference)), said)
    return table
