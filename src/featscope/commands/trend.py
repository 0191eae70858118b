"""`featscope trend`: a study at several sizes, and what they foretell of larger ones."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from featscope.axes import find_option
from featscope.claims.family import worth
from featscope.commands.parsing import as_typed, name_and_options, typed_options
from featscope.commands.run import execute, study_options, trainer
from featscope.options import ConfigError
from featscope.runs.execute import Outcome
from featscope.runs.folder import RunFolder
from featscope.runs.lock import locked
from featscope.studies import Study
from featscope.studies.scaling import ScalingStudy, laws_of, trend_in_words
from featscope.trends import ClaimTrend

_NAME = 24  # characters of a claim and its arm that a line has at least


@dataclass(frozen=True)
class _TrendArgs:
    axis: str = ""
    """The ladder, by the option that grows; the study's first if not given."""
    sizes: tuple[float, ...] = ()
    """Sizes in place of the ladder's own: six or more, each at least twice the one before."""
    engine: Literal["local", "ray"] = "local"
    """Train on this machine, or on a Ray cluster (extra 'cluster')."""
    address: str | None = None
    """The Ray cluster to use; a new one on this machine if not given."""


def trend(words: list[str]) -> int:
    """Run a study along one of its ladders."""
    name, options = name_and_options(words, "trend", "STUDY")
    chosen, out, again = study_options("trend", name, options, ("trend", _TrendArgs))
    train = trainer(chosen.trend.engine, chosen.trend.address, chosen.telling.show)
    with chosen.telling.refusals(), as_typed(type(chosen), chosen.study):
        study = ScalingStudy(chosen.study, chosen.trend.axis, chosen.trend.sizes)
        _require_free(study, typed_options(options))
        code, _ = execute(
            study, chosen.settings, out, again, chosen.resume, chosen.overwrite, train, tell_trends, chosen.telling
        )
    return code


def _require_free(study: ScalingStudy, given: Mapping[str, str]) -> None:
    """Raise `ConfigError` if an option was typed, see `typed_options`, that the ladder sets at every size."""
    ladder = study.ladder
    for option in filter(None, (ladder.axis, *ladder.at, *ladder.pace)):
        typed = f"--{find_option(study.study, option).replace('_', '-')}"
        if typed in given:
            raise ConfigError(
                f"{typed} = {given[typed]} would be lost: the ladder over {ladder.name} sets it at every size. "
                "Leave it out"
            )


def tell_trends(study: Study, outcome: Outcome) -> None:
    """Write ``trends.json`` and print what is foretold."""
    assert isinstance(study, ScalingStudy)
    trends = study.trends(outcome.claims)
    ladder = study.ladder
    about = {"study": study.name, "axis": ladder.axis, "symbol": ladder.name, "sizes": list(ladder.sizes)}
    content = about | {"trends": [{"arm": key.partition("@")[2]} | found.to_json() for key, found in trends.items()]}
    with locked(outcome.folder):
        RunFolder(outcome.folder).write_json("trends.json", content)
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.print(_verdicts(study, trends, console.width))
    for key, found in trends.items():
        console.print(f"[bold]{escape(key)}[/bold]  {trend_in_words(found, ladder.name)} {laws_of(found)}".rstrip())
    print(study.story(outcome.runs, outcome.claims).found)
    if how_sure := worth(outcome.claims):
        print(how_sure)


def _verdicts(study: ScalingStudy, trends: Mapping[str, ClaimTrend], width: int) -> Table:
    """By their first letters where words would leave the names of claims no room."""
    style = {"holds": "green", "fails": "red", "undecided": "yellow"}
    sizes, longest = [f"{size:.12g}" for size in study.ladder.sizes], max(map(len, style))
    short = width < _NAME + 2 + sum(2 + max(longest, len(size)) for size in sizes)
    letters = " (h holds, f fails, u undecided)" if short else ""
    table = Table(title=f"{study.name}: verdicts over {study.ladder.name}{letters}", box=box.SIMPLE, padding=(0, 1))
    table.add_column("claim", overflow="fold", min_width=_NAME)
    for size in sizes:
        table.add_column(size, overflow="fold")
    for key, found in trends.items():
        said = [(claim.verdict, claim.verdict[0] if short else claim.verdict) for claim in found.claims]
        table.add_row(escape(key), *(f"[{style[verdict]}]{shown}[/]" for verdict, shown in said))
    return table
