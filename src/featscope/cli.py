"""The command line."""

import gc
import os
import signal
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from featscope.options import ConfigError, MissingExtraError
from featscope.system import refused_by_system

USAGE = """\
FeatScope, a microscope for feature learning.

  featscope list [--json]          the studies: name, source, one line, minutes on 2 cores
  featscope list --runs DIR        which runs are below a folder, and what came of them
  featscope show STUDY             what it claims, with sources, and its options with defaults
  featscope run STUDY [options]    run it; the report is DIR/report.html  (options: featscope run STUDY --help)
  featscope sweep STUDY --axis NAME=SPEC ...   run its first arm over options, SPEC = 0.1:1.0:10 or 0.01,0.03;
                                   with --judge judge its claims over one or two: where does a theorem hold?
  featscope trend STUDY [options]  run it at six sizes or more, and say what larger ones would give
  featscope watch DIR              follow a run in a browser as it trains; run, sweep and trend take --watch
  featscope report DIR             rebuild the report from what is stored, without training; also of an unfinished run
  featscope open [DIR]             open the report of a run, or of the newest below runs/, in a browser
  featscope verify [STUDY ...]     run studies at their default size and print the table of verdicts
  featscope new NAME               a package with a study of your own, its test and its entry point
  featscope check STUDY            one step of every arm, every claim and figure: seconds, for authors of studies
  featscope judge DIR              judge a stored run anew, without training, by what its study claims now
  featscope compare DIR DIR ...    what differs between runs of one study: options, versions, claims, curves
  featscope export DIR             what a run measured and judged, as tables (CSV, parquet)
  featscope ledger DIR             a site of all statements of all papers, with what the runs below DIR say of each
  featscope judge TABLE.csv [--json]   are published means, with their errors, apart? verdicts as on one's own runs
  featscope generate --prompt FILE --model MODEL --layer L --keep K   answer a long prompt from a few of its tokens
  featscope tune-prompt --data FILE --model MODEL   which method, layer and keep answer your own prompts, and how fast
  featscope ruler --model MODEL --length N   prompts of RULER's tasks, made here, for tune-prompt --data

Where an option is of several kinds (featscope show STUDY names them), OPTION:KIND takes another one. It comes
last, before its own options: featscope run decoupling --seed 1 optimizer:torch-optimizer --optimizer.lr 0.01

Exit codes: 0 done, 2 wrong usage (or code of your own raised: mend it; that of a claim, then featscope judge DIR),
3 training diverged (or replicas are equal), 4 refused by the system (disk full, no memory; resumable),
130 interrupted (resumable);
1 with 'verify --strict' when an expected claim does not hold.
"""

Command = Callable[[list[str]], int]


class Place(NamedTuple):
    """Where a command is: a module below `featscope.commands`, a function, what it needs and what its first word is."""

    module: str
    function: str
    torch: bool = True
    study_first: bool = False


COMMANDS: Mapping[str, Place] = {
    "list": Place("show", "list_studies", torch=False),
    "show": Place("show", "show", torch=False),
    "run": Place("run", "run_study", study_first=True),
    "sweep": Place("sweep", "sweep", study_first=True),
    "trend": Place("trend", "trend", study_first=True),
    "watch": Place("watch", "watch_run"),
    "report": Place("run", "report"),
    "open": Place("watch", "open_report"),
    "verify": Place("run", "verify", study_first=True),
    "new": Place("new", "new", torch=False),
    "check": Place("run", "check", study_first=True),
    "judge": Place("judge", "judge", torch=False),
    "compare": Place("compare", "compare"),
    "export": Place("stored", "export_run", torch=False),
    "ledger": Place("ledger", "ledger"),
    "generate": Place("generate", "generate"),
    "tune-prompt": Place("tune_prompt", "tune_prompt"),
    "ruler": Place("ruler", "ruler"),
}
"""All commands by their words. Their modules are imported when they are asked for: most need torch, some do not."""
_usual_format = warnings.formatwarning
_LONGEST_WORD = 4096  # as of a path
_WITH_A_VALUE = {"--study", "--format", "--n", "--error-is"}  # of these commands, beside --out
_OF_FOLDERS = {"report", "open", "judge", "compare", "export", "ledger", "watch"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the command `featscope`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            file = not stream.isatty() and "PYTHONIOENCODING" not in os.environ  # or a pipe
            stream.reconfigure(encoding="utf-8" if file else None, errors="replace")  # in a terminal "?" stands for η
    if arguments is None:
        warnings.formatwarning = in_a_line
    code = 0
    try:
        code = _answer(words, alone=arguments is None)
        if code == 130 and arguments is None:  # the process ends: a further Ctrl-C has nothing left to stop
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stdout.flush()  # what cannot be written is said here, not when Python ends
        sys.exit(code)
    except (ConfigError, MissingExtraError) as error:
        print(f"featscope: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("featscope: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(code)  # of a command that was done; else its reader has seen enough
    except Exception as error:
        why = refused_by_system(error)
        if not why and (why := _of_own_code(error)):
            print(f"featscope: {why}", file=sys.stderr)
            sys.exit(2)
        if not why:
            raise
        try:
            sys.stdout.flush()
        except OSError:  # else it is tried again, and said again, when Python ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"featscope: {why}", file=sys.stderr)
        sys.exit(4)


def in_a_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """What FeatScope warns of as its errors are told; others as Python tells them."""
    own = category is UserWarning and Path(filename).is_relative_to(Path(__file__).parent)
    return f"featscope: {message}\n" if own else _usual_format(message, category, filename, lineno, line)


def _answer(words: list[str], alone: bool) -> int:
    """The exit code of a command; ``alone`` where the process is there for it."""
    if not words or words[0] in ("-h", "--help"):
        print(USAGE, end="")
        return 0 if words else 2
    if words[0] == "--version":
        from featscope import __version__

        print(__version__)
        return 0
    place = _place(words[0])
    if words[0] != "generate":  # whose prompt is as long as it is
        _require_readable(words)
    if place.study_first and words[1:] and not words[1].startswith("-"):
        from featscope.registry import entry

        entry(words[1])  # a misspelt name is refused before seconds go into importing torch
    return _command(place, alone)(words[1:])


def _require_readable(words: Sequence[str]) -> None:
    """Refuse what nobody typed, before it is printed back."""
    for before, word in zip(("", *words), words, strict=False):
        unset = word == "--out=" or (not word and before == "--out")
        if unset or (not word and words[0] in _OF_FOLDERS and before not in _WITH_A_VALUE):
            where = "--out" if unset else "DIR"
            raise ConfigError(f"{where} = '' is empty, as an unset variable of a shell is: give it, or leave it out")
        if len(word) > _LONGEST_WORD:
            where = before if before.startswith("--") else "a word"
            raise ConfigError(
                f"{where} = {word[:20]!r}... has {len(word):,} characters: allowed is at most {_LONGEST_WORD:,}. "
                "Shorten it."
            )


def _of_own_code(error: Exception) -> str:
    """What the code of a study raised that is no part of FeatScope, and where; empty for other errors."""
    from featscope.own_code import is_of_own_code, said

    return (
        f"{said(error)}. That is code of your own, or what it gives to FeatScope: mend it there"
        if is_of_own_code(error)
        else ""
    )


def _place(word: str) -> Place:
    """What a word stands for."""
    place = COMMANDS.get(word)
    if place is None:
        raise ConfigError(f"{word!r} is no command: allowed is {', '.join(COMMANDS)}")
    return place


def _command(place: Place, alone: bool) -> Command:
    """The function that is there; ``alone`` where the process is there for nothing else, so that no import is freed."""
    if place.torch:
        _prefer_sleeping_threads()
    module = f"featscope.commands.{place.module}"
    collects = gc.isenabled()
    gc.disable()  # a third of the time to the start went into a million objects that never become garbage
    try:
        found: Command = getattr(import_module(module), place.function)
    finally:
        if collects:
            gc.enable()
    if alone:
        gc.freeze()
    return found


def _prefer_sleeping_threads() -> None:
    """Must come before torch is imported."""
    from featscope.threads import wait_without_spinning

    wait_without_spinning()
