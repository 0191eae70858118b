"""`featscope judge`: a stored run by what its study claims now, or published means by their errors."""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import get_args

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from featscope.claims import Claim, ErrorKind, Row, false_expected, how_many_hold, not_after_holm, read_table, worth
from featscope.claims.digits import significant
from featscope.commands.parsing import name_and_options, parse
from featscope.options import ConfigError, require

_DIGITS = 4


@dataclass(frozen=True)
class _JudgeArgs:
    """Judge published means by their errors. The table's columns are explained in docs/published.md."""

    json: bool = False
    """Print JSON."""
    n: int | None = None
    """Judge as if every mean were over so many runs, whatever the table says."""
    error_is: ErrorKind | None = None
    """Judge as if every error were of this kind, whatever the table says."""

    def __post_init__(self) -> None:
        require(self, "n", self.n is None or self.n >= 2, ">= 2")


@dataclass(frozen=True)
class _AgainArgs:
    """Judge a stored run by what its study claims now. Nothing is trained."""

    study: str = ""
    """MODULE:CLASS of the study, where no package registers it."""


def judge(words: list[str]) -> int:
    """Judge a run folder again; or print the verdict on each line of a table, and what they are worth together."""
    kinds = f"with KIND: one of {', '.join(get_args(ErrorKind))}"
    of_table = f"featscope judge TABLE.csv [--n N] [--error-is KIND] [--json], {kinds}"
    usage = f" [--study MODULE:CLASS], or {of_table}"
    path, options = name_and_options(words, "judge", "DIR", usage)
    if Path(path).is_dir():
        again: _AgainArgs = parse(_AgainArgs, options, "judge DIR")
        return _run(Path(path), again.study)
    chosen: _JudgeArgs = parse(_JudgeArgs, options, "judge TABLE.csv")
    rows = [row.read_as(chosen.n, chosen.error_is) for row in read_table(Path(path))]
    claims = [row.claim for row in rows]
    lost = not_after_holm(claims)
    if chosen.json:
        print(json.dumps(_plain(rows, claims, lost), indent=2, allow_nan=False))
        return 0
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.print(_table(path, rows, claims, lost))
    for line in (*_counts(claims), worth(claims)):
        print(line)
    if lost:
        print("* Not after Holm's correction: " + "; ".join(map(_words, lost)) + ".")
    return 0


def _run(directory: Path, named: str) -> int:
    """Judge a run folder again, and say what is otherwise than before; all verdicts where it was not judged before."""
    from featscope.commands import run  # with torch, which tables do not need
    from featscope.commands.again import stored_study
    from featscope.commands.sweep import tell_points
    from featscope.commands.trend import tell_trends
    from featscope.report.run_report import changed_in_words, report_run
    from featscope.runs.execute import UnjudgedError
    from featscope.runs.export import TABLES
    from featscope.runs.judging import judge_again
    from featscope.runs.older import in_words
    from featscope.runs.plain import unsaid
    from featscope.runs.stored import read_plan
    from featscope.studies.judged_sweep import JudgedSweep
    from featscope.studies.scaling import ScalingStudy

    plan = read_plan(directory)
    study = stored_study(plan, named)
    if defaults := unsaid(plan["config"]):
        print(f"Judged with {', '.join(defaults)}, of which the run does not say what it was.")
    try:
        outcome, changed = judge_again(directory, study)
    except UnjudgedError as error:
        raise ConfigError(run.how_to_judge(error, directory)) from None
    page = report_run(directory, study if named else None)  # before anything is said: `| head` ends what follows
    if isinstance(study, ScalingStudy):
        tell_trends(study, outcome)
    elif isinstance(study, JudgedSweep):
        tell_points(study, outcome)
    elif changed is None and outcome.claims:
        run.print_verdicts(plan["study"], outcome.claims, at_defaults=not changed_in_words(study))
        print(how_many_hold(outcome.claims), worth(outcome.claims))
    elif outcome.claims:
        print(how_many_hold(outcome.claims), worth(outcome.claims))
    if changed:
        print("Otherwise than before:", *changed, sep="\n  ")
        if (directory / TABLES).is_dir():
            anew = f"featscope export {quote(str(directory))} --overwrite"
            print(f"Tables in {directory / TABLES} say what was judged before. To write them anew:\n  {anew}")
    elif changed is not None:
        print("All as before.")
    if left_out := in_words(outcome.newer, outcome.runs):
        print(left_out)
    print(f"report: {page}")
    return 0


def _words(claim: Claim) -> str:
    return f"{claim.statement}, {claim.arm}" if claim.arm else claim.statement


def _counts(claims: Sequence[Claim]) -> list[str]:
    found = Counter(claim.verdict for claim in claims)
    why = Counter(claim.undecided_because for claim in claims if claim.verdict == "undecided")
    counts = f"{found['holds']} hold, {found['fails']} fail, {found['undecided']} are undecided"
    said = [f"Of {len(claims)} claims {counts}."]
    sources = dict.fromkeys(claim.source for claim in claims)
    if len(sources) > 1:
        held = Counter(claim.source for claim in claims if claim.verdict == "holds")
        of = Counter(claim.source for claim in claims)
        said.append("That hold: " + "; ".join(f"{source}, {held[source]} of {of[source]}" for source in sources) + ".")
    return [*said, *(f"Undecided, {count}: {reason}" for reason, count in why.items())]


def _table(path: str, rows: Sequence[Row], claims: Sequence[Claim], lost: Sequence[Claim]) -> Table:
    style = {"holds": "green", "fails": "red", "undecided": "yellow"}
    table = Table(
        title=f"{escape(path)}: verdicts", box=box.SIMPLE, padding=(0, 1), collapse_padding=True, pad_edge=False
    )
    table.add_column("statement", overflow="fold")
    table.add_column("arm", overflow="fold")
    for heading in ("measured", "99 % interval", "wanted"):
        table.add_column(heading, no_wrap=True, justify="right")
    table.add_column("verdict", overflow="fold")
    table.add_column("runs\nneeded", justify="right")
    table.add_column("id", overflow="fold")
    for row, claim in zip(rows, claims, strict=True):
        low, high = claim.interval
        needed = row.runs_needed if claim.verdict == "undecided" else None
        digits, _ = significant(claim.predicted, (low, claim.measured, high), None, _DIGITS)
        table.add_row(
            escape(claim.statement),
            escape(claim.arm),
            f"{claim.measured:.{digits}g}",
            f"{low:.{digits}g} to {high:.{digits}g}" if claim.n else "",
            f"{claim.relation} {claim.predicted:.{digits}g}",
            f"[{style[claim.verdict]}]{claim.verdict}[/]" + (" *" if claim in lost else ""),
            "" if needed is None else f"{needed}",
            escape(claim.id),
        )
    return table


def _plain(rows: Sequence[Row], claims: Sequence[Claim], lost: Sequence[Claim]) -> dict[str, object]:
    judged = [
        claim.to_json()
        | {
            "undecided_because": claim.undecided_because,
            "p_value": claim.p_value,
            "after_holm": claim.verdict != "undecided" and claim not in lost,
            "runs_needed": row.runs_needed,
        }
        for row, claim in zip(rows, claims, strict=True)
    ]
    together = {"false_expected": false_expected(claims), "not_after_holm": len(lost), "worth": worth(claims)}
    return {"claims": judged, **together}
