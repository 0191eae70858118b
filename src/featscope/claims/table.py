"""Tables of published means, a comparison or a bound a line."""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from io import StringIO
from itertools import dropwhile
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn, get_args

from featscope.claims.claim import Claim, Relation
from featscope.claims.summary import ErrorKind, Summary
from featscope.options import ConfigError

COLUMNS = {
    "id": "short name, unique together with arm",
    "source": "where it is printed; may be blank",
    "statement": "what is said, in plain words",
    "arm": "what it was measured on; may be blank",
    "mean": "the mean",
    "error": "what is printed behind ±",
    "n": "how many runs the mean is over; blank if that is not known",
    "error_is": f"what the error is: {', '.join(get_args(ErrorKind))}",
    "relation": "how the mean, or the difference, should stand to the bound: <=, >=, < or >",
    "bound": "the bound",
}
"""Columns that a table must have, in any order."""
AGAINST = {
    "against_mean": "the mean that is taken off; blank where there is none",
    "against_error": "its error, of the same kind",
    "against_n": "how many other runs it is over; blank if that is not known",
}
"""Columns that a table may have, for comparisons: all three or none."""

_MOST = 3000  # runs that anybody would do
_RELATIONS: tuple[Relation, ...] = ("<=", ">=", "<", ">")


@dataclass(frozen=True)
class Row:
    """A line of a table.

    Attributes:
        id: short name, unique together with ``arm``.
        source: where it is printed.
        statement: what is said.
        arm: what it was measured on.
        summary: the mean that it is about.
        relation: how it should stand to ``bound``.
        bound: the bound.
        against: what is taken off the mean before, if anything.
    """

    id: str
    source: str
    statement: str
    arm: str
    summary: Summary
    relation: Relation
    bound: float
    against: Summary | None = None

    def read_as(self, n: int | None = None, error_is: ErrorKind | None = None) -> "Row":
        """The row, if every mean were over ``n`` runs, or every error of kind ``error_is``; None leaves it."""

        def changed(summary: Summary) -> Summary:
            return replace(summary, n=n or summary.n, error_is=error_is or summary.error_is)

        against = None if self.against is None else changed(self.against)
        return replace(self, summary=changed(self.summary), against=against)

    @property
    def claim(self) -> Claim:
        """What the row says, judged."""
        about: dict[str, Any] = {"id": self.id, "source": self.source, "statement": self.statement, "arm": self.arm}
        kind = "bound" if self.against is None else "ordering"
        return Claim.from_summary(self.summary, self.relation, self.bound, against=self.against, kind=kind, **about)

    @property
    def runs_needed(self) -> int | None:
        """About how many runs decide it, those of both sides together; None if thousands would not do.

        Where it is not known how many there were: the fewest, equally many on both sides, with which errors as they
        are printed decide it.
        """
        if self.claim.n:
            return self.claim.replicas_needed
        sides = 1 if self.against is None else 2
        decided = (n for n in range(2, _MOST) if self.read_as(n=n).claim.verdict != "undecided")
        return next((sides * n for n in decided), None)


def read_table(path: Path) -> list[Row]:
    """The rows of a CSV file with the columns `COLUMNS`, and `AGAINST` for comparisons.

    Lines at its top that are empty or begin with # are comments.

    Raises:
        ConfigError: the file cannot be read or a cell is not what its column takes; the message names the line.
    """
    try:
        if path.exists() and not (path.is_file() or path.is_fifo()):
            raise ConfigError(f"{path} is no file: allowed is a CSV file in UTF-8, or the folder of a run")
        lines = StringIO(path.read_text(encoding="utf-8-sig")).readlines()  # other ends of lines may stand in a cell
    except (OSError, ValueError) as error:
        why = f"cannot be read ({error.strerror})" if isinstance(error, OSError) else "is not UTF-8 text"
        raise ConfigError(f"{path} {why}: allowed is a CSV file in UTF-8, or the folder of a run") from None
    content = list(dropwhile(lambda line: not line.strip() or line.startswith("#"), lines))
    rows: list[Row] = []
    places: dict[tuple[str, str], int] = {}
    for line in _lines(path, content, len(lines) - len(content)):
        row = line.row()
        first = places.setdefault((row.id, row.arm), line.number)
        if first != line.number:
            line.refuse("id", f"stands in line {first}, with the same arm", "a name that is new", "Change id or arm.")
        rows.append(row)
    if not rows:
        raise ConfigError(f"{path} has no rows: allowed is a line of column names, and one line a claim below it")
    return rows


@dataclass(frozen=True)
class _Line:
    """The cells of a line, by column."""

    path: Path
    number: int
    cells: Mapping[str, str]

    def refuse(self, column: str, problem: str, allowed: str, cure: str) -> NoReturn:
        place = f"{self.path}, line {self.number}, column {column}"
        raise ConfigError(f"{place} = {self.cells.get(column, '')!r} {problem}: allowed is {allowed}. {cure}")

    def row(self) -> Row:
        relation = next((one for one in _RELATIONS if one == self.cells["relation"]), None)
        if relation is None:
            cure = "An equation needs a tolerance: write two bounds, a line each."
            self.refuse("relation", "is no relation", ", ".join(_RELATIONS), cure)
        return Row(
            id=self._words("id"),
            source=self.cells["source"],
            statement=self._words("statement"),
            arm=self.cells["arm"],
            summary=self._summary(""),
            relation=relation,
            bound=self._number("bound", "The bound of a gain is 0."),
            against=self._summary("against_") if any(self.cells.get(column) for column in AGAINST) else None,
        )

    def _words(self, column: str) -> str:
        return self.cells[column] or self.refuse(column, "is blank", COLUMNS[column], "Fill it in.")

    def _number(self, column: str, cure: str) -> float:
        text = self.cells.get(column, "")
        try:
            number = float(text) if "_" not in text else float("nan")
        except ValueError:
            number = float("nan")
        if not isfinite(number):
            self.refuse(column, "is no number" if text else "is blank", "a finite number such as 79.25", cure)
        return number

    def _summary(self, side: str) -> Summary:
        mean = self._number(f"{side}mean", "Mean and error are two columns, without ±.")
        error = self._number(f"{side}error", "A mean without an error decides nothing: leave the line out.")
        if error < 0:
            self.refuse(f"{side}error", "is out of range", ">= 0", "It is half a width: drop the sign.")
        text = self.cells.get(f"{side}n", "")
        if text and not (re.fullmatch(r"[0-9]{1,9}", text) and int(text) >= 2):
            self.refuse(f"{side}n", "is out of range", "a whole number >= 2, or blank", "One run has no error.")
        error_is = next((kind for kind in get_args(ErrorKind) if kind == self.cells["error_is"]), None)
        if error_is is None:
            cure = "If it is not said, choose one and try the others with --error-is."
            self.refuse("error_is", "is no kind of error", ", ".join(get_args(ErrorKind)), cure)
        return Summary(mean, error, int(text) if text else None, error_is)


def _lines(path: Path, content: list[str], above: int) -> Iterator[_Line]:
    """The lines with cells, below that of the names."""
    reader = csv.reader(content, strict=True)
    names: list[str] = []
    try:
        for found in reader:
            cells = [cell.strip() for cell in found]
            number = above + reader.line_num
            if not names:
                _check_names(path, number, cells)
                names = cells
            elif any(cells):
                if len(cells) != len(names):
                    cure = "Cells with a comma stand between double quotes; decimals have a point."
                    allowed = f"{len(names)}, one a column"
                    raise ConfigError(f"{path}, line {number} has {len(cells)} cells: allowed is {allowed}. {cure}")
                yield _Line(path, number, dict(zip(names, cells, strict=True)))
    except csv.Error as error:
        raise ConfigError(f"{path}, line {above + reader.line_num} is no CSV ({error}): check its quotes") from None


def _check_names(path: Path, number: int, names: list[str]) -> None:
    known, place = {**COLUMNS, **AGAINST}, f"{path}, line {number}"
    for name in names:
        if name not in known:
            raise ConfigError(
                f"{place}: column {name!r} is unknown: allowed is {', '.join(known)}, with commas between"
            )
        if names.count(name) > 1:
            raise ConfigError(f"{place}: column {name!r} stands there twice: allowed is once")
    wanted = [*COLUMNS, *(AGAINST if set(AGAINST) & set(names) else ())]
    for name in wanted:
        if name not in names:
            raise ConfigError(f"{place}: column {name!r} is missing ({known[name]}): allowed is {', '.join(wanted)}")
