"""`featscope list` and `featscope show`: what is there, without importing anything heavy.

What `show` prints of a study is its card, a JSON file made when the package is (`make cards`), so that neither torch
nor extras are needed to read it. A study of another package is imported instead.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from featscope.catalogue import Entry
from featscope.commands.parsing import only_name, parse
from featscope.options import require
from featscope.registry import broken, entries, entry, find

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Card = Mapping[str, Any]
"""``statements`` and ``options`` of a study, as `show` prints them."""


@dataclass(frozen=True)
class _ListArgs:
    """The studies that are installed."""

    json: bool = False
    """Print JSON."""
    runs: Path | None = None
    """A folder: print which runs are below it in place of the studies."""

    def __post_init__(self) -> None:
        require(self, "runs", not (self.runs and self.json), "no folder together with --json")


def list_studies(words: list[str]) -> int:
    """Print a table of the studies, or of runs."""
    wanted = parse(_ListArgs, words, "list")
    if wanted.runs is not None:
        from featscope.commands.stored import list_runs

        return list_runs(wanted.runs)
    if wanted.json:
        listed = [asdict(study) for study in entries().values()]
        print(json.dumps([*listed, *({"name": name, "broken": why} for name, why in broken().items())], indent=2))
        return 0
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD)
    table.add_column("study", no_wrap=True)  # to be typed as it stands
    table.add_column("what it is about, and of which paper")
    table.add_column("minutes", justify="right")
    for study in entries().values():
        about = f"{escape(study.summary)}\n[dim]{escape(study.source)}[/dim]"
        table.add_row(study.name, about, f"{study.minutes:g}")
    Console().print(table)
    for name, why in broken().items():
        print(f"{name}: broken, {why}")
    return 0


def show(words: list[str]) -> int:
    """Print what a study claims, and its options."""
    from rich.console import Console
    from rich.markup import escape
    from rich.padding import Padding
    from rich.text import Text

    name = only_name(words, "show", "STUDY")
    about = entry(name)
    card = stored_card(about)
    console = Console(highlight=False)
    console.print(f"[bold]{about.name}[/bold]  {escape(about.summary)}\n{escape(about.source)}\n")
    for statement in card["statements"]:
        expected = "" if statement["expected"] else "  [italic](not expected to hold at this size)[/italic]"
        title, *details = statement["lines"]
        console.print(f"[bold]{escape(title)}[/bold]{expected}")
        for line in details:
            console.print(f"  {line}", markup=False)
        console.print(f"  {statement['source']}; {statement['id']}", markup=False, style="dim")
        if statement["note"]:
            console.print(f"  Note: {statement['note']}", markup=False, style="dim")
    console.print("\n[bold]options[/bold]")
    for option in card["options"]:
        console.print(f"  {option['option']}", markup=False)
        if option["about"]:
            console.print(Padding(Text(option["about"], style="dim"), (0, 0, 0, 6), expand=False))
    if card["kinds"]:
        console.print("\n[bold]other kinds[/bold], named last on the line, before their own options")
        for kinds in card["kinds"]:
            console.print(f"  {kinds}", markup=False)
    return 0


def stored_card(study: Entry) -> Card:
    """The card that comes with the package; of a study that has none, a new one."""
    stored = files("featscope") / "cards" / f"{study.name}.json"
    if study.target.startswith("featscope.") and stored.is_file():
        return json.loads(stored.read_text(encoding="utf-8"))
    return card_of(study.name)


def card_of(name: str) -> Card:
    """The card of the study called ``name``, from the study itself."""
    from featscope.report.ledger_order import printed
    from featscope.tex import in_unicode

    _, kind = find(name)
    statements = []
    for statement in sorted(kind.statements(), key=lambda one: not printed(one.source)):  # what papers say comes first
        lines = [f"{statement.title}."]
        lines += [statement.text] if statement.text != statement.title else []
        lines += [f"Measured: {statement.measured}"] if statement.measured else []
        about = {"id": statement.id, "source": statement.source, "expected": statement.expected}
        said = {"lines": [in_unicode(line) for line in lines], "note": in_unicode(statement.note)}
        statements.append(about | said)
    kinds = []
    for option, hint in get_type_hints(kind, include_extras=True).items():
        if option in kind.__dataclass_fields__ and any(is_dataclass(one) for one in get_args(hint)):
            kinds.append(", ".join(f"{option}:{_kind_word(one)}" for one in get_args(hint)))
    return {"statements": statements, "options": _options(kind(), "--"), "kinds": kinds}


def _kind_word(kind: type) -> str:
    """How tyro spells a class on the command line."""
    return "none" if kind is type(None) else re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind.__name__).lower()


def _options(config: "DataclassInstance", prefix: str) -> list[dict[str, str]]:
    """Every option of ``config`` and of its parts, as typed, with its default and what its class says of it."""
    from docstring_parser import parse_from_object

    bases = [base for base in reversed(type(config).__mro__) if is_dataclass(base)]
    said = {each.arg_name: each.description for base in bases for each in parse_from_object(base).params}
    options: list[dict[str, str]] = []
    for field in fields(config):
        option, value = prefix + field.name.replace("_", "-"), getattr(config, field.name)
        of_parts = is_dataclass(value) and not isinstance(value, type)
        typed = " ".join(map(str, value)) if isinstance(value, tuple) and value else value
        shown = f"{option}: {type(value).__name__}" if of_parts else f"{option} = {typed}"
        options.append({"option": shown, "about": " ".join((said.get(field.name) or "").split())})
        if of_parts:
            options += _options(value, f"{option}.")
    return options
