"""Files of labelled sentences, one a line, as those of TREC, MR, Subj and CR are passed on, and tables of GLUE's."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

SENTENCE_FILES = {"trec": "TREC.train.all", "mr": "rt-polarity.all", "subj": "subj.all", "cr": "custrev.all"}
"""Files of a label, a blank and a sentence a line."""
TREC_TEST = "TREC.test.all"
"""The other file of TREC, whose split is its own."""


_QUOTED = re.compile(r'"((?:[^"]|"")*""(?:[^"]|"")*)"')  # with quotes in it, which is what quotes are set for


def labelled_lines(file: Path) -> list[tuple[str, str]]:
    """Labels and sentences of a file of a label, a blank and a sentence a line.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no UTF-8, or a line has no blank.
    """
    # Not splitlines: sentences hold other characters that it takes for ends of lines.
    filled = [(n, line) for n, line in enumerate(file.read_text("utf-8-sig").split("\n"), 1) if line.strip()]
    for number, line in filled:
        if " " not in line:
            raise ValueError(f"line {number} of {file.name} is no label with a sentence: {line[:60]!r}")
    pairs = [line.partition(" ") for _, line in filled]
    return [(label, text.strip()) for label, _, text in pairs]


def table_rows(file: Path) -> Iterator[dict[str, str]]:
    """Rows of a table by the names of their columns, which stand in its first line with tabs between them.

    A quote is a letter as any other, as in GLUE's tables; but of a field that is written as pandas and `csv` write one
    with quotes in it, within quotes and with each of its own doubled, it is what was written.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no UTF-8, or a line has more or fewer columns than the first.
    """
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        try:
            filled = (row for row in reader if any(field.strip() for field in row))
            names = next(filled, [])
            for row in filled:
                if len(row) != len(names):
                    said = "\t".join(row)[:60]
                    raise ValueError(f"line {reader.line_num} of {file.name} has not {len(names)} columns: {said!r}")
                yield dict(zip(names, map(_unquoted, row), strict=True))
        except (csv.Error, UnicodeDecodeError) as error:
            number = reader.line_num + isinstance(error, UnicodeDecodeError)  # which comes before a line does
            raise ValueError(f"line {number} of {file.name}: {error}") from None


def _unquoted(field: str) -> str:
    said = _QUOTED.fullmatch(field)
    return said[1].replace('""', '"') if said else field
