"""`featscope run`, `verify`, `report` and `check`."""

import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field, make_dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from featscope.check import check as check_study
from featscope.claims import Claim, how_many_hold, not_after_holm, worth
from featscope.claims.claim import Relation
from featscope.claims.digits import rounded_to, significant
from featscope.commands.parsing import as_typed, name_and_options, only_name, parse, program, require_free_names
from featscope.commands.telling import Telling
from featscope.options import ConfigError
from featscope.own_code import said
from featscope.registry import broken, entries, find
from featscope.report.run_report import changed_in_words, report_run
from featscope.runs import Settings, run
from featscope.runs.diverged import shortcomings
from featscope.runs.execute import Outcome, UnjudgedError, left_out
from featscope.runs.older import in_words
from featscope.runs.progress import Show
from featscope.runs.stored import read_claims, read_trajectory
from featscope.runs.twins import EqualReplicasError
from featscope.runs.unfinished import is_unfinished
from featscope.runs.workers import InterruptedRunError, Trainer, interruptible, train_all
from featscope.studies import Study
from featscope.system import refused_by_system
from featscope.training import DivergedError

_UNNAMED = tyro.conf.arg(name="")
_WIDE = 200  # where nobody looks, but a program reads
_HEADINGS = ("claim", "arm", "predicted", "measured", "verdict")
_AROUND = 16  # cells of a line beside the text of its columns


@dataclass(frozen=True)
class _VerifyArgs:
    """Run studies at their default size and print the verdicts."""

    studies: tyro.conf.Positional[tuple[str, ...]] = ()
    """Studies to run; all if none is named."""
    out: Path | None = None
    """Folder that receives one run folder a study; a new one below runs/ if not given."""
    strict: bool = False
    """Exit with 1 if a claim that is expected to hold does not."""


def run_study(words: list[str]) -> int:
    """Run a study and report."""
    name, options = name_and_options(words, "run", "STUDY")
    chosen, out, again = study_options("run", name, options)
    with chosen.telling.refusals(), as_typed(type(chosen), chosen.study):
        for id, arm in _misnamed(chosen.study, find(name)[1]):
            why = f"the claim {id!r} names the arm {arm!r}, which the study does not have, and is not judged there"
            print(f"featscope: {why}. `featscope check {name}` says what is meant.", file=sys.stderr)
        code, _ = execute(
            chosen.study, chosen.settings, out, again, chosen.resume, chosen.overwrite, telling=chosen.telling
        )
    return code


def trainer(engine: str, address: str | None, show: Show = "bar") -> Trainer | None:
    """What trains shards on ``engine``, "local" or "ray", and tells progress as ``show`` says; None is this machine."""
    if address is not None and engine != "ray":
        raise ConfigError(f"--address = {address!r} needs --engine ray")
    if engine != "ray":
        return None
    from featscope.runs.cluster import on_cluster

    return on_cluster(address, show)


def study_options(
    command: str, name: str, options: list[str], *more: tuple[str, type]
) -> "tuple[Any, Path, list[str]]":
    """What the options of a run or sweep say, its folder, and the words that resume it."""
    entry, kind = find(name)
    own = _own_options(*more)
    require_free_names(kind, command, make_dataclass("Own", own))
    arguments = make_dataclass("Args", [*own, ("study", Annotated[kind, _UNNAMED], field(default_factory=kind))])
    arguments.__doc__ = f"""{entry.summary} ({entry.source})

    Attributes:
        out: run folder; a new one below runs/ if not given.
        resume: go on with the run in --out.
        overwrite: replace the run in --out, which stays until every arm could take a step.
    """
    chosen: Any = parse(arguments, options, f"{command} {name}")
    if chosen.out is None and chosen.resume:
        raise ConfigError(
            "--resume needs --out, the folder of the run: `featscope list --runs runs` lists those below runs"
        )
    out = chosen.out or Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    typed = [word for word in options if not re.fullmatch("--(no-)?(resume|overwrite)", word)]
    where = (
        [] if chosen.out else ["--out", str(out)]
    )  # first: behind a part of another kind its options alone may stand
    return chosen, out, [command, name, *where, *typed]


def _own_options(*more: tuple[str, type]) -> list[Any]:
    """Fields of what a command takes for every study."""
    return [
        ("out", Path | None, field(default=None)),
        ("resume", bool, field(default=False)),
        ("overwrite", bool, field(default=False)),
        ("telling", Annotated[Telling, _UNNAMED], field(default_factory=Telling)),
        ("settings", Annotated[Settings, _UNNAMED], field(default_factory=Settings)),
        *((part, Annotated[its_kind, _UNNAMED], field(default_factory=its_kind)) for part, its_kind in more),
    ]


def execute(
    study: Study,
    settings: Settings,
    out: Path,
    again: Sequence[str],
    resume: bool = False,
    overwrite: bool = False,
    train: Trainer | None = None,
    tell: Callable[[Study, Outcome], None] | None = None,
    telling: Telling = Telling(),  # noqa: B008, it is frozen
    then: Callable[[Study, Outcome], Study | None] | None = None,
) -> tuple[int, list[Claim]]:
    """Run, report, print; the exit code and the claims. ``again`` are the words that resume the run; ``tell`` prints
    what was found in place of the verdicts; ``then`` gives what the run has grown to, as long as it grows."""
    to_replace, arms = _written(out) if overwrite else None, [arm.name for arm in study.arms()]
    try:
        telling.event("began", study=study.name, out=str(out), arms=arms)
        with interruptible(), telling.watched(out):
            outcome = run(study, settings, out, resume=resume, overwrite=overwrite, train=_telling(train, telling))
            while then is not None and (larger := then(study, outcome)) is not None:
                telling.event("grew", arms=[arm.name for arm in larger.arms()])
                study, outcome = larger, run(larger, settings, out, resume=True, train=_telling(train, telling))
            page = report_run(out)
    except DivergedError as error:
        there = not _stands(out, to_replace) and any((out / "checkpoint").glob("*.safetensors"))
        saved = f" What was saved before is in {out / 'checkpoint'}." if there else ""
        cure = f" Give it other options, such as a smaller learning rate (featscope show {study.name} lists them)."
        return _failed(telling, 3, f"training diverged: {error}.{saved}{cure}")
    except EqualReplicasError as error:
        return _failed(telling, 3, f"{error}. Intervals over such replicas mean nothing; no claim was judged.")
    except UnjudgedError as error:
        return _failed(telling, 2, how_to_judge(error, out))
    except (InterruptedRunError, KeyboardInterrupt) as stopped:
        kept, command = _to_go_on(out, to_replace, again)
        why = f" ({stopped})" if str(stopped) else ""
        with suppress(BrokenPipeError):  # Ctrl-C ends the reader, too
            telling.event("interrupted", code=130, resume=command)
        print(f"interrupted{why}; {kept or 'what was done is saved'}. Go on with:\n  {command}", file=sys.stderr)
        return 130, []
    except Exception as error:
        if not (why := refused_by_system(error)):
            raise
        kept, command = _to_go_on(out, to_replace, again)
        return _failed(
            telling, 4, f"{why} {(kept or 'what was saved before is kept').capitalize()}. Go on with:\n  {command}"
        )
    diverged, dropped = shortcomings(outcome.runs), left_out(outcome.runs)
    if telling.json:
        if tell is not None:
            with redirect_stdout(sys.stderr):
                tell(study, outcome)
        telling.claims(outcome.claims)
        found = _found(study, outcome)
        told = {"diverged": diverged, "mixed": outcome.mixed, "newer": dict(outcome.newer)}
        telling.event("finished", code=0, found=found, **told, report=str(page))
        return 0, outcome.claims
    if tell is not None:
        tell(study, outcome)
    elif outcome.claims:
        at_defaults = not changed_in_words(study)
        print_verdicts(study.name, outcome.claims, at_defaults=at_defaults)
        held = how_many_hold(outcome.claims)
        if (found := _found(study, outcome)) != held:
            print(found)
        elsewhere = "" if at_defaults else "That was expected at default options, which these are not."
        print(*filter(None, (held, elsewhere, worth(outcome.claims))))
    else:
        print(_found(study, outcome))
    for more in filter(None, (diverged, dropped, outcome.mixed, in_words(outcome.newer, outcome.runs))):
        print(more)
    telling.say(f"report: {page}")
    return 0, outcome.claims


def _to_go_on(out: Path, to_replace: tuple[int, int] | None, again: Sequence[str]) -> tuple[str, str]:
    """That nothing was begun, where that is so, and the command that goes on or begins again."""
    stands, there = _stands(out, to_replace), out.exists()
    which = ["--overwrite"] if stands else ["--resume"] if there else []
    command = shlex.join([program(), *again[:2], *which, *again[2:]])  # before parts of another kind
    kept = "nothing was begun, and the run that was to be replaced is as it was" if stands else ""
    return kept or ("" if there else "nothing was begun"), command


def _stands(out: Path, to_replace: tuple[int, int] | None) -> bool:
    return to_replace is not None and _written(out) == to_replace


def _written(out: Path) -> tuple[int, int] | None:
    """Which file the plan of a run is, and when it was written; None where there is none."""
    try:
        about = (out / "config.json").stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns


def _found(study: Study, outcome: Outcome) -> str:
    """What was found, in a sentence; or why the study cannot say it, when all is measured and written."""
    try:
        return study.story(outcome.runs, outcome.claims).found
    except Exception as error:
        return f"What was found cannot be told: {said(error, outcome.runs)}."


def _telling(train: Trainer | None, telling: Telling) -> Trainer:
    return train or partial(train_all, show=telling.show)


def _failed(telling: Telling, code: int, why: str) -> tuple[int, list[Claim]]:
    with suppress(BrokenPipeError):  # which may be why
        telling.event("failed", code=code, why=why)
    with suppress(BrokenPipeError):
        print(f"featscope: {why}", file=sys.stderr)
    return code, []


def how_to_judge(error: UnjudgedError, out: Path) -> str:
    """What is wrong with a claim whose own code raised, and the command that judges once it is mended."""
    cause = error.__cause__
    assert isinstance(cause, Exception)
    where = " ".join(getattr(cause, "__notes__", []))
    dropped = ""
    with suppress(ConfigError):
        dropped = left_out(read_trajectory(out))
    kept = f"All else that was measured is kept. {dropped}" if dropped else "What was measured is kept."
    return (
        f"{said(cause)} {where}. {kept} Mend the claim, then judge without training:\n"
        f"  {shlex.join([program(), 'judge', str(out)])}"
    )


def told_apart(predicted: float, measured: float, relation: Relation, tolerance: float = 0.0) -> tuple[str, str]:
    """What was wanted and what was measured, to three digits or as many as it takes to read as the verdict says."""
    accepted = tolerance if relation == "=" else None
    digits, of_tolerance = significant(predicted, [measured], accepted)
    room = "" if accepted is None else f" ± {accepted:.{of_tolerance}g}"
    return f"{relation} {rounded_to(predicted, digits)}{room}", rounded_to(measured, digits)


def print_verdicts(name: str, claims: Sequence[Claim], at_defaults: bool = True) -> None:
    """The table of verdicts; a line for each where names would not fit beside each other. What goes against expectation
    is marked at default options, for which alone it is one."""
    style = {"holds": "green", "fails": "red", "undecided": "yellow"}
    lost, rows = not_after_holm(claims), []
    for claim in claims:
        surprise = claim.verdict != "undecided" and (claim.verdict == "holds") != claim.expected
        against = "  [bold](unexpected)[/bold]" if surprise and at_defaults else ""
        against = "  (not expected to hold)" if not (claim.expected or claim.verdict == "holds") else against
        against += "  (not after Holm)" if claim in lost else ""
        wanted, measured = told_apart(claim.predicted, claim.measured, claim.relation, claim.tolerance)
        verdict = f"[{style[claim.verdict]}]{claim.verdict}[/]"
        rows.append((escape(claim.id), escape(claim.arm), wanted, measured, verdict, against))
    title = f"{name}: verdicts (intervals and notes are in the report)"
    console = Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False)
    longest = [max(map(len, (heading, *(row[place] for row in rows)))) for place, heading in enumerate(_HEADINGS[:-1])]
    if console.width < sum(longest) + len("undecided") + _AROUND:
        console.print(title)
        for id, arm, wanted, measured, verdict, against in rows:
            console.print(Padding(f"{verdict}: {id} on {arm}, {measured} (wanted {wanted}){against}", (0, 0, 0, 2)))
        return
    table = Table(title=title, box=box.SIMPLE, padding=(0, 1))
    for heading in _HEADINGS:
        table.add_column(heading, no_wrap=heading != _HEADINGS[-1], overflow="fold", min_width=9)
    for *row, verdict, against in rows:
        table.add_row(*row, f"{verdict}{against}")
    console.print(table)


def report(words: list[str]) -> int:
    """Draw the report of a finished run anew."""
    directory = only_name(words, "report", "DIR")
    unfinished = is_unfinished(Path(directory))
    print(f"report: {report_run(Path(directory))}")
    if unfinished:
        print("The run is unfinished: the page shows what is there so far.")
    return 0


def check(words: list[str]) -> int:
    """A step of every arm of a study at its smallest size, then all claims and figures."""
    name = only_name(words, "check", "STUDY")
    _, kind = find(name)
    require_free_names(kind, "run", make_dataclass("Own", _own_options()))
    try:
        list(kind().smallest().arms())
    except ConfigError:
        raise
    except Exception as error:  # whatever the study's own code raises
        raise ConfigError(f"{name} cannot be built: {said(error)}") from error
    found = check_study(kind())
    if found.problems:
        lines = [f"{name} has {len(found.problems)} problem{'s' if len(found.problems) > 1 else ''}:"]
        raise ConfigError("\n".join([*lines, *(f"  {problem}" for problem in found.problems)]))
    print(
        f"{name}: {found.arms} arms took a step, {found.claims} claims and {found.figures} figures are sound "
        f"({found.seconds:.1f} s)"
    )
    return 0


def _misnamed(study: Study, kind: type[Study]) -> list[tuple[str, str]]:
    """Claims about an arm that is there neither with the options of ``study`` nor by default."""
    try:
        by_default = {(id, arm) for id, arm, _ in _nowhere(kind())}
    except ConfigError:  # it needs some option
        return []
    return [(id, arm) for id, arm, _ in _nowhere(study) if (id, arm) in by_default]


def _nowhere(study: Study) -> list[tuple[str, str, bool]]:
    """Claims about an arm that is not there, where nothing would judge them, and whether they are to hold there."""
    arms = {arm.name for arm in study.arms()}
    return [
        (test.statement.id, arm, expected)
        for test in study.tests
        for arm, (expected, _) in test.arms(study).items()
        if test.of_runs and arm not in arms
    ]


def verify(words: list[str]) -> int:
    """Run studies at their default size, print the verdicts, and say which were expected otherwise."""
    chosen: _VerifyArgs = parse(_VerifyArgs, words, "verify")
    names = chosen.studies or tuple(entries())
    if not chosen.studies:
        for name, why in broken().items():
            print(f"featscope: {name} is left out, {why}", file=sys.stderr)
    kinds = {name: find(name)[1] for name in names}  # all names are checked before anything runs
    out = chosen.out or Path("runs") / f"verify-{datetime.now():%Y%m%d-%H%M%S}"
    nowhere = [(name, *claim) for name in names for claim in _nowhere(kinds[name]())]
    missed = [f"{name}/{id} ({arm}: no such arm)" for name, id, arm, expected in nowhere if expected]
    for name in names:
        there = os.path.exists(out / name / "config.json")  # of one that was interrupted; False of an impossible name
        again = ["run", name, "--out", str(out / name)]
        with as_typed(_VerifyArgs):
            code, _ = execute(kinds[name](), Settings(), out / name, again, resume=there)
        if code:
            return code
        claims = read_claims(out / name)  # what is told is what was kept
        missed += [
            f"{name}/{claim.id} ({claim.arm})" for claim in claims if claim.expected and claim.verdict != "holds"
        ]
    if missed:
        print("expected but not holding: " + ", ".join(missed))
    return 1 if chosen.strict and missed else 0
