"""The command line: `featscope list | show | run | sweep | report | verify | generate`."""

import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, is_dataclass, make_dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

import tyro

from featscope.options import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from featscope.claims import Claim
    from featscope.runs.execute import Settings
    from featscope.runs.workers import Trainer
    from featscope.studies.base import Study

USAGE = """\
FeatScope, a microscope for feature learning.

  featscope list [--json]          the studies: name, source, one line, minutes on 2 cores
  featscope show STUDY             what it claims, with sources, and its options with defaults
  featscope run STUDY [options]    run it; the report is DIR/report.html  (options: featscope run STUDY --help)
  featscope sweep STUDY --axis NAME=SPEC ...   run its first arm over options, SPEC = 0.1:1.0:10 or 0.01,0.03
  featscope report DIR             rebuild the report from what is stored, without training
  featscope verify [STUDY ...]     run studies at their default size and print the table of verdicts
  featscope generate --prompt FILE --model MODEL --layer L --keep K   answer a long prompt from a few of its tokens

Where an option is of several kinds (featscope show STUDY names them), OPTION:KIND takes another one. It comes
last, before its own options: featscope run decoupling --seed 1 optimizer:torch-optimizer --optimizer.lr 0.01

Exit codes: 0 done, 2 wrong usage, 3 training diverged, 130 interrupted (resumable);
1 with 'verify --strict' when an expected claim does not hold.
"""


@dataclass(frozen=True)
class _ListArgs:
    """The studies that are installed."""

    json: bool = False
    """Print JSON."""


@dataclass(frozen=True)
class _VerifyArgs:
    """Run studies at their default size and print the verdicts."""

    studies: tyro.conf.Positional[tuple[str, ...]] = ()
    """Studies to run; all if none is named."""
    out: Path | None = None
    """Folder that receives one run folder a study; a new one below runs/ if not given."""
    strict: bool = False
    """Exit with 1 if a claim that is expected to hold does not."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the command `featscope`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    commands: dict[str, Callable[[list[str]], int]] = {
        "list": _list,
        "show": _show,
        "run": _run,
        "sweep": _sweep,
        "report": _report,
        "verify": _verify,
        "generate": _generate,
    }
    if not words or words[0] in ("-h", "--help"):
        print(USAGE, end="")
        sys.exit(0 if words else 2)
    if words[0] == "--version":
        from featscope import __version__

        print(__version__)
        sys.exit(0)
    if words[0] not in commands:
        _fail(f"{words[0]!r} is no command: allowed is {', '.join(commands)}")
    try:
        sys.exit(commands[words[0]](words[1:]))
    except (ConfigError, MissingExtraError) as error:
        _fail(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)


def _fail(message: str) -> None:
    print(f"featscope: {message}", file=sys.stderr)
    sys.exit(2)


def _parse(kind: Any, words: list[str], program: str) -> Any:
    """Options by tyro. A word such as ``optimizer:torch-optimizer`` takes another kind of part; it and its options
    come last."""
    another_kind = any(re.fullmatch(r"[a-z-]+:[a-z-]+", word) for word in words)
    marker = tyro.conf.ConsolidateSubcommandArgs if another_kind else tyro.conf.AvoidSubcommands
    return tyro.cli(kind, prog=f"featscope {program}", args=words, config=(marker,))


def _name_and_options(words: list[str], command: str, what: str) -> tuple[str, list[str]]:
    if not words or words[0].startswith("-"):
        from featscope.registry import entries

        known = f": one of {', '.join(entries())}" if what == "STUDY" else ""
        message = f"usage: featscope {command} {what} [options], with {what}{known}"
        if words and words[0] in ("-h", "--help"):
            print(message)
            sys.exit(0)
        raise ConfigError(message)
    return words[0], words[1:]


def _list(words: list[str]) -> int:
    import json
    from dataclasses import asdict

    from featscope.registry import entries

    wanted = _parse(_ListArgs, words, "list")
    if wanted.json:
        print(json.dumps([asdict(entry) for entry in entries().values()], indent=2))
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table("study", "source", "what it shows", "minutes")
    for entry in entries().values():
        table.add_row(entry.name, entry.source, entry.summary, f"{entry.minutes:g}")
    Console().print(table)
    return 0


def _show(words: list[str]) -> int:
    from rich.console import Console

    from featscope.registry import find
    from featscope.runs.plain import to_plain

    name, rest = _name_and_options(words, "show", "STUDY")
    if rest:
        raise ConfigError(f"show takes one study; {rest[0]!r} is too much")
    _prefer_sleeping_threads()
    entry, kind = find(name)
    console = Console(highlight=False)
    console.print(f"[bold]{entry.name}[/bold]  {entry.summary}\n{entry.source}\n")
    for statement in kind.statements():
        expected = "" if statement.expected else "  [italic](not expected to hold at this size)[/italic]"
        console.print(f"[bold]{statement.id}[/bold]  {statement.source}{expected}")
        console.print(f"  {statement.text}", markup=False)
        if statement.note:
            console.print(f"  Note: {statement.note}", markup=False, style="dim")
    console.print("\n[bold]options[/bold]")
    options, kinds = to_plain(kind()), {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if tyro.conf.Suppress in getattr(hint, "__metadata__", ()):  # set by the study's own arms
            del options[name]
        elif any(is_dataclass(one) for one in get_args(hint)):
            kinds[name] = [f"{name}:{_kind_word(one)}" for one in get_args(hint)]
    _print_config(console, options, "--")
    if kinds:
        console.print("\n[bold]other kinds[/bold], named last on the line, before their own options")
        for words_of in kinds.values():
            console.print(f"  {', '.join(words_of)}", markup=False)
    return 0


def _kind_word(kind: type) -> str:
    """How tyro spells a class on the command line."""
    return "none" if kind is type(None) else re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind.__name__).lower()


def _print_config(console: Any, plain: dict[str, Any], prefix: str) -> None:
    for key, value in plain.items():
        option = prefix + key.replace("_", "-")
        if isinstance(value, dict):
            console.print(f"  {option}: {value['type'].rpartition(':')[2]}", markup=False)
            _print_config(console, value, f"{option}.")
        elif key != "type":
            console.print(f"  {option} = {value}", markup=False)


@dataclass(frozen=True)
class _SweepArgs:
    axis: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """NAME=SPEC, once for each option that varies. SPEC is first:last:count or values with commas between."""
    engine: Literal["local", "ray"] = "local"
    """Train on this machine, or on a Ray cluster (extra 'cluster')."""
    address: str | None = None
    """The Ray cluster to use; a new one on this machine if not given."""


def _run(words: list[str]) -> int:
    name, options = _name_and_options(words, "run", "STUDY")
    chosen, out, again = _study_options("run", name, options)
    code, _ = _execute(chosen.study, chosen.settings, out, again, chosen.resume, chosen.overwrite)
    return code


def _sweep(words: list[str]) -> int:
    name, options = _name_and_options(words, "sweep", "STUDY")
    chosen, out, again = _study_options("sweep", name, options, ("sweep", _SweepArgs))
    from featscope.studies.axes import Axis, find_option
    from featscope.studies.sweep import Sweep

    axes = []
    for axis in chosen.sweep.axis:
        option, _, spec = axis.partition("=")
        axes.append(Axis(find_option(chosen.study, option), _axis_values(axis, spec)))
    cluster = chosen.sweep.engine == "ray"
    if chosen.sweep.address is not None and not cluster:
        raise ConfigError(f"--address = {chosen.sweep.address!r} needs --engine ray")
    study = Sweep(chosen.study, tuple(axes))
    train: Trainer | None = None
    if cluster:
        from featscope.runs.cluster import on_cluster

        train = on_cluster(chosen.sweep.address)
    code, _ = _execute(study, chosen.settings, out, again, chosen.resume, chosen.overwrite, train)
    return code


def _axis_values(axis: str, spec: str) -> tuple[float, ...]:
    """The values that ``spec`` stands for, rounded to 12 digits."""
    try:
        if ":" not in spec:
            return tuple(float(word) for word in spec.split(","))
        first, last, count = spec.split(":")
        ends, n = (float(first), float(last)), int(count)
        if n < 2:
            raise ValueError(spec)
        return tuple(float(f"{ends[0] + (ends[1] - ends[0]) * i / (n - 1):.12g}") for i in range(n))
    except ValueError:
        raise ConfigError(
            f"--axis {axis!r} cannot be read: allowed is NAME=first:last:count with count >= 2, or NAME=value,value,..."
        ) from None


def _study_options(
    command: str, name: str, options: list[str], *more: tuple[str, type]
) -> "tuple[Any, Path, list[str]]":
    """What the options of a run or sweep say, its folder, and the words that resume it."""
    _prefer_sleeping_threads()
    from featscope.registry import find
    from featscope.runs.execute import Settings

    entry, kind = find(name)
    unnamed = tyro.conf.arg(name="")
    fields: list[Any] = [
        ("out", Path | None, field(default=None)),
        ("resume", bool, field(default=False)),
        ("overwrite", bool, field(default=False)),
        ("settings", Annotated[Settings, unnamed], field(default_factory=Settings)),
        *((part, Annotated[its_kind, unnamed], field(default_factory=its_kind)) for part, its_kind in more),
        ("study", Annotated[kind, unnamed], field(default_factory=kind)),
    ]
    arguments = make_dataclass("Args", fields)
    arguments.__doc__ = f"""{entry.summary} ({entry.source})

    Attributes:
        out: run folder; a new one below runs/ if not given.
        resume: go on with the run in --out.
        overwrite: replace the run in --out.
    """
    chosen: Any = _parse(arguments, options, f"{command} {name}")
    out = chosen.out or Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    again = [command, name, *(word for word in options if word not in ("--resume", "--overwrite"))]
    return chosen, out, again + ([] if chosen.out else ["--out", str(out)])


def _execute(
    study: "Study",
    settings: "Settings",
    out: Path,
    again: "Sequence[str]",
    resume: bool = False,
    overwrite: bool = False,
    train: "Trainer | None" = None,
) -> "tuple[int, list[Claim]]":
    """Run, report, print; the exit code and the claims. ``again`` are the words that resume the run."""
    from featscope.report.run_report import report_run
    from featscope.runs.execute import run
    from featscope.runs.workers import InterruptedRunError, train_all
    from featscope.training import DivergedError

    try:
        outcome = run(study, settings, out, resume=resume, overwrite=overwrite, train=train or train_all)
        page = report_run(out)
    except DivergedError as error:
        print(
            f"featscope: training diverged: {error}. What was saved before is in {out / 'checkpoint'}.",
            file=sys.stderr,
        )
        return 3, []
    except (InterruptedRunError, KeyboardInterrupt) as stopped:
        command = shlex.join(["featscope", *again, "--resume"])
        why = f" ({stopped})" if str(stopped) else ""
        print(f"interrupted{why}; what was done is saved. Go on with:\n  {command}", file=sys.stderr)
        return 130, []
    if outcome.claims:
        _print_verdicts(study.name, outcome.claims)
    else:
        print(study.headline(outcome.runs, []))
    print(f"report: {page}")
    return 0, outcome.claims


def _print_verdicts(name: str, claims: "Sequence[Claim]") -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    style = {"holds": "green", "fails": "red", "undecided": "yellow"}
    table = Table(title=f"{name}: verdicts (intervals and notes are in the report)", box=box.SIMPLE, padding=(0, 1))
    for heading in ("claim", "arm", "predicted", "measured", "verdict"):
        table.add_column(heading, no_wrap=True)
    for claim in claims:
        against = "" if (claim.verdict == "holds") == claim.expected else "  [bold](unexpected)[/bold]"
        table.add_row(
            claim.id,
            claim.arm,
            f"{claim.relation} {claim.predicted:.3g}" + (f" ± {claim.tolerance:.2g}" if claim.relation == "=" else ""),
            f"{claim.measured:.3g}",
            f"[{style[claim.verdict]}]{claim.verdict}[/]{against}",
        )
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def _report(words: list[str]) -> int:
    directory, rest = _name_and_options(words, "report", "DIR")
    if rest:
        raise ConfigError(f"report takes one folder; {rest[0]!r} is too much")
    _prefer_sleeping_threads()
    from featscope.report.run_report import report_run

    print(f"report: {report_run(Path(directory))}")
    return 0


def _verify(words: list[str]) -> int:
    chosen: _VerifyArgs = _parse(_VerifyArgs, words, "verify")
    _prefer_sleeping_threads()
    from featscope.registry import entries, find
    from featscope.runs.execute import Settings

    names = chosen.studies or tuple(entries())
    kinds = {name: find(name)[1] for name in names}  # all names are checked before anything runs
    out = chosen.out or Path("runs") / f"verify-{datetime.now():%Y%m%d-%H%M%S}"
    missed = []
    for name in names:
        code, claims = _execute(kinds[name](), Settings(), out / name, ["run", name, "--out", str(out / name)])
        if code:
            return code
        missed += [
            f"{name}/{claim.id} ({claim.arm})" for claim in claims if claim.expected and claim.verdict != "holds"
        ]
    if missed:
        print("expected but not holding: " + ", ".join(missed))
    return 1 if chosen.strict and missed else 0


def _generate(words: list[str]) -> int:
    _prefer_sleeping_threads()
    from featscope.language.command import Generate, generate

    generate(_parse(Generate, words, "generate"))
    return 0


def _prefer_sleeping_threads() -> None:
    """Must come before torch is imported."""
    from featscope.threads import wait_without_spinning

    wait_without_spinning()
